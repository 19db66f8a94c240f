//! `lessen quantize`

use super::device_args::DeviceArgs;
use super::model_args::ModelArgs;
use crate::{say, tell};
use clap::Args;
use lessen_compile::Precision;
use lessen_run::Result;
use lessen_run::calibration::Method;
use lessen_run::quantization::{QuantizedFolder, quantize_folder};
use lessen_run::recipe::words::Word;
use lessen_run::saved_run::Evaluation;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The method of this name.
fn parse_method(word: &str) -> std::result::Result<Method, String> {
    Method::from_word(word).ok_or_else(|| format!("choose one of {}", Method::WORDS.join(", ")))
}

/// Flags of `lessen quantize`.
#[derive(Args)]
pub struct Quantize {
    #[command(flatten)]
    model: ModelArgs,
    /// Folder to write; it must not exist, or be empty
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Data to score the model on, before and after: a folder with splits, or a file
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Split to score [default: dev]
    #[arg(long, value_name = "NAME", requires = "data")]
    split: Option<String>,
    /// Data from which the inputs of layers get fixed ranges, of the kind that the model was trained on: a file, or a
    /// folder, of which the split dev is taken [default: those of a training for integers, else each row has its own]
    #[arg(long, value_name = "PATH")]
    calibrate: Option<PathBuf>,
    /// How ranges follow from that data: the greatest magnitude (minmax), the one that 99.99 % do not exceed
    /// (percentile), or the range whose levels lose the least information (entropy) [default: minmax]
    #[arg(long, value_name = "NAME", value_parser = parse_method, requires = "calibrate")]
    method: Option<Method>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Quantize {
    /// Quantizes; the exit code.
    pub fn run(self) -> Result<u8> {
        let added = self.model.added()?;
        let backend = || self.device.open();
        let found = quantize_folder(
            self.model.folder(),
            self.model.which(),
            self.model.adapters(&added),
            self.calibrate
                .as_deref()
                .map(|data| (data, self.method.unwrap_or(Method::MinMax))),
            &self.out,
            &backend,
        )?;
        let scores = match &self.data {
            Some(_) => Some([self.scored(None)?, self.scored(Some(&self.out))?]),
            None => None,
        };
        if let Some([before, _]) = &scores {
            before.remarks.iter().for_each(|remark| tell(remark));
        }
        if self.json {
            say(&format!("{}\n", self.to_json(&found, scores.as_ref())))?;
        } else {
            say(&self.to_text(&found, scores.as_ref()))?;
        }
        Ok(0)
    }

    /// The scores of the model in `f32`, or of the integers in a folder.
    fn scored(&self, integers: Option<&Path>) -> Result<Evaluation> {
        let backend = || self.device.open();
        let mut run = self.model.open(&backend)?;
        match integers {
            None => run.set_precision(Precision::F32),
            Some(folder) => run.take_model(folder)?,
        }
        run.evaluate(self.data.as_deref(), self.split.as_deref())
    }

    fn to_text(&self, found: &QuantizedFolder, scores: Option<&[Evaluation; 2]>) -> String {
        let [before, after] = found.bytes.map(|bytes| bytes as f64 / (1 << 20) as f64);
        let [slow, fast] = found.milliseconds;
        let mut text = format!(
            "{} is in {} with {} matrices as int8: {before:.1} MiB, now {after:.1} MiB\n",
            self.model.shown(&found.source),
            self.out.display(),
            found.quantized.len()
        );
        if let Some((layers, origin)) = &found.fixed {
            text += &format!("the inputs of {layers} layers have fixed ranges, {origin}\n");
        }
        text += &format!(
            "on random inputs logits differ by {:.1e} of the largest, and {:.1} % of the largest ones are the same\n",
            found.difference,
            100.0 * found.agreement
        );
        text += &format!("a batch of {} takes {fast:.1} ms, in f32 {slow:.1} ms\n", found.batch);
        if let Some([before, after]) = scores {
            text += &format!("on {} in f32: {}\n", before.scored, before.scores.show());
            text += &format!("on {} in int8: {}\n", after.scored, after.scores.show());
        }
        text
    }

    fn to_json(&self, found: &QuantizedFolder, scores: Option<&[Evaluation; 2]>) -> serde_json::Value {
        let scores = scores.map(|[before, after]| {
            json!({
                "f32": before.scores.to_json(&before.split),
                "int8": after.scores.to_json(&after.split),
            })
        });
        json!({
            "source": found.source.display().to_string(),
            "out": self.out.display().to_string(),
            "quantized": found.quantized,
            "fixed": found.fixed.as_ref().map(|(layers, origin)| json!({"layers": layers, "origin": origin})),
            "bytes": found.bytes,
            "difference": found.difference,
            "agreement": found.agreement,
            "milliseconds": found.milliseconds,
            "batch": found.batch,
            "scores": scores,
        })
    }
}
