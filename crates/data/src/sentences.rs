//! Sentences as words, read from a file one after another and as often as needed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};
use serde_json::Value;

use crate::cache::key_of_files;
use crate::exactly::Exactly;
use crate::files::quoted;
use crate::lines::Lines;

/// The line between documents in CoNLL's files, which is no sentence.
const DOCUMENT: &str = "-DOCSTART-";

/// A sentence as words, and the number of each word's label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentence {
    /// The words; none is empty.
    pub words: Vec<String>,
    /// The label of each word.
    pub labels: Vec<i32>,
}

/// One split: sentences whose words have labels. Sentences of a file are read when they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentences {
    place: Place,
    count: usize,
    /// The number of labels.
    classes: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    InMemory(Arc<[Sentence]>),
    InFile(Arc<Path>, Arc<Numbers>),
}

/// The numbers of labels, and the file that their names are from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) of: HashMap<String, i32>,
    pub(crate) source: PathBuf,
}

impl Sentences {
    /// Makes a split of sentences in memory.
    pub fn new(sentences: Vec<Sentence>) -> Sentences {
        let largest = sentences.iter().flat_map(|sentence| &sentence.labels).max();
        Sentences {
            count: sentences.len(),
            classes: largest.map_or(0, |label| (*label).max(0) as usize + 1),
            place: Place::InMemory(sentences.into()),
        }
    }

    /// Makes a split of the sentences of a file, which are read once to count them.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged, and a label without number.
    pub(crate) fn of_file(path: &Path, numbers: Arc<Numbers>) -> Result<Sentences> {
        let mut split = Sentences {
            count: 0,
            classes: numbers.of.len(),
            place: Place::InFile(path.into(), numbers.clone()),
        };
        for sentence in written(path, true)? {
            numbers.sentence(path, sentence?)?;
            split.count += 1;
        }
        Ok(split)
    }

    /// Returns the number of sentences.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no sentences.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the sentences in order. A file that is not as it was gives an error, after which there is nothing
    /// more.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Result<Sentence>> + '_> {
        match &self.place {
            Place::InMemory(sentences) => Box::new(sentences.iter().cloned().map(Ok)),
            Place::InFile(path, numbers) => match written(path, true) {
                Err(error) => Box::new(std::iter::once(Err(error))),
                Ok(sentences) => {
                    let sentences = sentences.map(|sentence| numbers.sentence(path, sentence?));
                    Box::new(Exactly::new(sentences, self.count, path))
                }
            },
        }
    }

    /// The number of labels.
    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// The size in bytes of the file; 0 in memory.
    pub(crate) fn file_bytes(&self) -> u64 {
        match &self.place {
            Place::InMemory(_) => 0,
            Place::InFile(path, _) => fs::metadata(path).map_or(0, |about| about.len()),
        }
    }

    /// What tells sentences in a file from others.
    pub(crate) fn key(&self) -> String {
        match &self.place {
            Place::InMemory(_) => String::new(),
            Place::InFile(path, numbers) => {
                let mut names: Vec<_> = numbers.of.iter().map(|(name, number)| (number, name)).collect();
                names.sort_unstable();
                format!("{names:?}\n{}", key_of_files([&**path]))
            }
        }
    }
}

impl Numbers {
    fn sentence(&self, path: &Path, sentence: Written) -> Result<Sentence> {
        let number = |label: &String| {
            self.of.get(label).copied().ok_or_else(|| {
                Error::user(format!(
                    "{}: the sentence of line {} has the label {}, which {} does not have; correct one of the two",
                    path.display(),
                    sentence.line,
                    quoted(label),
                    self.source.file_name().unwrap_or_default().display()
                ))
            })
        };
        Ok(Sentence {
            labels: sentence.labels.iter().map(number).collect::<Result<_>>()?,
            words: sentence.words,
        })
    }
}

/// A sentence as a file has it.
pub(crate) struct Written {
    /// The line of its first word.
    pub(crate) line: usize,
    pub(crate) words: Vec<String>,
    /// Empty where labels are not asked for.
    pub(crate) labels: Vec<String>,
}

/// The words of the sentences in a file, with labels or without: a word in each line, in the first column, and a blank
/// line after each sentence, or in `.jsonl` an object in each line with the words in `tokens` or a `text`.
///
/// # Errors
/// A file that cannot be opened.
pub fn words_of(path: &Path) -> Result<impl Iterator<Item = Result<Vec<String>>> + use<>> {
    Ok(written(path, false)?.map(|sentence| sentence.map(|sentence| sentence.words)))
}

/// The sentences of a file, one at least. After an error there are none.
pub(crate) fn written(path: &Path, with_labels: bool) -> Result<impl Iterator<Item = Result<Written>> + use<>> {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    let mut reader = Reader {
        lines: Lines::open(path)?,
        path: path.to_path_buf(),
        is_json: ["jsonl", "ndjson", "json"].iter().any(|json| ending == *json),
        with_labels,
        ended: false,
    };
    let first = reader
        .next()
        .unwrap_or_else(|| Err(Error::user(format!("{} has no sentences; add some", path.display()))));
    Ok(std::iter::once(first).chain(reader))
}

struct Reader {
    lines: Lines,
    path: PathBuf,
    is_json: bool,
    with_labels: bool,
    ended: bool,
}

impl Reader {
    /// The next sentence; none at the end.
    fn read(&mut self) -> Result<Option<Written>> {
        let mut open: Option<Written> = None;
        for line in &mut self.lines {
            let (number, line) = line?;
            if line.trim().is_empty() || line.split(['\t', ' ']).next() == Some(DOCUMENT) {
                if open.is_some() {
                    return Ok(open);
                }
                continue;
            }
            let wrong = |what: &str| Err(Error::user(format!("{} line {number} {what}", self.path.display())));
            if self.is_json {
                let Some((words, labels)) = object(&line, self.with_labels) else {
                    return wrong(if self.with_labels {
                        "is no object with as many words in `tokens` as labels in `labels`; correct it"
                    } else {
                        "is no object with words in `tokens` or a `text`; correct it"
                    });
                };
                return Ok(Some(Written {
                    line: number,
                    words,
                    labels,
                }));
            }
            let separator = if line.contains('\t') { '\t' } else { ' ' };
            let mut columns = line.split(separator).map(str::trim).filter(|column| !column.is_empty());
            let (word, label) = (columns.next(), columns.next_back());
            let sentence = open.get_or_insert(Written {
                line: number,
                words: Vec::new(),
                labels: Vec::new(),
            });
            match (word, label) {
                (Some(word), Some(label)) if self.with_labels => {
                    sentence.words.push(word.to_string());
                    sentence.labels.push(label.to_string());
                }
                (Some(word), _) if !self.with_labels => sentence.words.push(word.to_string()),
                _ => {
                    return wrong(
                        "has no label; write a word, a tab and its label, and a blank line between sentences",
                    );
                }
            }
        }
        Ok(open)
    }
}

impl Iterator for Reader {
    type Item = Result<Written>;

    fn next(&mut self) -> Option<Result<Written>> {
        if self.ended {
            return None;
        }
        let sentence = self.read();
        self.ended = !matches!(sentence, Ok(Some(_)));
        sentence.transpose()
    }
}

/// The words and labels of a line of JSON; none where they do not match or there are none.
fn object(line: &str, with_labels: bool) -> Option<(Vec<String>, Vec<String>)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let list = |key: &str| value.get(key)?.as_array()?.iter().map(text).collect::<Option<Vec<_>>>();
    if with_labels {
        let (words, labels) = (list("tokens")?, list("labels").or_else(|| list("ner_tags"))?);
        return (words.len() == labels.len() && !words.is_empty()).then_some((words, labels));
    }
    let words = || value.get("text")?.as_str().map(split_words);
    Some((list("tokens").or_else(words)?, Vec::new()))
}

/// The words of a text: what stands between white space.
pub fn split_words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}
