//! The data of a task, with its reader.

use super::reader::Reader;
use crate::folder::manifest::DataDigests;
use crate::formats::corpus::Corpus;
use lessen_base::Result;
use std::sync::{Arc, OnceLock};

/// Data that was read, with its reader.
#[derive(Clone)]
pub struct TaskData {
    corpus: Arc<dyn Corpus>,
    /// The digests of the data, once they are computed.
    digests: Arc<OnceLock<DataDigests>>,
    /// The tokenizer, or the preprocessing of images.
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
    pub fn corpus(&self) -> &dyn Corpus {
        self.corpus.as_ref()
    }

    /// The digests of the data, which tell it from other data.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    pub fn digests(&self) -> Result<DataDigests> {
        if let Some(digests) = self.digests.get() {
            return Ok(*digests);
        }
        let digests = self.corpus.digests()?;
        Ok(*self.digests.get_or_init(|| digests))
    }
}
