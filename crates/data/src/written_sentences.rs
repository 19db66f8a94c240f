//! Sentences of words as files have them: a word in each line, or an object of JSON in each line.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::json_object::{self, Object};
use crate::lines::Lines;

/// The line between documents in CoNLL's files, which is no sentence.
const DOCUMENT: &str = "-DOCSTART-";

/// A sentence in memory whose words have labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedWords {
    /// The words.
    pub words: Vec<String>,
    /// The name of each word's label.
    pub labels: Vec<String>,
}

/// A file of sentences with labels, or sentences in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SentenceFile {
    Path(PathBuf),
    /// The sentences, and their name in messages.
    InMemory(Arc<[TaggedWords]>, &'static Path),
}

impl SentenceFile {
    /// The path, or the name in messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            SentenceFile::Path(path) => path,
            SentenceFile::InMemory(_, name) => name,
        }
    }

    /// The sentences with labels, those without words among them. After an error there are none.
    pub(crate) fn all(&self) -> Result<Box<dyn Iterator<Item = Result<Written>>>> {
        Ok(match self {
            SentenceFile::Path(path) => Box::new(Reader::open(path, true)?),
            SentenceFile::InMemory(sentences, name) => {
                let (sentences, name) = (sentences.clone(), *name);
                Box::new((0..sentences.len()).map(move |at| sentences[at].written(at + 1, name)))
            }
        })
    }

    /// The sentences with labels that have words, one at least. After an error there are none.
    pub(crate) fn with_words(&self) -> Result<impl Iterator<Item = Result<Written>> + use<>> {
        let has_words = |sentence: &Result<Written>| !matches!(sentence, Ok(own) if own.words.is_empty());
        Ok(one_at_least(self.all()?.filter(has_words), self.path()))
    }
}

impl TaggedWords {
    fn written(&self, line: usize, name: &Path) -> Result<Written> {
        let (words, labels) = (self.words.len(), self.labels.len());
        if words != labels {
            return Err(Error::user(format!(
                "{} row {line} has {words} words but {labels} labels; give each word a label",
                name.display()
            )));
        }
        Ok(Written {
            line,
            words: self.words.clone(),
            labels: self.labels.clone(),
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
/// A file that cannot be opened or read.
pub fn words_of(path: &Path) -> Result<impl Iterator<Item = Result<Vec<String>>> + use<>> {
    let all = one_at_least(Reader::open(path, false)?, path);
    Ok(all.map(|sentence| sentence.map(|sentence| sentence.words)))
}

/// Sentences of a file, of which there is one at least.
fn one_at_least<I>(mut all: I, path: &Path) -> impl Iterator<Item = Result<Written>> + use<I>
where
    I: Iterator<Item = Result<Written>>,
{
    let first = all
        .next()
        .unwrap_or_else(|| Err(Error::user(format!("{} has no sentences; add some", path.display()))));
    std::iter::once(first).chain(all)
}

/// The columns of a file with a word in each line.
struct Layout {
    /// What stands between the columns of the first word's line, and the number of its columns.
    separator: char,
    columns: usize,
    /// What stands in the last columns of lines that do not begin with `#`.
    labels: HashSet<String>,
}

impl Layout {
    fn of(path: &Path) -> Result<Layout> {
        let (mut layout, mut has_signs) = (None, false);
        for line in Lines::open(path)? {
            let (_, line) = line?;
            if line.starts_with('#') {
                has_signs = true;
            } else if !ends_sentence(&line) {
                let (separator, columns) = (separator_of(&line), columns_of(&line).count());
                layout.get_or_insert((separator, columns));
            }
        }
        let (separator, columns) = layout.unwrap_or((' ', 1));
        let mut labels = HashSet::new();
        if has_signs && separator == ' ' && columns > 1 {
            for line in Lines::open(path)? {
                let (_, line) = line?;
                if !line.starts_with('#') && !ends_sentence(&line) {
                    labels.extend(columns_of(&line).last().map(str::to_string));
                }
            }
        }
        Ok(Layout {
            separator,
            columns,
            labels,
        })
    }

    /// Whether a line is a comment, such as `# text = Ada wrote`: it begins with `#` and is not written as the lines of
    /// words are, with their number of columns and, where spaces separate these, one of their labels.
    fn is_comment(&self, line: &str) -> bool {
        if !line.starts_with('#') {
            return false;
        }
        let is_separated = self.columns == 1 || separator_of(line) == self.separator;
        let is_alike = is_separated && columns_of(line).count() == self.columns;
        let has_label = || columns_of(line).last().is_some_and(|label| self.labels.contains(label));
        !(is_alike && (self.separator == '\t' || self.columns == 1 || has_label()))
    }
}

/// Whether a line stands between sentences.
fn ends_sentence(line: &str) -> bool {
    line.trim().is_empty() || line.split(['\t', ' ']).next() == Some(DOCUMENT)
}

fn separator_of(line: &str) -> char {
    if line.contains('\t') { '\t' } else { ' ' }
}

fn columns_of(line: &str) -> impl DoubleEndedIterator<Item = &str> {
    let columns = line.split(separator_of(line)).map(str::trim);
    columns.filter(|column| !column.is_empty())
}

/// The sentences of a file, those without words among them. After an error there are none.
struct Reader {
    lines: Lines,
    path: PathBuf,
    /// None for objects of JSON.
    layout: Option<Layout>,
    with_labels: bool,
    ended: bool,
}

impl Reader {
    fn open(path: &Path, with_labels: bool) -> Result<Reader> {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        let is_json = ["jsonl", "ndjson", "json"].iter().any(|json| ending == *json);
        Ok(Reader {
            layout: if is_json { None } else { Some(Layout::of(path)?) },
            lines: Lines::open(path)?,
            path: path.to_path_buf(),
            with_labels,
            ended: false,
        })
    }

    /// The next sentence; none at the end.
    fn read(&mut self) -> Result<Option<Written>> {
        let mut open: Option<Written> = None;
        for line in &mut self.lines {
            let (number, line) = line?;
            if ends_sentence(&line) {
                if open.is_some() {
                    return Ok(open);
                }
                continue;
            }
            let wrong = |what: &str| Err(Error::user(format!("{} line {number} {what}", self.path.display())));
            let Some(layout) = &self.layout else {
                return match object(&line, self.with_labels) {
                    Ok((words, labels)) => Ok(Some(Written {
                        line: number,
                        words,
                        labels,
                    })),
                    Err(what) => wrong(&what),
                };
            };
            if layout.is_comment(&line) {
                continue;
            }
            let mut columns = columns_of(&line);
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

/// The words and labels of a line of JSON, or what is wrong with it.
fn object(line: &str, with_labels: bool) -> std::result::Result<(Vec<String>, Vec<String>), String> {
    let object = Object::of(line).ok();
    let list = |key: &str, one: fn(&serde_json::value::RawValue) -> Option<String>| -> Option<Vec<String>> {
        let values = json_object::list(object.as_ref()?.get(key)?)?;
        values.into_iter().map(one).collect()
    };
    let words = list("tokens", json_object::written);
    if with_labels {
        let labels = list("labels", json_object::word).or_else(|| list("ner_tags", json_object::word));
        return match (words, labels) {
            (Some(words), Some(labels)) if words.len() == labels.len() => Ok((words, labels)),
            (Some(words), Some(labels)) => Err(format!(
                "has {} words in `tokens` but {} labels; write a label for each word",
                words.len(),
                labels.len()
            )),
            _ => Err("is no object with as many words in `tokens` as labels in `labels`; correct it".to_string()),
        };
    }
    let text = || json_object::text(object.as_ref()?.get("text")?);
    match words.or_else(|| text().map(|text| split_words(&text))) {
        Some(words) => Ok((words, Vec::new())),
        None => Err("is no object with words in `tokens` or a `text`; correct it".to_string()),
    }
}

/// The words of a text: what stands between white space.
pub fn split_words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The sentences of a file, each as `word/label` with spaces between, or the error.
    fn read(name: &str, text: &str, with_labels: bool) -> std::result::Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let shown = |sentence: Written| {
            let words = sentence.words.iter().enumerate();
            let words = words.map(|(at, word)| match sentence.labels.get(at) {
                Some(label) => format!("{word}/{label}"),
                None => word.clone(),
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let all = match with_labels {
            true => SentenceFile::Path(path.clone())
                .with_words()
                .map(|all| all.collect::<Result<Vec<_>>>()),
            false => Reader::open(&path, false).map(|all| one_at_least(all, &path).collect()),
        };
        let found = all.flatten().map(|all| all.into_iter().map(shown).collect());
        found.map_err(|error| error.to_string().replace(&format!("{}/", dir.path().display()), ""))
    }

    #[test]
    fn comments_are_no_words_and_the_sign_number_is_one() {
        for (text, expected) in [
            // As CoNLL-U has them.
            (
                "# newdoc\n# sent_id = 1\n# text = Ada wrote\nAda\tB-PER\nwrote\tO\n\n# sent_id = 2\nRome\tB-LOC\n",
                &["Ada/B-PER wrote/O", "Rome/B-LOC"][..],
            ),
            // Words that begin with the sign.
            ("#\tO\n#love\tO\nAda\tB-PER\n", &["#/O #love/O Ada/B-PER"]),
            ("Ada\tB-PER\n#\tO\n1\tO\n", &["Ada/B-PER #/O 1/O"]),
            // Of two columns with a space between, the label decides.
            ("# id\nAda B-PER\n# O\nwrote O\n", &["Ada/B-PER #/O wrote/O"]),
            ("#id 7\nAda B-PER\nwrote O\n", &["Ada/B-PER wrote/O"]),
            // Of four columns, too.
            (
                "# text = Ada\nAda NNP I-NP B-PER\n# # B-NP O\nis VB B-VP O\n",
                &["Ada/B-PER #/O is/O"],
            ),
            // A comment within a sentence and one alone.
            (
                "Ada\tB-PER\n# here\nwrote\tO\n\n# alone\n\nRome\tB-LOC\n",
                &["Ada/B-PER wrote/O", "Rome/B-LOC"],
            ),
            (
                "#begin document (bc/cctv); part 000\nAda\tB-PER\n\n#end document\n",
                &["Ada/B-PER"],
            ),
            ("-DOCSTART- -X- O O\n\n#hash NN O O\nAda NN O O\n", &["#hash/O Ada/O"]),
        ] {
            assert_eq!(read("a.conll", text, true).unwrap(), expected, "{text}");
        }
        // Without labels.
        for (text, expected) in [
            ("# text = Ada wrote\nAda\nwrote\n\n#\n1\n", &["Ada wrote", "# 1"][..]),
            ("# id\n#love\nis\n", &["#love is"]),
            ("# id 1\nAda\tO\n#\tO\n", &["Ada #"]),
        ] {
            assert_eq!(read("a.conll", text, false).unwrap(), expected, "{text}");
        }
        assert_eq!(
            read("a.txt", "# only\n# comments\n", true).unwrap_err(),
            "a.txt has no sentences; add some"
        );
    }

    #[test]
    fn empty_sentences_of_json_are_left_out_where_labels_are_asked_for() {
        let text = "{\"tokens\":[],\"labels\":[]}\n{\"tokens\":[\"Ada\",1.50],\"labels\":[\"B-PER\",0]}\n";
        assert_eq!(read("a.jsonl", text, true).unwrap(), ["Ada/B-PER 1.50/0"]);
        assert_eq!(read("a.jsonl", text, false).unwrap(), ["", "Ada 1.50"]);
        assert_eq!(
            read("a.jsonl", "{\"tokens\":[],\"labels\":[]}\n", true).unwrap_err(),
            "a.jsonl has no sentences; add some"
        );
        assert_eq!(
            read("a.jsonl", "{\"tokens\":[],\"labels\":[\"O\"]}\n", true).unwrap_err(),
            "a.jsonl line 1 has 0 words in `tokens` but 1 labels; write a label for each word"
        );
        let big = "{\"tokens\":[\"a\",\"b\"],\"ner_tags\":[12345678901234567890123,12345678901234567890124]}\n";
        assert_eq!(
            read("a.jsonl", big, true).unwrap(),
            ["a/12345678901234567890123 b/12345678901234567890124"]
        );
    }
}
