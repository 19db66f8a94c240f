//! Sentences whose words have labels, such as the names in a text.
//!
//! A folder has `train.txt` and `dev.txt`, and optionally `test.txt` (or `.conll`), with a word, a tab and its label in
//! each line and a blank line after each sentence; of more columns the first is the word and the last the label, and
//! spaces may stand for tabs. Or it has `train.jsonl`, `dev.jsonl` and `test.jsonl` with an object in each line, the
//! words in `tokens` and their labels in `labels`. The optional `class.txt` holds the names of labels, one per line;
//! without it they are those of the training sentences, `O` first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};
use serde_json::Value;

use crate::files::{numbered_lines, quoted, read_text};

/// The label of words that belong to nothing.
const OUTSIDE: &str = "O";

/// Endings of files, in order of precedence.
const ENDINGS: [&str; 3] = ["txt", "conll", "jsonl"];

/// The line between documents in CoNLL's files, which is no sentence.
const DOCUMENT: &str = "-DOCSTART-";

/// One split: sentences as words, and the number of each word's label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentences {
    /// The words of each sentence; none is empty.
    pub words: Vec<Vec<String>>,
    /// The label of each word.
    pub labels: Vec<Vec<i32>>,
}

/// Sentences with labels: the splits, and the names of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Tagged {
    /// The training split.
    pub train: Sentences,
    /// The development split.
    pub dev: Sentences,
    /// The test split, if the folder has one.
    pub test: Option<Sentences>,
    /// The names of labels, in the order of their numbers.
    pub names: Vec<String>,
}

impl Tagged {
    /// Returns the split `train`, `dev` or `test`.
    ///
    /// # Errors
    /// An unknown name, or `test` without a test split.
    pub fn split(&self, name: &str) -> Result<&Sentences> {
        match (name, &self.test) {
            ("train", _) => Ok(&self.train),
            ("dev", _) => Ok(&self.dev),
            ("test", Some(test)) => Ok(test),
            (_, test) => {
                let known = if test.is_some() {
                    "train, dev, test"
                } else {
                    "train, dev"
                };
                Err(Error::user(format!(
                    "this data has no split called {name}; choose one of {known}"
                )))
            }
        }
    }

    /// All words of the training split, to build a vocabulary.
    pub fn train_words(&self) -> impl Iterator<Item = &str> {
        self.train.words.iter().flatten().map(String::as_str)
    }
}

/// Sentences with the names of labels, as a file has them, and where each label stands.
struct Named {
    path: PathBuf,
    sentences: Vec<Vec<(String, String)>>,
    /// The line of each sentence's first word.
    lines: Vec<usize>,
}

/// Reads a folder.
///
/// # Errors
/// A missing, empty or damaged file; a word without a label; a label that `class.txt` or the training split does not
/// have. The message names file and line.
pub fn read(dir: &Path) -> Result<Tagged> {
    let needed = |split: &str| {
        file(dir, split).ok_or_else(|| {
            Error::user(format!(
                "there is no {split}.txt, {split}.conll or {split}.jsonl in {}; add the file",
                dir.display()
            ))
        })
    };
    let (train, dev) = (sentences(needed("train")?)?, sentences(needed("dev")?)?);
    let test = file(dir, "test").map(sentences).transpose()?;
    let listed = dir.join("class.txt");
    let (names, source) = if listed.exists() {
        let text = read_text(&listed)?;
        let names = numbered_lines(&text).map(|(_, line)| line.trim().to_string());
        (names.filter(|name| !name.is_empty()).collect(), listed)
    } else {
        (names_of(&train), train.path.clone())
    };
    if names.len() < 2 {
        return Err(Error::user(format!(
            "{} has fewer than two labels, and there is nothing to tell apart; give at least two",
            source.display()
        )));
    }
    let numbers: HashMap<&str, i32> = names.iter().map(String::as_str).zip(0..).collect();
    let number = |named| numbered(named, &numbers, &source);
    Ok(Tagged {
        train: number(train)?,
        dev: number(dev)?,
        test: test.map(number).transpose()?,
        names,
    })
}

/// The labels of sentences: `O` first, the others in order.
fn names_of(sentences: &Named) -> Vec<String> {
    let words = sentences.sentences.iter().flatten();
    let mut names: Vec<String> = words.map(|(_, label)| label.clone()).collect();
    names.sort_by(|a, b| (a != OUTSIDE, a).cmp(&(b != OUTSIDE, b)));
    names.dedup();
    names
}

fn file(dir: &Path, split: &str) -> Option<PathBuf> {
    let paths = ENDINGS.map(|ending| dir.join(format!("{split}.{ending}")));
    paths.into_iter().find(|path| path.exists())
}

fn numbered(named: Named, numbers: &HashMap<&str, i32>, source: &Path) -> Result<Sentences> {
    let mut split = Sentences::default();
    for (sentence, line) in named.sentences.into_iter().zip(named.lines) {
        let mut labels = Vec::with_capacity(sentence.len());
        let mut words = Vec::with_capacity(sentence.len());
        for (word, label) in sentence {
            let Some(&number) = numbers.get(label.as_str()) else {
                return Err(Error::user(format!(
                    "{}: the sentence of line {line} has the label {}, which {} does not have; correct one of the two",
                    named.path.display(),
                    quoted(&label),
                    source.file_name().unwrap_or_default().display()
                )));
            };
            labels.push(number);
            words.push(word);
        }
        split.words.push(words);
        split.labels.push(labels);
    }
    Ok(split)
}

fn sentences(path: PathBuf) -> Result<Named> {
    let text = read_text(&path)?;
    let mut named = Named {
        sentences: Vec::new(),
        lines: Vec::new(),
        path,
    };
    let is_json = named.path.extension().is_some_and(|ending| ending == "jsonl");
    let mut open = false;
    for (number, line) in numbered_lines(&text) {
        if line.trim().is_empty() {
            open = false;
            continue;
        }
        let wrong = |what: &str| Err(Error::user(format!("{} line {number} {what}", named.path.display())));
        if is_json {
            let Some(sentence) = object(line) else {
                return wrong("is no object with as many words in `tokens` as labels in `labels`; correct it");
            };
            named.sentences.push(sentence);
            named.lines.push(number);
            continue;
        }
        let separator = if line.contains('\t') { '\t' } else { ' ' };
        let columns = || line.split(separator).map(str::trim).filter(|column| !column.is_empty());
        let (Some(word), Some(label)) = (columns().next(), columns().nth(1).and(columns().next_back())) else {
            return wrong("has no label; write a word, a tab and its label, and a blank line between sentences");
        };
        if word == DOCUMENT {
            open = false;
            continue;
        }
        if !open {
            named.sentences.push(Vec::new());
            named.lines.push(number);
            open = true;
        }
        named
            .sentences
            .last_mut()
            .expect("a sentence is open")
            .push((word.to_string(), label.to_string()));
    }
    match named.sentences.is_empty() {
        true => Err(Error::user(format!(
            "{} has no sentences; add some",
            named.path.display()
        ))),
        false => Ok(named),
    }
}

/// The words and labels of a line of JSON; none where they do not match or there are none.
fn object(line: &str) -> Option<Vec<(String, String)>> {
    let value: Value = serde_json::from_str(line).ok()?;
    let list = |key: &str| value.get(key)?.as_array();
    let (words, labels) = (list("tokens")?, list("labels").or_else(|| list("ner_tags"))?);
    if words.len() != labels.len() || words.is_empty() {
        return None;
    }
    let pairs = words.iter().zip(labels);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    pairs.map(|(word, label)| Some((text(word)?, text(label)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn folder(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        files
            .iter()
            .for_each(|(name, text)| fs::write(dir.path().join(name), text).unwrap());
        dir
    }

    const TRAIN: &str = "-DOCSTART- -X- O O\n\nAda\tB-PER\nLovelace\tI-PER\nwrote\tO\n\n\nRome NNP B-LOC\nfell VBD O\n";

    #[test]
    fn sentences_are_read_from_columns_and_from_json() {
        let json = "{\"tokens\": [\"Ada\", 5], \"labels\": [\"B-PER\", \"O\"]}\n";
        let dir = folder(&[("train.conll", TRAIN), ("dev.jsonl", json)]);
        let data = read(dir.path()).unwrap();
        assert_eq!(data.names, ["O", "B-LOC", "B-PER", "I-PER"]);
        assert_eq!(
            data.train.words,
            [vec!["Ada", "Lovelace", "wrote"], vec!["Rome", "fell"]]
        );
        assert_eq!(data.train.labels, [vec![2, 3, 0], vec![1, 0]]);
        assert_eq!(data.split("dev").unwrap().words, [["Ada", "5"]]);
        assert_eq!(data.split("dev").unwrap().labels, [[2, 0]]);
        assert!(
            data.split("test")
                .unwrap_err()
                .to_string()
                .ends_with("no split called test; choose one of train, dev")
        );
    }

    #[test]
    fn every_mistake_names_file_and_line() {
        let message = |files: &[(&str, &str)]| {
            let dir = folder(files);
            let message = read(dir.path()).unwrap_err().to_string();
            message.replace(&format!("{}/", dir.path().display()), "")
        };
        assert!(message(&[("dev.txt", TRAIN)]).starts_with("there is no train.txt, train.conll or train.jsonl in "));
        assert_eq!(
            message(&[("train.txt", "Ada\tO\nb\n"), ("dev.txt", TRAIN)]),
            "train.txt line 2 has no label; write a word, a tab and its label, and a blank line between sentences"
        );
        assert_eq!(
            message(&[("train.txt", TRAIN), ("dev.txt", "\nAda\tB-ORG\n")]),
            "dev.txt: the sentence of line 2 has the label 'B-ORG', which train.txt does not have; correct one of the two"
        );
        let json = "{\"tokens\": [\"a\"], \"labels\": []}";
        assert!(
            message(&[("train.txt", TRAIN), ("dev.jsonl", json)]).starts_with("dev.jsonl line 1 is no object with")
        );
        assert!(
            message(&[("train.txt", "a O\n"), ("dev.txt", "a O\n")]).starts_with("train.txt has fewer than two labels")
        );
        assert!(
            message(&[("train.txt", "-DOCSTART- -X- O O\n\n"), ("dev.txt", TRAIN)])
                .contains("train.txt has no sentences")
        );
    }
}
