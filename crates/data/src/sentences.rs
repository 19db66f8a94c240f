//! Sentences as words, read from a file one after another and as often as needed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lessen_base::Result;

use crate::cache::key_of_files;
use crate::exactly::{Exactly, changed};
use crate::written_sentences::{SentenceFile, Written};

/// A sentence as words, and the number of each word's label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentence {
    /// The words; none is empty.
    pub words: Vec<String>,
    /// The label of each word.
    pub labels: Vec<i32>,
}

/// One split: sentences whose words have labels. Sentences whose labels are names are read when they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentences {
    place: Place,
    count: usize,
    /// The number of labels.
    classes: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    Numbered(Arc<[Sentence]>),
    Named(SentenceFile, Arc<Numbers>),
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
            place: Place::Numbered(sentences.into()),
        }
    }

    /// Makes a split of the `count` sentences of a file.
    pub(crate) fn of_file(file: SentenceFile, count: usize, numbers: Arc<Numbers>) -> Sentences {
        Sentences {
            count,
            classes: numbers.classes,
            place: Place::Named(file, numbers),
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
            Place::Numbered(sentences) => Box::new(sentences.iter().cloned().map(Ok)),
            Place::Named(file, numbers) => match file.with_words() {
                Err(error) => Box::new(std::iter::once(Err(error))),
                Ok(sentences) => {
                    let path = file.path();
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

    /// The size in bytes of the file; none in memory.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        match &self.place {
            Place::Named(SentenceFile::Path(path), _) => Some(fs::metadata(path).map_or(0, |about| about.len())),
            Place::Named(SentenceFile::InMemory(..), _) | Place::Numbered(_) => None,
        }
    }

    /// What tells sentences in a file from others.
    pub(crate) fn key(&self) -> String {
        match &self.place {
            Place::Numbered(_) => String::new(),
            Place::Named(file, numbers) => {
                let mut names: Vec<_> = numbers.of.iter().map(|(name, number)| (number, name)).collect();
                names.sort_unstable();
                format!("{names:?}\n{}", key_of_files([file.path()]))
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
