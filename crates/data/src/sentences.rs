//! Sentences as words, read from a file one after another and as often as needed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lessen_base::Result;

use crate::cache::key_of_files;
use crate::exactly::{Exactly, changed};
use crate::written_sentences::{Written, written};

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

/// The numbers of labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) of: HashMap<String, i32>,
    /// The number of classes.
    pub(crate) classes: usize,
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

    /// Makes a split of the `count` sentences of a file.
    pub(crate) fn of_file(path: &Path, count: usize, numbers: Arc<Numbers>) -> Sentences {
        Sentences {
            count,
            classes: numbers.classes,
            place: Place::InFile(path.into(), numbers),
        }
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
    /// A sentence with the numbers of its labels, which it had when the file was first read.
    fn sentence(&self, path: &Path, sentence: Written) -> Result<Sentence> {
        let number = |label: &String| self.of.get(label).copied().ok_or_else(|| changed(path));
        Ok(Sentence {
            labels: sentence.labels.iter().map(number).collect::<Result<_>>()?,
            words: sentence.words,
        })
    }
}
