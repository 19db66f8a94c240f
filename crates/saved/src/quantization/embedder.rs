//! Models that embed texts, whose folders hold more than a model: how states become vectors.

use std::path::Path;

use lessen_base::{Error, Result, SplitMix64, atomic::write_folder};
use lessen_compile::Precision;
use lessen_nn::checkpoint::{self, InputScales, Integers, ModelFolder};
use lessen_nn::{Model, Quantization, Ranges};

use super::comparison::{BATCH, Comparison, largest_difference, median_milliseconds};
use super::weights::Weights;
use super::{Agreement, QuantizedFolder, check_something, smaller_groups};
use crate::calibration::Method;
use crate::embedding::{EmbedOptions, Embedder, copy_modules, copy_reading, transformer_of};
use crate::export::make_parent;
use crate::saved_run::{LENGTH, random_texts};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::reader::Reader;

/// Writes a model that embeds texts; see [`quantize_folder`](super::quantize_folder). What describes its modules, and
/// the layers after its Transformer, are copied.
///
/// # Errors
/// As [`quantize_folder`](super::quantize_folder), and data to calibrate on.
pub(super) fn quantize_embedder(
    (root, which): (&Path, WhichModel),
    dir: &Path,
    (integers, calibration): (Integers, Option<(&Path, Method)>),
    out: &Path,
    new_backend: &NewBackend,
) -> Result<QuantizedFolder> {
    if calibration.is_some() {
        return Err(Error::user(format!(
            "{} embeds texts, and each row of the inputs of its layers has its own range; leave out --calibrate",
            dir.display()
        )));
    }
    let within = transformer_of(dir)?;
    let transformer = dir.join(&within);
    let mut model = Model::from_dir_for_states(ModelFolder::from(transformer.as_path()))?;
    checkpoint::check_unquantized(&transformer)?;
    let trained: Option<&Quantization> = model.quantization().filter(|own| own.ranges != Ranges::Fixed);
    if let Some(own) = trained {
        return Err(Error::user(format!(
            "the model in {} was trained for {}, and embeds texts; write it without, and quantize that",
            dir.display(),
            own.bits
        )));
    }
    model.set_quantization(None)?;
    let weights = Weights::of_states(&model, integers);
    check_something(&weights, integers, dir)?;
    let reader = Reader::of(ModelFolder::from(transformer.as_path()), &model)?;
    make_parent(out)?;
    let mut bytes = [0; 2];
    write_folder(out, |aside| {
        let target = aside.join(&within);
        let chosen = (&weights.chosen, integers);
        let parameters = model.parameters_of_states();
        bytes = checkpoint::quantize(&transformer, &target, &parameters, chosen, &InputScales::default())?;
        reader.save(&target, None)?;
        copy_reading(&transformer, &target)?;
        copy_modules(dir, aside)
    })?;
    let compared = compared((root, which), out, new_backend)?;
    Ok(QuantizedFolder {
        source: dir.to_path_buf(),
        smaller_groups: smaller_groups(&model, &weights, integers),
        quantized: weights.chosen.into_iter().collect(),
        left: weights.left,
        remarks: Vec::new(),
        fixed: None,
        bytes,
        difference: compared.difference,
        agreement: compared.agreement,
        milliseconds: compared.milliseconds,
        batch: BATCH,
    })
}

/// The vectors of random texts by both models.
fn compared(source: (&Path, WhichModel), out: &Path, new_backend: &NewBackend) -> Result<Comparison> {
    let (before, slow) = embedded(source, Some(Precision::F32), new_backend)?;
    let (after, fast) = embedded((out, WhichModel::Last), None, new_backend)?;
    let cosines = before.iter().zip(&after).map(|(a, b)| {
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        product(a, b) / (product(a, a) * product(b, b)).sqrt().max(f64::MIN_POSITIVE)
    });
    Ok(Comparison {
        agreement: Agreement::Cosine(cosines.fold(1.0, f64::min)),
        difference: largest_difference(&before.concat(), &after.concat()),
        milliseconds: [slow, fast],
    })
}

/// The vectors of random texts, and the milliseconds that they take.
fn embedded(
    (root, which): (&Path, WhichModel),
    precision: Option<Precision>,
    new_backend: &NewBackend,
) -> Result<(Vec<Vec<f32>>, f64)> {
    let options = EmbedOptions {
        which,
        precision,
        ..EmbedOptions::default()
    };
    let embedder = Embedder::open(root, &options, new_backend)?;
    let length = embedder.max_length().min(LENGTH);
    let texts = random_texts(BATCH, length, embedder.vocab_size(), &mut SplitMix64::new(1));
    let rows = embedder.embed_encoded(&texts)?;
    let milliseconds = median_milliseconds(|| embedder.embed_encoded(&texts).map(drop))?;
    Ok((rows, milliseconds))
}
