//! Sentences whose words have labels, such as the names in a text.
//!
//! A folder has `train.txt` and `dev.txt`, and optionally `test.txt` (or `.conll`), with a word, a tab and its label in
//! each line and a blank line after each sentence; of more columns the first is the word and the last the label, and
//! spaces may stand for tabs. Or it has `train.jsonl`, `dev.jsonl` and `test.jsonl` with an object in each line, the
//! words in `tokens` and their labels in `labels`. The optional `class.txt` holds the names of labels, one per line;
//! without it they are those of the training sentences, `O` first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::files::{numbered_lines, read_text};
use crate::sentences::{Numbers, written};

pub use crate::sentences::{Sentence, Sentences, split_words, words_of};

/// The label of words that belong to nothing.
const OUTSIDE: &str = "O";

/// Endings of files, in order of precedence.
const ENDINGS: [&str; 3] = ["txt", "conll", "jsonl"];

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
    let (train, dev) = (needed("train")?, needed("dev")?);
    let listed = dir.join("class.txt");
    let (names, source) = if listed.exists() {
        let text = read_text(&listed)?;
        let names = numbered_lines(&text).map(|(_, line)| line.trim().to_string());
        (names.filter(|name| !name.is_empty()).collect(), listed)
    } else {
        (names_of(&train)?, train.clone())
    };
    if names.len() < 2 {
        return Err(Error::user(format!(
            "{} has fewer than two labels, and there is nothing to tell apart; give at least two",
            source.display()
        )));
    }
    let numbers = Arc::new(Numbers {
        of: names.iter().cloned().zip(0..).collect(),
        source,
    });
    let read = |path: PathBuf| Sentences::of_file(&path, numbers.clone());
    Ok(Tagged {
        train: read(train)?,
        dev: read(dev)?,
        test: file(dir, "test").map(read).transpose()?,
        names,
    })
}

/// The labels of the sentences in a file: `O` first, the others in order.
fn names_of(path: &Path) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for sentence in written(path, true)? {
        names.extend(sentence?.labels);
    }
    let outside = names.take(OUTSIDE);
    Ok(outside.into_iter().chain(names).collect())
}

fn file(dir: &Path, split: &str) -> Option<PathBuf> {
    let paths = ENDINGS.map(|ending| dir.join(format!("{split}.{ending}")));
    paths.into_iter().find(|path| path.exists())
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
        let of = |split: &str| -> Vec<(String, Vec<i32>)> {
            let all = data.split(split).unwrap().iter().map(Result::unwrap);
            all.map(|sentence| (sentence.words.join(" "), sentence.labels))
                .collect()
        };
        let expected = [("Ada Lovelace wrote", vec![2, 3, 0]), ("Rome fell", vec![1, 0])];
        assert_eq!(of("train"), expected.map(|(words, labels)| (words.to_string(), labels)));
        assert_eq!(of("dev"), [("Ada 5".to_string(), vec![2, 0])]);
        assert_eq!((data.train.len(), data.dev.len()), (2, 1));
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

    #[test]
    fn words_are_read_without_labels_too() {
        let dir = folder(&[
            ("a.conll", "Ada\nwrote\n\n-DOCSTART- O\nRome\tO\n"),
            ("b.jsonl", "{\"text\": \" Ada  wrote\"}\n\n{\"tokens\": [\"Rome\"]}\n"),
            ("c.jsonl", "{\"words\": []}\n"),
        ]);
        let words = |name: &str| words_of(&dir.path().join(name)).unwrap().collect::<Result<Vec<_>>>();
        for name in ["a.conll", "b.jsonl"] {
            assert_eq!(words(name).unwrap(), [vec!["Ada", "wrote"], vec!["Rome"]]);
        }
        let error = words("c.jsonl").unwrap_err().to_string();
        assert!(error.ends_with("c.jsonl line 1 is no object with words in `tokens` or a `text`; correct it"));
    }

    #[test]
    fn a_file_that_changes_after_it_was_counted_is_told() {
        let dir = folder(&[("train.txt", TRAIN), ("dev.txt", TRAIN)]);
        let data = read(dir.path()).unwrap();
        fs::write(dir.path().join("dev.txt"), "Ada\tB-PER\n").unwrap();
        let error = data.dev.iter().collect::<Result<Vec<_>>>().unwrap_err().to_string();
        assert!(error.contains("dev.txt has changed while it was read"), "{error}");
    }
}
