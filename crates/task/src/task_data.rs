//! The data of a task, with its reader.

use crate::folder::manifest::DataDigests;
use crate::formats::KnownModel;
use crate::formats::corpus::Corpus;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataKeys, ImageKeys};
use lessen_base::Result;
use lessen_data::Source;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Data that was read, with what was made of it, where several tasks share that.
#[derive(Clone)]
pub(crate) struct ReadData {
    corpus: Arc<dyn Corpus>,
    /// The digests of the data, once they are computed.
    digests: Arc<OnceLock<DataDigests>>,
    /// None of data that one task has alone.
    made: Option<Arc<Mutex<Made>>>,
}

/// Readers and batches that were made of data.
#[derive(Default)]
struct Made {
    readers: Vec<(ReaderKeys, Arc<Reader>)>,
    sources: Vec<(SourceKeys, Arc<dyn Source>)>,
}

/// What a reader depends on beside the data.
#[derive(Clone, PartialEq)]
struct ReaderKeys {
    data: DataKeys,
    image: ImageKeys,
    init: Option<PathBuf>,
    base: Option<PathBuf>,
}

/// What batches depend on beside the data and their reader.
#[derive(Clone, PartialEq)]
struct SourceKeys {
    data: DataKeys,
    image: ImageKeys,
    batch: usize,
    tokens: usize,
    seed: u64,
    /// The address of the reader, which stays as long as the batches do.
    reader: usize,
    /// The split of an evaluation; none means training.
    split: Option<String>,
}

impl ReadData {
    /// Data that one task has alone.
    pub(crate) fn new(corpus: Arc<dyn Corpus>) -> ReadData {
        ReadData {
            corpus,
            digests: Arc::default(),
            made: None,
        }
    }

    /// Data that several tasks share.
    pub(crate) fn shared(corpus: Arc<dyn Corpus>) -> ReadData {
        ReadData {
            made: Some(Arc::default()),
            ..ReadData::new(corpus)
        }
    }

    /// The data as it was read.
    pub(crate) fn corpus(&self) -> &dyn Corpus {
        self.corpus.as_ref()
    }

    /// Whether it would be read alike for a model with these traits. It was read for a model that is trained on it.
    pub(crate) fn is_for(&self, known: &KnownModel) -> bool {
        let has_classes = known
            .classes
            .as_deref()
            .is_none_or(|names| names == self.corpus.goal().class_names());
        let is_of = |reader: &Reader| reader.table().ok() == known.schema.as_ref();
        let has_columns = match &self.made {
            _ if known.schema.is_none() => true,
            Some(made) => lock(made).readers.iter().any(|(_, reader)| is_of(reader)),
            None => false,
        };
        has_classes && has_columns
    }

    /// The reader of a new run's examples.
    ///
    /// # Errors
    /// As [`Corpus::reader`].
    pub(crate) fn reader(&self, config: &Config) -> Result<Arc<Reader>> {
        let new = || self.corpus.reader(config).map(Arc::new);
        let Some(made) = &self.made else {
            return new();
        };
        let keys = ReaderKeys {
            data: config.data.clone(),
            image: config.image.clone(),
            init: config.model.init.clone(),
            base: config.model.base.clone(),
        };
        let mut made = lock(made);
        if let Some((_, reader)) = made.readers.iter().find(|(own, _)| *own == keys) {
            return Ok(reader.clone());
        }
        let reader = new()?;
        made.readers.push((keys, reader.clone()));
        Ok(reader)
    }

    /// The batches of a split, or of training where none is named.
    fn source(&self, config: &Config, reader: &Arc<Reader>, split: Option<&str>) -> Result<Arc<dyn Source>> {
        let new = || match split {
            Some(split) => self.corpus.evaluation(config, reader, split),
            None => self.corpus.training(config, reader),
        };
        let Some(made) = &self.made else {
            return new();
        };
        let keys = SourceKeys {
            data: config.data.clone(),
            image: config.image.clone(),
            batch: config.train.batch,
            tokens: config.train.tokens,
            seed: config.train.seed,
            reader: Arc::as_ptr(reader).addr(),
            split: split.map(str::to_string),
        };
        let mut made = lock(made);
        let is_kept = made.readers.iter().any(|(_, own)| Arc::ptr_eq(own, reader));
        if let Some((_, source)) = made.sources.iter().find(|(own, _)| is_kept && *own == keys) {
            return Ok(source.clone());
        }
        let source = new()?;
        if is_kept {
            made.sources.push((keys, source.clone()));
        }
        Ok(source)
    }
}

fn lock(made: &Mutex<Made>) -> std::sync::MutexGuard<'_, Made> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Data that was read, with its reader.
#[derive(Clone)]
pub struct TaskData {
    read: ReadData,
    /// The tokenizer, or the preprocessing of images.
    pub reader: Arc<Reader>,
}

impl TaskData {
    pub(crate) fn new(read: ReadData, reader: Arc<Reader>) -> TaskData {
        TaskData { read, reader }
    }

    /// The data as it was read.
    pub fn corpus(&self) -> &dyn Corpus {
        self.read.corpus()
    }

    /// The digests of the data, which tell it from other data.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    pub fn digests(&self) -> Result<DataDigests> {
        if let Some(digests) = self.read.digests.get() {
            return Ok(*digests);
        }
        let digests = self.corpus().digests()?;
        Ok(*self.read.digests.get_or_init(|| digests))
    }

    /// The batches of training.
    ///
    /// # Errors
    /// As [`Corpus::training`].
    pub(crate) fn training(&self, config: &Config) -> Result<Arc<dyn Source>> {
        self.read.source(config, &self.reader, None)
    }

    /// The batches of a split, each example once.
    ///
    /// # Errors
    /// As [`Corpus::evaluation`].
    pub(crate) fn evaluation(&self, config: &Config, split: &str) -> Result<Arc<dyn Source>> {
        self.read.source(config, &self.reader, Some(split))
    }
}
