//! The flags that name a saved model.

use super::candidates;
use clap::Args;
use lessen_run::Result;
use lessen_run::device::NewBackend;
use lessen_run::folder::WhichModel;
use lessen_run::saved_run::SavedRun;
use std::path::{Path, PathBuf};

/// A saved model.
#[derive(Args)]
pub struct ModelArgs {
    /// Folder of a run, or a Hugging Face folder with config.json, model.safetensors and tokenizer
    #[arg(value_name = "RUN", add = candidates::runs())]
    run_dir: PathBuf,
    /// Take the best model instead of the last one
    #[arg(long, conflicts_with = "step")]
    best: bool,
    /// Take the model of the checkpoint after N steps instead of the last one
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// Folder of the model that adapters belong to (default: the one that they name)
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
}

impl ModelArgs {
    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.run_dir
    }

    /// The folder of the model that its adapters belong to, if it is given.
    pub fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    /// Opens the model.
    ///
    /// # Errors
    /// As [`SavedRun::open`].
    pub fn open<'a>(&self, new_backend: NewBackend<'a>) -> Result<SavedRun<'a>> {
        SavedRun::open(self.folder(), self.which(), self.base(), new_backend)
    }

    /// Which of its models is meant.
    pub fn which(&self) -> WhichModel {
        match self.step {
            Some(step) => WhichModel::Step(step),
            None if self.best => WhichModel::Best,
            None => WhichModel::Last,
        }
    }
}
