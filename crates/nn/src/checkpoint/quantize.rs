//! Writing a checkpoint with weights as integers of 8 bits.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use lessen_base::{Error, Result, atomic};
use lessen_graph::ops::QuantizeRows;
use lessen_graph::{Type, numel};
use safetensors::Dtype;

use super::found::Found;
use super::quantization_config::{CONFIG, config_of};
use super::save::{Stored, create, write_json, write_stored};
use super::scales::beside;
use crate::config::Fields;
use crate::field_effect::is_empty;
use crate::params::ParamSpec;
use crate::quantization::{INPUT_SCALE, OWN, is_of_training};

/// Writes the `config.json` and the tensors of the folder `source` to the folder `target`, creating it if needed, with
/// the parameters `quantized` as integers of 8 bits and a scale for each row, and the scales of layers' inputs that
/// `scales` has by the layers' names. All else stays as it is, but for the ranges of a training for integers. A row is
/// read and written at a time. Returns the bytes of tensors before and after.
///
/// # Errors
/// A missing, truncated or damaged file of `source`, a model that is quantized already, a parameter without rows of
/// floats, and a file that cannot be written.
pub fn quantize(
    source: &Path,
    target: &Path,
    params: &[ParamSpec],
    quantized: &BTreeSet<String>,
    scales: &InputScales,
) -> Result<[usize; 2]> {
    let fields = check_unquantized(source)?;
    let found = Found::of(source, params, &|_| true)?;
    let chosen: BTreeSet<String> = found.tensors_of(quantized).collect();
    let mut checkpoint = found.into_checkpoint();
    let mut tensors = Vec::new();
    let mut ignored = scales.without.clone();
    let mut before = 0;
    for tensor in checkpoint.tensors() {
        before += bytes(&tensor);
        if is_of_training(&tensor.name) {
            continue;
        }
        let rows = Type::f32(&tensor.shape);
        if !chosen.contains(&tensor.name) || QuantizeRows::quantized(&rows).is_none() || tensor.shape.len() != 2 {
            let layer = tensor.name.trim_end_matches(".weight");
            if tensor.shape.len() == 2 && !ignored.iter().any(|name| name == layer) {
                ignored.push(layer.to_string());
            }
            tensors.push(tensor);
            continue;
        }
        let scales = Stored {
            name: beside(&tensor.name)[0].clone(),
            dtype: Dtype::F32,
            shape: vec![tensor.shape[0], 1],
        };
        let dtype = Dtype::I8;
        tensors.extend([Stored { dtype, ..tensor }, scales]);
    }
    let inputs: BTreeMap<String, f32> = (scales.of.iter())
        .map(|(layer, scale)| (format!("{layer}.{INPUT_SCALE}"), *scale))
        .collect();
    tensors.extend(inputs.keys().map(|name| Stored {
        name: name.clone(),
        dtype: Dtype::F32,
        shape: vec![1],
    }));
    create(target)?;
    let path = target.join("model.safetensors");
    let has_scales = !scales.of.is_empty();
    let mut scales: Vec<f32> = Vec::new();
    write_stored(&path, &tensors, |tensor, out| {
        let fail = |error| atomic::error_of(&path, error);
        if !scales.is_empty() {
            let all: Vec<u8> = std::mem::take(&mut scales)
                .into_iter()
                .flat_map(f32::to_le_bytes)
                .collect();
            return out.write_all(&all);
        }
        let Stored { name, shape, .. } = tensor;
        if let Some(scale) = inputs.get(name) {
            return out.write_all(&scale.to_le_bytes());
        }
        if !chosen.contains(name) || tensor.dtype != Dtype::I8 {
            let copied = checkpoint
                .file(name)
                .visit(name, &mut |bytes| out.write_all(bytes).map_err(fail));
            return copied.map_err(io::Error::other);
        }
        let mut row = Vec::with_capacity(shape[1]);
        let written = checkpoint.file(name).visit_f32(name, shape, &mut |mut part| {
            while !part.is_empty() {
                let (now, rest) = part.split_at(part.len().min(shape[1] - row.len()));
                row.extend_from_slice(now);
                part = rest;
                if row.len() == shape[1] {
                    let (levels, scale) = levels(name, &row)?;
                    out.write_all(&levels).map_err(fail)?;
                    scales.push(scale);
                    row.clear();
                }
            }
            Ok(())
        });
        written.map_err(io::Error::other)
    })?;
    let mut config = fields.into_map();
    config.remove(OWN);
    config.insert(CONFIG.to_string(), config_of(&ignored, has_scales));
    write_json(&target.join("config.json"), &config)?;
    Ok([before, tensors.iter().map(bytes).sum()])
}

/// Checks that the weights of a folder are no integers; the fields of its `config.json`.
///
/// # Errors
/// A model that is quantized already.
pub fn check_unquantized(source: &Path) -> Result<Fields> {
    let fields = Fields::read(&source.join("config.json"))?;
    if fields.get(CONFIG).is_some_and(|value| !is_empty(value)) {
        let what = "is there already: the model is quantized; name the model that it was made from";
        return Err(fields.error(CONFIG, what));
    }
    Ok(fields)
}

/// The fixed scales of layers' inputs.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct InputScales {
    /// A positive scale by the name of its layer.
    pub of: BTreeMap<String, f32>,
    /// The names of all other layers.
    pub without: Vec<String>,
}

/// Bytes of a tensor.
fn bytes(tensor: &Stored) -> usize {
    numel(&tensor.shape).saturating_mul(tensor.dtype.bitsize()) / 8
}

/// The integers of a row as bytes, and their scale; that of zeros is 1.
///
/// # Errors
/// A number that is NaN or infinite.
fn levels(name: &str, row: &[f32]) -> Result<(Vec<u8>, f32)> {
    let mut codes = vec![0; row.len()];
    let scale = QuantizeRows::quantize(row, &mut codes);
    if !scale.is_finite() {
        return Err(Error::user(format!(
            "the tensor `{name}` has a number that is not finite, which no integer stands for"
        )));
    }
    // A code is an integer and 128.
    codes.iter_mut().for_each(|code| *code ^= 0x80);
    Ok((codes, if scale > 0.0 { scale } else { 1.0 }))
}
