//! `lessen quantize FILE.onnx`

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use lessen::onnx::Inputs;
use lessen_base::keep_sources;
use lessen_base::{Error, Result};
use lessen_onnx::proto::ValueInfoProto;
use lessen_onnx::quantize::{QuantizedModel, Ranges, observed, quantize};
use lessen_onnx::{Data, HostValue, Model, beside};
use lessen_onnx_sessions::{Session, random_values};
use lessen_saved::calibration::{Magnitudes, Method};
use serde_json::json;

use super::device_args::DeviceArgs;
use super::model_sizes::sizes;
use crate::{say, tell};

/// Runs that are timed, after one that is not.
const TIMED: usize = 5;

/// Values of a model by name.
type Values = Vec<(String, HostValue)>;

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

/// What a model answers, and how long that takes.
struct Answer {
    outputs: Values,
    milliseconds: f64,
}

impl QuantizeOnnx<'_> {
    /// Quantizes; the exit code.
    pub fn run(self) -> Result<u8> {
        if self.out.exists() {
            return Err(Error::user(format!(
                "{} exists; give the new file another name",
                self.out.display()
            )));
        }
        let model = Model::open(self.file)?;
        model.check_place(self.out)?;
        for place in [self.out.to_path_buf(), beside(self.out)] {
            keep_sources(&place, self.calibrate)?;
        }
        let ranges = if self.calibrate.is_empty() {
            None
        } else {
            Some(self.ranges()?)
        };
        let (written, [before, after]) = quantize(&model, ranges.as_ref(), self.out, |written| {
            let original = Model::open_to_run(self.file)?;
            let inputs = random_values(&original, &sizes(&original, &[])?, 1)?;
            let before = self.answer(original, &inputs)?;
            Ok([before, self.answer(Model::open_to_run(written)?, &inputs)?])
        })?;
        for (node, reason) in &written.left {
            tell(&format!("{node} stays in f32: {reason}"));
        }
        let difference = difference(&before.outputs, &after.outputs);
        let [slow, fast] = [before.milliseconds, after.milliseconds];
        if self.json {
            let found = json!({
                "source": self.file.display().to_string(),
                "out": self.out.display().to_string(),
                "quantized": written.weights,
                "bytes": written.bytes,
                "difference": difference,
                "milliseconds": [slow, fast],
            });
            say(&format!("{found}\n"))?;
        } else {
            say(&self.to_text(&written, difference, [slow, fast]))?;
        }
        Ok(0)
    }

    fn to_text(&self, written: &QuantizedModel, difference: f64, [slow, fast]: [f64; 2]) -> String {
        let [before, after] = written.bytes.map(|bytes| bytes as f64 / (1 << 20) as f64);
        let ranges = match self.calibrate.len() {
            0 => "activations get theirs when they are computed".to_string(),
            1 => "ranges of activations are those of one file of inputs".to_string(),
            n => format!("ranges of activations are those of {n} files of inputs"),
        };
        format!(
            "{} is in {} with {} weights as int8: {before:.1} MiB, now {after:.1} MiB; {ranges}\n\
             on random inputs outputs differ by {difference:.1e} of the largest\n\
             a run takes {fast:.1} ms, in f32 {slow:.1} ms\n",
            self.file.display(),
            self.out.display(),
            written.weights.len()
        )
    }

    fn answer(&self, model: Model, inputs: &Values) -> Result<Answer> {
        let session = Session::new(Arc::new(model), self.device.open()?)?;
        let outputs = session.run(inputs.clone())?;
        let mut times = Vec::with_capacity(TIMED);
        for _ in 0..TIMED {
            let begun = Instant::now();
            session.run(inputs.clone())?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(Answer {
            outputs,
            milliseconds: times[TIMED / 2],
        })
    }

    /// The ranges of activations on the files of inputs.
    fn ranges(&self) -> Result<Ranges> {
        let mut model = Model::open_to_run(self.file)?;
        let names = observed(&model)?;
        let is_output = |name: &str| model.outputs.iter().any(|output| output.name == name);
        let more: Vec<ValueInfoProto> = names
            .iter()
            .filter(|name| !is_output(name) && !model.inputs.iter().any(|input| input.name == **name))
            .map(|name| ValueInfoProto {
                name: name.clone(),
                ..ValueInfoProto::default()
            })
            .collect();
        model.outputs.extend(more);
        let model = Arc::new(model);
        let session = Session::new(model.clone(), self.device.open()?)?;
        let mut all: HashMap<String, (Magnitudes, [f32; 2])> = HashMap::new();
        for file in self.calibrate {
            let inputs = Inputs::read(&model, &[file.display().to_string()])?.values(&model)?;
            let outputs = session.run(inputs.clone())?;
            for (name, value) in inputs.iter().chain(&outputs) {
                if !names.contains(name) {
                    continue;
                }
                let Some(Data::F32(numbers)) = value.tensor().map(|tensor| tensor.data()) else {
                    continue;
                };
                let (magnitudes, range) = all.entry(name.clone()).or_default();
                if let Some(x) = numbers.iter().find(|x| !x.is_finite()) {
                    return Err(Error::user(format!(
                        "{}: with these inputs `{name}` has the number {x}, which no range holds; calibrate on others",
                        file.display()
                    )));
                }
                magnitudes.add_all(numbers);
                *range = numbers
                    .iter()
                    .fold(*range, |[low, high], x| [low.min(*x), high.max(*x)]);
            }
        }
        let clipped = |(name, (magnitudes, [low, high])): (String, (Magnitudes, [f32; 2]))| {
            let clip = magnitudes.clip(self.method);
            (name, [low.max(-clip), high.min(clip)])
        };
        Ok(all.into_iter().map(clipped).collect())
    }
}

/// The largest difference of outputs in `f32`, over the largest of their numbers.
fn difference(before: &Values, after: &Values) -> f64 {
    let (mut most, mut largest) = (0f64, f64::MIN_POSITIVE);
    for ((_, a), (_, b)) in before.iter().zip(after) {
        let (Some(a), Some(b)) = (a.tensor(), b.tensor()) else {
            continue;
        };
        for (a, b) in a.data().to_f64().into_iter().zip(b.data().to_f64()) {
            most = most.max((a - b).abs());
            largest = largest.max(a.abs());
        }
    }
    most / largest
}
