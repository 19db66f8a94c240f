//! A saved model as a Hugging Face folder whose weights are integers of 8 or of 4 bits, and an ONNX file with integers.

mod comparison;
mod embedder;
mod onnx;
mod weights;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lessen_base::atomic::write_folder;
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_nn::checkpoint::{InputScales, Integers};
use lessen_nn::{Bits, Model, Quantization, Ranges, checkpoint};

use self::comparison::{BATCH, Comparison};
use self::embedder::quantize_embedder;
use self::weights::Weights;
use crate::calibration::Method;
use crate::embedding::is_embedder;
use crate::export::{make_parent, must_be_empty};
use crate::saved_run::{AdapterOptions, SavedRun, model_dir};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::generation_config::GenerationConfig;
use lessen_task::reader::Reader;

pub use self::onnx::{OnnxCalibration, QuantizedOnnx, quantize_onnx};

/// What became of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizedFolder {
    /// The folder that it was read from.
    pub source: PathBuf,
    /// Names of the parameters that are integers.
    pub quantized: Vec<String>,
    /// Names of the other parameters with at least two axes, and why they stay as they are.
    pub left: BTreeMap<String, String>,
    /// Names of parameters whose groups have fewer elements than was asked for, since those do not divide their rows,
    /// and the elements.
    pub smaller_groups: BTreeMap<String, usize>,
    /// Remarks on the data of a calibration, a sentence each.
    pub remarks: Vec<String>,
    /// The number of layers whose inputs have a fixed scale, and what the scales are from, in words; none where each
    /// row has its own.
    pub fixed: Option<(usize, String)>,
    /// Bytes of tensors before and after.
    pub bytes: [usize; 2],
    /// The largest difference of a logit on random inputs, over the largest one, of a model that is computed in
    /// integers.
    pub difference: f64,
    /// How much the answers to random inputs agree.
    pub agreement: Agreement,
    /// Milliseconds of a batch of [`QuantizedFolder::batch`] examples before, in `f32`, and after.
    pub milliseconds: [f64; 2],
    /// Examples of a batch.
    pub batch: usize,
}

/// How much the answers of two models agree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Agreement {
    /// The share of inputs, or of positions of their texts, whose largest logit is the same.
    Largest(f64),
    /// The least cosine of both vectors of a text.
    Cosine(f64),
}

/// Writes a model of a run, or of a Hugging Face folder, with its tokenizer or preprocessing, to a folder `out` that
/// does not exist or is empty: the matrices of its linear layers, and in 8 bits the kernels of its convolutions, as
/// integers with their scales, all else as it is. Inputs of the layers get fixed scales from the data of `calibration`,
/// by its method, or those that the model was trained with; else each row has its own. Reads it again, and compares
/// both on random inputs. Of a model that embeds texts, all that says how is copied.
///
/// # Errors
/// Data to calibrate on that does not fit the model, gives an input that is not finite, or is beside integers of 4
/// bits; a model that was trained for other integers than those of 8 bits.
/// A folder without this model, a damaged one, one with adapters or without such layers, a model that is quantized
/// already, an `out` that holds something or cannot be written to. Nothing is written then.
pub fn quantize_folder(
    root: &Path,
    which: WhichModel,
    adapters: AdapterOptions,
    (integers, calibration): (Integers, Option<(&Path, Method)>),
    out: &Path,
    new_backend: &NewBackend,
) -> Result<QuantizedFolder> {
    let dir = model_dir(root, which)?;
    let source = adapters.of(&dir)?;
    must_be_empty(out)?;
    if source.has_adapters() || !adapters.added.is_empty() {
        return Err(Error::user(format!(
            "{} with adapters cannot be quantized; write the model with them first, with lessen export",
            dir.display()
        )));
    }
    if is_embedder(&dir, &adapters)? {
        return quantize_embedder((root, which), &dir, (integers, calibration), out, new_backend);
    }
    let mut model = Model::from_dir(source)?;
    let layers = model.layers();
    let trained = model.quantization().filter(|own| own.ranges != Ranges::Fixed).cloned();
    checkpoint::check_unquantized(&dir)?;
    model.set_quantization(None)?;
    let weights = weights_of(&model, integers, trained.as_ref(), &layers, &dir)?;
    check_ranges(&model, integers, trained.as_ref(), calibration.is_some(), &dir)?;
    let open = |root: &Path, which, precision: Option<Precision>| -> Result<SavedRun> {
        let mut run = SavedRun::open(root, which, AdapterOptions::default(), new_backend)?;
        precision.into_iter().for_each(|precision| run.set_precision(precision));
        Ok(run)
    };
    let original = open(root, which, Some(Precision::F32))?;
    let (scales, origin, remarks) = match calibration {
        Some((data, method)) => {
            let (found, remarks) = original.calibrate(data, method)?;
            let shown = data.display();
            let origin = format!("by {method} of {} examples of {shown}", found.examples);
            (found.scales, origin, remarks)
        }
        None => {
            let trained = original.trained_scales()?.unwrap_or_default();
            (trained, "as it was trained".to_string(), Vec::new())
        }
    };
    let is_integer = |layer: &String| weights.chosen.contains(&format!("{layer}.weight"));
    let (with, without): (Vec<String>, Vec<String>) = layers
        .into_iter()
        .partition(|layer| is_integer(layer) && scales.contains_key(layer));
    let scales = InputScales {
        of: scales.into_iter().filter(|(layer, _)| with.contains(layer)).collect(),
        without,
    };
    let fixed = (!scales.of.is_empty()).then_some((scales.of.len(), origin));
    let scales = if fixed.is_some() {
        scales
    } else {
        InputScales::default()
    };
    let reader = Reader::of(source, &model)?;
    let generation = match model.decoder() {
        Some(_) => Some(GenerationConfig::read(source)?.unwrap_or_else(|| GenerationConfig::of(&model))),
        None => None,
    };
    make_parent(out)?;
    let mut bytes = [0; 2];
    write_folder(out, |aside| {
        let chosen = (&weights.chosen, integers);
        bytes = checkpoint::quantize(&dir, aside, &model.parameters(), chosen, &scales)?;
        model.save_files(aside)?;
        reader.save(aside, None)?;
        generation.map_or(Ok(()), |generation| generation.save(aside))
    })?;
    let compared = Comparison::of(&original, &open(out, WhichModel::Last, None)?)?;
    Ok(QuantizedFolder {
        source: dir,
        smaller_groups: smaller_groups(&model, &weights, integers),
        quantized: weights.chosen.into_iter().collect(),
        left: weights.left,
        remarks,
        fixed,
        bytes,
        difference: compared.difference,
        agreement: compared.agreement,
        milliseconds: compared.milliseconds,
        batch: BATCH,
    })
}

/// The weights of a model that become integers. Layers that were trained in floats stay so.
///
/// # Errors
/// A model without any, and one that was trained for other integers.
fn weights_of(
    model: &Model,
    integers: Integers,
    trained: Option<&Quantization>,
    layers: &[String],
    dir: &Path,
) -> Result<Weights> {
    let mut weights = Weights::of(model, integers);
    if let Some(own) = trained {
        check_bits(own, layers)?;
        let in_floats = |name: &str| own.of(layer_of(name)) == Bits::FLOAT;
        weights.leave(|name| in_floats(name).then(|| "it was trained in floats".to_string()));
    }
    check_something(&weights, integers, dir)?;
    Ok(weights)
}

/// Checks that some weights become integers.
///
/// # Errors
/// A model without any.
fn check_something(weights: &Weights, integers: Integers, dir: &Path) -> Result<()> {
    if !weights.chosen.is_empty() {
        return Ok(());
    }
    let more = match integers {
        Integers::Eight => " or convolutions",
        Integers::Four { .. } => "",
    };
    Err(Error::user(format!(
        "the model in {} has no linear layers{more}; there is nothing to quantize",
        dir.display()
    )))
}

/// Checks that ranges of inputs go with the integers.
///
/// # Errors
/// Fixed ranges where matrices have a scale for each input, or beside integers of 4 bits.
fn check_ranges(
    model: &Model,
    integers: Integers,
    trained: Option<&Quantization>,
    is_calibrated: bool,
    dir: &Path,
) -> Result<()> {
    if integers != Integers::Eight {
        return match (trained, is_calibrated) {
            (Some(own), _) => Err(Error::user(format!(
                "the model in {} was trained for {}, and integers of 4 bits have scales of groups that it was not trained \
                 for; leave out --weights int4",
                dir.display(),
                own.bits
            ))),
            (None, true) => Err(Error::user(
                "with integers of 4 bits each row of inputs has its own range; leave out --calibrate, or --weights int4",
            )),
            (None, false) => Ok(()),
        };
    }
    if model.fan_in_fan_out() && (is_calibrated || trained.is_some()) {
        return Err(Error::user(format!(
            "the matrices of {} are stored [in, out], and their integers have a scale for each input; fixed ranges of inputs do \
             not go with them: leave out --calibrate and model.quantize",
            dir.display()
        )));
    }
    Ok(())
}

/// The weights whose groups have fewer elements than was asked for.
fn smaller_groups(model: &Model, weights: &Weights, integers: Integers) -> BTreeMap<String, usize> {
    let Integers::Four { group } = integers else {
        return BTreeMap::new();
    };
    let chosen = model.parameters().into_iter();
    let chosen = chosen.filter(|param| weights.chosen.contains(&param.name));
    let sizes = chosen.map(|param| {
        let inputs = param.shape[usize::from(!param.is_turned)];
        (param.name, integers.group_of(inputs))
    });
    sizes.filter(|(_, size)| *size != group).collect()
}

/// The layer of a weight.
fn layer_of(weight: &str) -> &str {
    weight.strip_suffix(".weight").unwrap_or(weight)
}

/// Checks that layers were trained for integers of 8 bits, or not for integers.
///
/// # Errors
/// A layer that was trained for other bits.
fn check_bits(own: &Quantization, layers: &[String]) -> Result<()> {
    let is_other = |layer: &&String| ![Bits::EIGHT, Bits::FLOAT].contains(&own.of(layer));
    match layers.iter().find(is_other) {
        None => Ok(()),
        Some(layer) => Err(Error::user(format!(
            "the layer `{layer}` was trained for {}, and lessen quantize writes integers of 8 bits for both; train with \
             model.quantize = \"w8a8\", or ask the run itself",
            own.of(layer)
        ))),
    }
}
