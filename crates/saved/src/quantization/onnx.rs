//! An ONNX file with integers in place of the weights of its products.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result, keep_sources};
use lessen_onnx::proto::ValueInfoProto;
use lessen_onnx::quantize::{QuantizedModel, Ranges, observed, quantize};
use lessen_onnx::{Data, HostValue, Model, Sizes, beside, usual_sizes};
use lessen_onnx_sessions::{Session, random_values};
use lessen_task::device::NewBackend;

use super::comparison::median_milliseconds;
use crate::calibration::{Magnitudes, Method};

/// Values of a model by name.
type Values = Vec<(String, HostValue)>;

/// Inputs whose activations say the ranges.
pub struct OnnxCalibration<'a> {
    /// The files of the inputs of each run, by which messages name them; none of them is overwritten.
    pub files: &'a [PathBuf],
    /// The inputs of a model in one of these files.
    pub inputs: &'a dyn Fn(&Model, &Path) -> Result<Values>,
    /// How ranges follow from the activations.
    pub method: Method,
}

/// A quantized file beside the one that it was made of.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizedOnnx {
    /// What became of the weights.
    pub model: QuantizedModel,
    /// The largest difference of an output in `f32` on random inputs, over the largest of their numbers.
    pub difference: f64,
    /// Milliseconds of a run before and after.
    pub milliseconds: [f64; 2],
}

/// Writes the ONNX file `file` to a new file `out` with integers of 8 bits in place of the weights of its products, and
/// compares both on random inputs. Activations get fixed ranges by a calibration; without one each is in its own range
/// when it is computed.
///
/// # Errors
/// An `out` that exists, or is read; a damaged file, and one without such products; inputs that do not fit the model,
/// or that give numbers that are not finite. Nothing is written then.
pub fn quantize_onnx(
    file: &Path,
    out: &Path,
    calibration: Option<OnnxCalibration<'_>>,
    new_backend: &NewBackend,
) -> Result<QuantizedOnnx> {
    if out.exists() {
        return Err(Error::user(format!(
            "{} exists; give the new file another name",
            out.display()
        )));
    }
    let model = Model::open(file)?;
    model.check_place(out)?;
    let ranges = calibration.map(|calibration| {
        keep_sources(&beside(out), calibration.files)?;
        ranges(Model::open_to_run(file)?, &calibration, new_backend)
    });
    let ranges = ranges.transpose()?;
    let (model, [before, after]) = quantize(&model, ranges.as_ref(), out, |written| {
        let original = Model::open_to_run(file)?;
        let inputs = random_values(&original, &usual_sizes(&original, Sizes::new())?, 1)?;
        let before = Answer::of(original, &inputs, new_backend)?;
        Ok([before, Answer::of(Model::open_to_run(written)?, &inputs, new_backend)?])
    })?;
    Ok(QuantizedOnnx {
        model,
        difference: difference(&before.outputs, &after.outputs),
        milliseconds: [before.milliseconds, after.milliseconds],
    })
}

/// What a model answers, and how long that takes.
struct Answer {
    outputs: Values,
    milliseconds: f64,
}

impl Answer {
    fn of(model: Model, inputs: &Values, new_backend: &NewBackend) -> Result<Answer> {
        let session = Session::new(Arc::new(model), new_backend.open()?)?;
        Ok(Answer {
            outputs: session.run(inputs.clone())?,
            milliseconds: median_milliseconds(|| session.run(inputs.clone()).map(drop))?,
        })
    }
}

/// The ranges of a model's activations.
fn ranges(mut model: Model, calibration: &OnnxCalibration<'_>, new_backend: &NewBackend) -> Result<Ranges> {
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
    let session = Session::new(model.clone(), new_backend.open()?)?;
    let mut all: HashMap<String, (Magnitudes, [f32; 2])> = HashMap::new();
    for file in calibration.files {
        let inputs = (calibration.inputs)(&model, file)?;
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
        let clip = magnitudes.clip(calibration.method);
        (name, [low.max(-clip), high.min(clip)])
    };
    Ok(all.into_iter().map(clipped).collect())
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
