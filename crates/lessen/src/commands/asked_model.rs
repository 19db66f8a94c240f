//! The flags of a saved model that is asked: which, on what device, in what precision.

use super::device_args::DeviceArgs;
use super::model_args::ModelArgs;
use super::precision_args::PrecisionArgs;
use clap::Args;
use lessen_base::Result;
use lessen_saved::embedding::{EmbedOptions, Embedder};
use lessen_saved::saved_run::SavedRun;

/// A saved model, and how it is computed.
#[derive(Args)]
pub struct AskedModel {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub precision: PrecisionArgs,
}

impl AskedModel {
    /// Opens the model with other settings, as `--set` gives them; warns where another precision would be faster.
    ///
    /// # Errors
    /// A folder without this model, settings that do not go with it, a device that cannot be opened.
    pub fn open(&self, set: &[String]) -> Result<SavedRun> {
        let mut run = self.model.open(&self.device)?;
        run.set(set)?;
        self.precision.set_and_warn(&mut run, &self.device)?;
        Ok(run)
    }

    /// How it is opened for embedding.
    ///
    /// # Errors
    /// A weight of an adapter that is no number.
    pub fn embed_options(&self) -> Result<EmbedOptions> {
        Ok(EmbedOptions {
            which: self.model.which(),
            adapters: self.model.adapters()?,
            precision: self.precision.given(),
            ..EmbedOptions::default()
        })
    }

    /// Opens it for embedding.
    ///
    /// # Errors
    /// As [`Embedder::open`].
    pub fn embedder(&self, options: &EmbedOptions) -> Result<Embedder> {
        Embedder::open(self.model.folder(), options, &self.device.new_backend())
    }
}
