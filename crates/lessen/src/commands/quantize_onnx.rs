//! `lessen quantize FILE.onnx`

use std::path::{Path, PathBuf};

use lessen::onnx::Inputs;
use lessen_base::Result;
use lessen_onnx::Model;
use lessen_saved::calibration::Method;
use lessen_saved::quantization::{OnnxCalibration, QuantizedOnnx, quantize_onnx};
use serde_json::json;

use super::device_args::DeviceArgs;
use crate::{say, tell};

/// Writes a file with integers in place of the weights of its products, and compares both files on random inputs.
pub struct QuantizeOnnx<'a> {
    pub file: &'a Path,
    pub out: &'a Path,
    /// Files of inputs, as of `lessen run`, whose activations say the ranges; none where each is in its own.
    pub calibrate: &'a [PathBuf],
    /// How ranges follow from them.
    pub method: Method,
    pub device: &'a DeviceArgs,
    pub json: bool,
}

impl QuantizeOnnx<'_> {
    /// Quantizes; the exit code.
    pub fn run(self) -> Result<u8> {
        let inputs = |model: &Model, file: &Path| Inputs::read(model, &[file.display().to_string()])?.values(model);
        let calibration = (!self.calibrate.is_empty()).then_some(OnnxCalibration {
            files: self.calibrate,
            inputs: &inputs,
            method: self.method,
        });
        let found = quantize_onnx(self.file, self.out, calibration, &self.device.new_backend())?;
        for (node, reason) in &found.model.left {
            tell(&format!("{node} stays in f32: {reason}"));
        }
        if self.json {
            let found = json!({
                "source": self.file.display().to_string(),
                "out": self.out.display().to_string(),
                "quantized": found.model.weights,
                "bytes": found.model.bytes,
                "difference": found.difference,
                "milliseconds": found.milliseconds,
            });
            say(&format!("{found}\n"))?;
        } else {
            say(&self.to_text(&found))?;
        }
        Ok(0)
    }

    fn to_text(&self, found: &QuantizedOnnx) -> String {
        let [before, after] = found.model.bytes.map(|bytes| bytes as f64 / (1 << 20) as f64);
        let [slow, fast] = found.milliseconds;
        let ranges = match self.calibrate.len() {
            0 => "activations get theirs when they are computed".to_string(),
            1 => "ranges of activations are those of one file of inputs".to_string(),
            n => format!("ranges of activations are those of {n} files of inputs"),
        };
        format!(
            "{} is in {} with {} weights as int8: {before:.1} MiB, now {after:.1} MiB; {ranges}\n\
             on random inputs outputs differ by {:.1e} of the largest\n\
             a run takes {fast:.1} ms, in f32 {slow:.1} ms\n",
            self.file.display(),
            self.out.display(),
            found.model.weights.len(),
            found.difference
        )
    }
}
