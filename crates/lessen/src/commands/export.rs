//! `lessen export`

use super::model_args::ModelArgs;
use crate::say;
use clap::Args;
use clap::builder::PossibleValuesParser;
use lessen_nn::checkpoint::WeightDtype;
use lessen_run::Result;
use lessen_run::export::{ExportOptions, export};
use std::path::PathBuf;

/// Flags of `lessen export`.
#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    model: ModelArgs,
    /// Folder to write; it must not exist, or be empty
    out: PathBuf,
    /// Dtype of the weights
    #[arg(long, value_name = "DTYPE", default_value = "f32",
          value_parser = PossibleValuesParser::new(WeightDtype::ALL.map(WeightDtype::name)))]
    dtype: String,
    /// Write RUN's own adapters of LoRA alone, and do not add them to the weights of the model that they belong to
    #[arg(long)]
    adapters: bool,
}

impl Export {
    /// Exports; the exit code.
    pub fn run(self) -> Result<u8> {
        let dtype = WeightDtype::from_name(&self.dtype).unwrap_or_default();
        let added = self.model.added()?;
        let form = ExportOptions {
            dtype,
            adapters: self.model.adapters(&added),
            adapters_alone: self.adapters,
        };
        let source = export(self.model.folder(), self.model.which(), &self.out, form)?;
        let (source, out) = (self.model.shown(&source), self.out.display());
        say(&format!("{source} is in {out} as {}\n", dtype.name()))?;
        Ok(0)
    }
}
