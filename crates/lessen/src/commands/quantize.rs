//! `lessen quantize`

use super::device_args::DeviceArgs;
use super::model_args::ModelArgs;
use super::quantize_onnx::QuantizeOnnx;
use crate::{say, tell};
use clap::Args;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_nn::checkpoint::{Integers, gguf_file};
use lessen_saved::calibration::Method;
use lessen_saved::quantization::{Agreement, QuantizedFolder, quantize_folder};
use lessen_saved::saved_run::Evaluation;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Inputs of a group of integers of 4 bits where nothing else is said.
const GROUP: usize = 32;

/// The method of this name.
fn parse_method(word: &str) -> std::result::Result<Method, String> {
    Method::from_word(word).ok_or_else(|| format!("choose one of {}", Method::WORDS.join(", ")))
}

/// Flags of `lessen quantize`.
#[derive(Args)]
pub struct Quantize {
    #[command(flatten)]
    model: ModelArgs,
    /// Folder to write; it must not exist, or be empty. Of an ONNX file in place of RUN, the file to write
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Data to score the model on, before and after: a folder with splits, or a file
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Split to score [default: dev]
    #[arg(long, value_name = "NAME", requires = "data")]
    split: Option<String>,
    /// Data from which the inputs of layers get fixed ranges, of the kind that the model was trained on: a file, or a
    /// folder, of which the split dev is taken [default: those of a training for integers, else each row has its own].
    /// Of an ONNX file: a file of inputs, as those of lessen run; may be repeated [default: each input of a product has
    /// its own range, and convolutions stay as they are]
    #[arg(long, value_name = "PATH")]
    calibrate: Vec<PathBuf>,
    /// How ranges follow from that data: the greatest magnitude (minmax), the one that 99.99 % do not exceed
    /// (percentile), or the range whose levels lose the least information (entropy) [default: minmax]
    #[arg(long, value_name = "NAME", value_parser = parse_method, requires = "calibrate")]
    method: Option<Method>,
    /// Integers that weights become: int8, with a scale for each row of a matrix or each kernel, or int4, matrices
    /// alone, with a scale for each group of inputs [default: int8]
    #[arg(long, value_name = "NAME", value_parser = ["int8", "int4"])]
    weights: Option<String>,
    /// Inputs of a group of int4; where it does not divide the inputs of a layer, the next smaller multiple of 32 that
    /// does, or all of them [default: 32]
    #[arg(long, value_name = "N", value_parser = ["32", "128"])]
    group: Option<String>,
    /// Print one JSON object and nothing else on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Quantize {
    /// Quantizes; the exit code.
    pub fn run(self) -> Result<u8> {
        if self.model.folder().is_file() && gguf_file(self.model.folder()).is_none() {
            return self.onnx();
        }
        if self.out.extension().is_some_and(|extension| extension == "onnx") {
            return Err(Error::user(format!(
                "{} would be a folder; for an ONNX file, write the model with lessen export --onnx FILE and quantize FILE",
                self.out.display()
            )));
        }
        let data = match &self.calibrate[..] {
            [] => None,
            [data] => Some((data.as_path(), self.method())),
            _ => {
                return Err(Error::user(
                    "--calibrate is given twice; a model of a run takes one file or folder",
                ));
            }
        };
        let integers = self.integers()?;
        self.device.warn_of_integers()?;
        let found = quantize_folder(
            self.model.folder(),
            self.model.which(),
            self.model.adapters()?,
            (integers, data),
            &self.out,
            &self.device.new_backend(),
        )?;
        let scores = match &self.data {
            Some(_) => Some([self.scored(None)?, self.scored(Some(&self.out))?]),
            None => None,
        };
        found.remarks.iter().for_each(|remark| tell(remark));
        for (name, reason) in &found.left {
            tell(&format!("{name} stays in f32: {reason}"));
        }
        for (name, size) in &found.smaller_groups {
            tell(&format!(
                "{name} has groups of {size}: its inputs are no multiple of the group"
            ));
        }
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

    /// The integers that weights become.
    fn integers(&self) -> Result<Integers> {
        let group = self.group.as_deref().and_then(|size| size.parse().ok());
        match (self.weights.as_deref(), group) {
            (Some("int4"), group) => Ok(Integers::Four {
                group: group.unwrap_or(GROUP),
            }),
            (_, None) => Ok(Integers::Eight),
            (_, Some(_)) => Err(Error::user(
                "--group goes with --weights int4; leave it out, or add that",
            )),
        }
    }

    fn method(&self) -> Method {
        self.method.unwrap_or(Method::MinMax)
    }

    /// The word for the integers.
    fn word(&self) -> &str {
        self.weights.as_deref().unwrap_or("int8")
    }

    /// Quantizes an ONNX file.
    fn onnx(&self) -> Result<u8> {
        if self.data.is_some() {
            return Err(Error::user(
                "--data scores models of runs; lessen run tells what an ONNX file answers to inputs",
            ));
        }
        if self.integers()? != Integers::Eight {
            return Err(Error::user(
                "ONNX files get integers of 8 bits; leave out --weights int4, or name a folder of a run",
            ));
        }
        let quantize = QuantizeOnnx {
            file: self.model.folder(),
            out: &self.out,
            calibrate: &self.calibrate,
            method: self.method(),
            device: &self.device,
            json: self.json,
        };
        quantize.run()
    }

    /// The scores of the model in `f32`, or of the integers in a folder.
    fn scored(&self, integers: Option<&Path>) -> Result<Evaluation> {
        let mut run = self.model.open(&self.device)?;
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
            "{} is in {} with {} weights as {}: {before:.1} MiB, now {after:.1} MiB\n",
            self.model.shown(&found.source),
            self.out.display(),
            found.quantized.len(),
            self.word()
        );
        if let Some((layers, origin)) = &found.fixed {
            text += &format!("the inputs of {layers} layers have fixed ranges, {origin}\n");
        }
        text += &match found.agreement {
            Agreement::Largest(share) => format!(
                "on random inputs logits differ by {:.1e} of the largest, and {:.1} % of the largest ones are the same\n",
                found.difference,
                100.0 * share
            ),
            Agreement::Cosine(least) => format!(
                "on random texts vectors differ by {:.1e} of the largest element, and their cosines are at least {least:.4}\n",
                found.difference
            ),
        };
        text += &format!("a batch of {} takes {fast:.1} ms, in f32 {slow:.1} ms\n", found.batch);
        if let Some([before, after]) = scores {
            text += &format!("on {} in f32: {}\n", before.scored, before.scores.show());
            text += &format!("on {} in {}: {}\n", after.scored, self.word(), after.scores.show());
        }
        text
    }

    fn to_json(&self, found: &QuantizedFolder, scores: Option<&[Evaluation; 2]>) -> serde_json::Value {
        let scores = scores.map(|[before, after]| {
            json!({
                "f32": before.scores.to_json(&before.split),
                self.word(): after.scores.to_json(&after.split),
            })
        });
        json!({
            "source": found.source.display().to_string(),
            "out": self.out.display().to_string(),
            "weights": self.word(),
            "quantized": found.quantized,
            "left": found.left,
            "smaller_groups": found.smaller_groups,
            "fixed": found.fixed.as_ref().map(|(layers, origin)| json!({"layers": layers, "origin": origin})),
            "bytes": found.bytes,
            "difference": found.difference,
            "agreement": match found.agreement {
                Agreement::Largest(share) => Some(share),
                Agreement::Cosine(_) => None,
            },
            "cosine": match found.agreement {
                Agreement::Cosine(least) => Some(least),
                Agreement::Largest(_) => None,
            },
            "milliseconds": found.milliseconds,
            "batch": found.batch,
            "scores": scores,
        })
    }
}
