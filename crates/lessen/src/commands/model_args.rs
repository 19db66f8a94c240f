//! What the commands on saved models have in common: the model that is meant.

use clap::Args;
use lessen_run::folder::Which;
use std::path::{Path, PathBuf};

/// A saved model.
#[derive(Args)]
pub struct ModelArgs {
    /// Folder of a run, or a Hugging Face folder with config.json, model.safetensors and tokenizer
    #[arg(value_name = "RUN")]
    run_dir: PathBuf,
    /// Take the best model instead of the last one
    #[arg(long, conflicts_with = "step")]
    best: bool,
    /// Take the model of the checkpoint after N steps instead of the last one
    #[arg(long, value_name = "N")]
    step: Option<u64>,
}

impl ModelArgs {
    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.run_dir
    }

    /// Which of the models in it.
    pub fn which(&self) -> Which {
        match self.step {
            Some(step) => Which::Step(step),
            None if self.best => Which::Best,
            None => Which::Last,
        }
    }
}
