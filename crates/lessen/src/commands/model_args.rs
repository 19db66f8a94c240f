//! The flags that name a saved model.

use super::device_args::DeviceArgs;
use super::output_place::check_place;
use super::{adapter_arg, candidates};
use clap::{Args, ValueHint};
use lessen_base::Result;
use lessen_saved::embedding::is_embedder;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::folder::WhichModel;
use std::ffi::OsString;
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
    /// Folder of the model that RUN's own adapters belong to (default: the one that they name)
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Add the adapters in a folder, of peft or the model of a run, to RUN's model and its own adapters, their products
    /// times WEIGHT (default: 1); a head that they have is taken as it is; may be repeated
    #[arg(long, value_name = "DIR[=WEIGHT]", value_hint = ValueHint::DirPath)]
    adapter: Vec<OsString>,
}

impl ModelArgs {
    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.run_dir
    }

    /// Its adapters, with those that are added.
    ///
    /// # Errors
    /// A weight that is no number.
    pub fn adapters(&self) -> Result<AdapterOptions> {
        let added = self.adapter.iter().map(|given| adapter_arg::parse(given));
        Ok(AdapterOptions {
            base: self.base.clone(),
            added: added.collect::<Result<_>>()?,
        })
    }

    /// Opens the model, to compute on a device.
    ///
    /// # Errors
    /// As [`SavedRun::open`], and a weight that is no number.
    pub fn open(&self, device: &DeviceArgs) -> Result<SavedRun> {
        SavedRun::open(self.folder(), self.which(), self.adapters()?, &device.new_backend())
    }

    /// Whether its use is to embed texts.
    ///
    /// # Errors
    /// Adapters that do not go with it, and a weight that is no number.
    pub fn is_embedder(&self) -> Result<bool> {
        is_embedder(self.folder(), &self.adapters()?)
    }

    /// The folder that it was read from, in words, with the adapters that are added.
    pub fn shown(&self, source: &Path) -> String {
        let added: Vec<String> = self.adapter.iter().map(|given| given.display().to_string()).collect();
        match added.join(", ") {
            added if added.is_empty() => source.display().to_string(),
            added => format!("{} with {added}", source.display()),
        }
    }

    /// Checks that a file can be written without overwriting what is read: the model, its adapters, or `files`.
    ///
    /// # Errors
    /// A file that is read, a link to nothing, and a weight that is no number.
    pub fn check_output(&self, out: &Path, files: &[PathBuf]) -> Result<()> {
        let AdapterOptions { base, added } = self.adapters()?;
        let folders = added.into_iter().map(|adapter| adapter.dir).chain(base);
        let folders: Vec<PathBuf> = folders.chain([self.run_dir.clone()]).collect();
        check_place(out, files, &folders)
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
