//! `lessen export`

use super::device_args::DeviceArgs;
use super::model_args::ModelArgs;
use crate::{say, tell};
use clap::Args;
use clap::builder::PossibleValuesParser;
use lessen_base::{Error, Result};
use lessen_nn::checkpoint::WeightDtype;
use lessen_onnx::beside;
use lessen_saved::export::{ExportOptions, export};
use lessen_saved::onnx_export::{OnnxOptions, export_onnx};
use std::path::{Path, PathBuf};

/// Flags of `lessen export`.
#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    model: ModelArgs,
    /// Folder to write; it must not exist, or be empty
    #[arg(required_unless_present = "onnx", conflicts_with = "onnx")]
    out: Option<PathBuf>,
    /// Dtype of the weights [default: f32]
    #[arg(long, value_name = "DTYPE", conflicts_with = "onnx",
          value_parser = PossibleValuesParser::new(WeightDtype::ALL.map(WeightDtype::name)))]
    dtype: Option<String>,
    /// Write RUN's own adapters of LoRA alone, and do not add them to the weights of the model that they belong to
    #[arg(long, conflicts_with = "onnx")]
    adapters: bool,
    /// ONNX file to write in place of a folder: what the model answers, for batches and texts of any size
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
    /// Version of ONNX's operators in the file, from 17 to 23 [default: 17]
    #[arg(long, value_name = "N", requires = "onnx")]
    opset: Option<i64>,
    /// Embed texts as lessen embed does, also where the model has a head
    #[arg(long, requires = "onnx")]
    embed: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Export {
    /// Exports; the exit code.
    pub fn run(self) -> Result<u8> {
        if let Some(file) = &self.onnx {
            return self.onnx(file);
        }
        for (is_given, flag) in [(self.opset.is_some(), "--opset"), (self.embed, "--embed")] {
            if is_given {
                return Err(Error::user(format!(
                    "{flag} is for ONNX files; add --onnx FILE in place of the folder"
                )));
            }
        }
        let Some(out) = &self.out else {
            return Err(Error::user(
                "there is no folder to write; name one, or a file with --onnx",
            ));
        };
        if out.extension().is_some_and(|extension| extension == "onnx") {
            return Err(Error::user(format!(
                "{0} would be a folder; write --onnx {0} for an ONNX file, or name another folder",
                out.display()
            )));
        }
        let dtype = self
            .dtype
            .as_deref()
            .and_then(WeightDtype::from_name)
            .unwrap_or_default();
        let form = ExportOptions {
            dtype,
            adapters: self.model.adapters()?,
            adapters_alone: self.adapters,
        };
        let source = export(self.model.folder(), self.model.which(), out, form)?;
        let (source, out) = (self.model.shown(&source), out.display());
        say(&format!("{source} is in {out} as {}\n", dtype.name()))?;
        Ok(0)
    }

    /// Writes an ONNX file; the exit code.
    fn onnx(&self, file: &Path) -> Result<u8> {
        for place in [file.to_path_buf(), beside(file)] {
            self.model.check_output(&place, &[])?;
        }
        let default = OnnxOptions::default();
        let options = OnnxOptions {
            which: self.model.which(),
            adapters: self.model.adapters()?,
            opset: self.opset.unwrap_or(default.opset),
            embeds: self.embed,
            ..default
        };
        let written = export_onnx(self.model.folder(), file, &options, &self.device.new_backend())?;
        written.notes.iter().for_each(|note| tell(note));
        say(&format!(
            "{} is in {} as ONNX with operators of version {}: {} give {}\nread again and run on random inputs of two \
             sizes, its outputs differ from the model's by at most {:.1e}\n",
            self.model.shown(&written.source),
            file.display(),
            written.opset,
            written.inputs.join(", "),
            written.outputs.join(", "),
            written.difference
        ))?;
        Ok(0)
    }
}
