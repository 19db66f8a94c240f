//! The data of a task, with what reads its examples.

use super::reader::Reader;
use crate::folder::manifest::DataDigests;
use crate::formats::corpus::Corpus;
use lessen_base::Result;
use std::sync::{Arc, OnceLock};

/// Data that was read, with what reads its examples.
#[derive(Clone)]
pub struct TaskData {
    corpus: Arc<dyn Corpus>,
    /// What tells the data from other data, once it has been asked for.
    digests: Arc<OnceLock<DataDigests>>,
    /// The tokenizer, or how images become what a model sees.
    pub reader: Arc<Reader>,
}

impl TaskData {
    pub(super) fn new(corpus: Arc<dyn Corpus>, reader: Reader) -> TaskData {
        TaskData {
            corpus,
            digests: Arc::default(),
            reader: Arc::new(reader),
        }
    }

    /// The data as it was read.
    pub(crate) fn corpus(&self) -> &dyn Corpus {
        self.corpus.as_ref()
    }

    /// What tells the data from other data.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    pub(crate) fn digests(&self) -> Result<DataDigests> {
        if let Some(digests) = self.digests.get() {
            return Ok(*digests);
        }
        let digests = self.corpus.digests()?;
        Ok(*self.digests.get_or_init(|| digests))
    }
}
