//! A saved model as a Hugging Face folder whose matrices are integers of 8 bits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use lessen_base::atomic::{unwritable, write_folder};
use lessen_base::{Error, Result};
use lessen_compile::Precision;
use lessen_graph::ops;
use lessen_nn::checkpoint::InputScales;
use lessen_nn::{Bits, Model, Quantization, Ranges, checkpoint};

use crate::calibration::Method;
use crate::device::NewBackend;
use crate::export::must_be_empty;
use crate::folder::WhichModel;
use crate::generation_config::GenerationConfig;
use crate::logits_graph::logits_graph;
use crate::saved_run::{AdapterOptions, RandomBatches, SavedRun, model_dir};
use crate::task::reader::Reader;

/// Examples of a batch on which the models are compared.
const BATCH: usize = 8;

/// Batches that are timed, after one that is not.
const TIMED: usize = 5;

/// What became of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantizedFolder {
    /// The folder that it was read from.
    pub source: PathBuf,
    /// Names of the parameters that are integers.
    pub quantized: Vec<String>,
    /// The number of layers whose inputs have a fixed scale, and what the scales are from, in words; none where each
    /// row has its own.
    pub fixed: Option<(usize, String)>,
    /// Bytes of tensors before and after.
    pub bytes: [usize; 2],
    /// The largest difference of a logit on random inputs, over the largest one, of a model that is computed in
    /// integers.
    pub difference: f64,
    /// The share of random inputs, or of positions of their texts, whose largest logit is the same.
    pub agreement: f64,
    /// Milliseconds of a batch of [`QuantizedFolder::batch`] examples before, in `f32`, and after.
    pub milliseconds: [f64; 2],
    /// Examples of a batch.
    pub batch: usize,
}

/// Writes a model of a run, or of a Hugging Face folder, with its tokenizer or preprocessing, to a folder `out` that
/// does not exist or is empty: the matrices of its linear layers as integers of 8 bits with a scale for each row, all
/// else as it is. Inputs of the layers get fixed scales from the data of `calibration`, by its method, or those that
/// the model was trained with; else each row has its own. Reads it again, and compares both on random inputs.
///
/// # Errors
/// Data to calibrate on that does not fit the model, or gives an input that is not finite; a model that was trained for
/// other integers than those of 8 bits.
/// A folder without this model, a damaged one, one with adapters or without linear layers, a model that is quantized
/// already, an `out` that holds something or cannot be written to. Nothing is written then.
pub fn quantize_folder(
    root: &Path,
    which: WhichModel,
    adapters: AdapterOptions<'_>,
    calibration: Option<(&Path, Method)>,
    out: &Path,
    new_backend: NewBackend<'_>,
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
    let mut model = Model::from_dir(source)?;
    let layers = model.layers();
    let trained = model.quantization().filter(|own| own.ranges != Ranges::Fixed).cloned();
    checkpoint::check_unquantized(&dir)?;
    model.set_quantization(None)?;
    let mut quantized = matrices(&model);
    if let Some(own) = &trained {
        check_bits(own, &layers)?;
        quantized.retain(|name| own.of(layer_of(name)) != Bits::FLOAT);
    }
    if quantized.is_empty() {
        return Err(Error::user(format!(
            "the model in {} has no linear layers; there is nothing to quantize",
            dir.display()
        )));
    }
    if model.fan_in_fan_out() && (calibration.is_some() || trained.is_some()) {
        return Err(Error::user(format!(
            "the matrices of {} are stored [in, out], and their integers have a scale for each input; fixed ranges of inputs do \
             not go with them: leave out --calibrate and model.quantize",
            dir.display()
        )));
    }
    let open = |root: &Path, which, precision| -> Result<SavedRun<'_>> {
        let mut run = SavedRun::open(root, which, AdapterOptions::default(), new_backend)?;
        run.set_precision(precision);
        Ok(run)
    };
    let original = open(root, which, Precision::F32)?;
    let (scales, origin) = match calibration {
        Some((data, method)) => {
            let found = original.calibrate(data, method)?;
            let shown = data.display();
            (
                found.scales,
                format!("by {method} of {} examples of {shown}", found.examples),
            )
        }
        None => (
            original.trained_scales()?.unwrap_or_default(),
            "as it was trained".to_string(),
        ),
    };
    let is_integer = |layer: &String| quantized.contains(&format!("{layer}.weight"));
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
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).map_err(|error| unwritable(out, &error))?;
    }
    let mut bytes = [0; 2];
    write_folder(out, |aside| {
        bytes = checkpoint::quantize(&dir, aside, &model.parameters(), &quantized, &scales)?;
        model.save_files(aside)?;
        reader.save(aside, None)?;
        generation.map_or(Ok(()), |generation| generation.save(aside))
    })?;
    let before = asked(&original)?;
    let after = asked(&open(out, WhichModel::Last, Precision::Int8)?)?;
    let largest = before
        .logits
        .iter()
        .fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let apart = before
        .logits
        .iter()
        .zip(&after.logits)
        .map(|(a, b)| (a - b).abs() / largest);
    let rows = || {
        before
            .logits
            .chunks(before.width)
            .zip(after.logits.chunks(before.width))
    };
    let same = rows().filter(|(a, b)| largest_of(a) == largest_of(b)).count();
    Ok(QuantizedFolder {
        source: dir,
        quantized: quantized.into_iter().collect(),
        fixed,
        bytes,
        difference: f64::from(apart.fold(0.0, f32::max)),
        agreement: same as f64 / rows().count().max(1) as f64,
        milliseconds: [before.milliseconds, after.milliseconds],
        batch: BATCH,
    })
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

/// The place of the largest number.
fn largest_of(row: &[f32]) -> Option<usize> {
    (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]))
}

/// The parameters that products read as a matrix, and nothing else reads.
fn matrices(model: &Model) -> BTreeSet<String> {
    let graph = logits_graph(model);
    let readers = graph.readers();
    let is_matrix = |value: usize| {
        let mut all = readers[value].iter().map(|id| &graph.nodes[id.index()]);
        let is_product = |node: &lessen_graph::Node| {
            let matmul = node.op.downcast_ref::<ops::MatMul>();
            let [a, b] = node.inputs[..] else { return false };
            b.index() == value && matmul.is_some_and(|op| op.is_linear(graph.ty(a), graph.ty(b)))
        };
        !readers[value].is_empty() && all.all(is_product)
    };
    let inputs = graph.inputs.iter().filter(|input| is_matrix(input.value.index()));
    let names: BTreeSet<&str> = inputs.map(|input| input.name.as_str()).collect();
    let params = model.parameters().into_iter().map(|param| param.name);
    params.filter(|name| names.contains(name.as_str())).collect()
}

/// What a model answers on random inputs, and how long that takes.
struct Asked {
    logits: Vec<f32>,
    /// Logits of an input, or of a position of its text.
    width: usize,
    milliseconds: f64,
}

fn asked(run: &SavedRun<'_>) -> Result<Asked> {
    let mut batches: RandomBatches<'_> = run.random_batches(BATCH, None)?;
    let (logits, width) = batches.ask_for_logits()?;
    let mut times = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        let begun = Instant::now();
        batches.ask()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(Asked {
        logits,
        width: width.max(1),
        milliseconds: times[TIMED / 2],
    })
}
