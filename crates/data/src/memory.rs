//! Data in memory, which readers take in place of files.

use std::sync::Arc;

use crate::images::ImagesInMemory;
use crate::table_in_memory::TableInMemory;
use crate::tagged::TaggedWords;

pub use crate::splits::{DataPlace, Splits};

/// Data that a program has in memory.
#[derive(Clone, Debug)]
pub enum DataInMemory {
    /// Rows with named columns: of texts with labels, or of numbers and categories.
    Table(Splits<TableInMemory>),
    /// Sentences whose words have labels.
    Sentences(Splits<Arc<[TaggedWords]>>),
    /// Plain texts for language models, each as a file has one.
    Texts(Splits<Vec<Arc<str>>>),
    /// Images with labels.
    Images(Splits<ImagesInMemory>),
}

impl DataInMemory {
    /// What it is, in words.
    pub fn word(&self) -> &'static str {
        match self {
            DataInMemory::Table(_) => "a table",
            DataInMemory::Sentences(_) => "sentences of words",
            DataInMemory::Texts(_) => "plain texts",
            DataInMemory::Images(_) => "images",
        }
    }

    /// The number of examples of the training split; none of plain texts, which are cut into windows.
    pub fn examples(&self) -> Option<usize> {
        match self {
            DataInMemory::Table(table) => Some(table.train.rows()),
            DataInMemory::Sentences(sentences) => Some(sentences.train.len()),
            DataInMemory::Texts(_) => None,
            DataInMemory::Images(images) => Some(images.train.len()),
        }
    }

    /// The table that it is.
    pub fn table(&self) -> Option<&Splits<TableInMemory>> {
        match self {
            DataInMemory::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The sentences that it is.
    pub fn sentences(&self) -> Option<&Splits<Arc<[TaggedWords]>>> {
        match self {
            DataInMemory::Sentences(sentences) => Some(sentences),
            _ => None,
        }
    }

    /// The plain texts that it is.
    pub fn texts(&self) -> Option<&Splits<Vec<Arc<str>>>> {
        match self {
            DataInMemory::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// The images that it is.
    pub fn images(&self) -> Option<&Splits<ImagesInMemory>> {
        match self {
            DataInMemory::Images(images) => Some(images),
            _ => None,
        }
    }
}
