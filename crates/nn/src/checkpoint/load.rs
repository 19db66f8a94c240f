//! Reading the weights of a model from a folder, all of them or none.

use super::adapters::load_merged;
use super::folder::ModelFolder;
use super::found::{Found, Rest};
use super::onnx_file::load_onnx;
use super::receive::{Numbers, Receive, Take};
use super::unread::check_unread;
use crate::params::ParamSpec;
use crate::quantization_config::is_quantized;
use crate::weights::{Weight, Weights};
use lessen_base::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The weights of a checkpoint, matched with the parameters of a model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Loaded {
    /// Values of the parameters that the checkpoint has.
    pub weights: Weights,
    /// Parameters that the checkpoint may lack and lacks, or has in another shape; the caller initializes them.
    pub missing: Vec<String>,
    /// Tensors of the checkpoint that are no parameters of the model.
    pub extra: Vec<String>,
}

/// Reads the values of `params` from the checkpoint in a folder, converting F16, BF16 and F64 to `f32`.
///
/// A parameter that is missing or has another shape is an error, unless `allow_missing` holds for its name: a new task
/// head replaces that of the checkpoint.
///
/// # Errors
/// A missing, truncated or damaged file; an inconsistent header; a missing tensor; a wrong shape; an unknown dtype; two
/// different tensors that the model ties; tensors that nothing reads and without which the model answers otherwise. The
/// message names the file and the tensor.
pub fn load<'a>(
    folder: impl Into<ModelFolder<'a>>,
    params: &[ParamSpec],
    allow_missing: &dyn Fn(&str) -> bool,
) -> Result<Loaded> {
    let mut weights = Weights::new();
    let rest = load_with(folder, params, allow_missing, &mut |param, first, part| {
        let weight = weights.entry(param.name.clone()).or_insert_with(|| Weight {
            shape: param.shape.clone(),
            data: Vec::with_capacity(param.shape.iter().product()),
        });
        weight.data.truncate(first);
        weight.data.extend_from_slice(part);
        Ok(())
    })?;
    Ok(Loaded {
        weights,
        missing: rest.missing,
        extra: rest.extra,
    })
}

/// [`load`] without the values in memory; of an ONNX file, its initializers; of a folder of adapters,
/// and with the adapters of other folders, the weights of the model that they belong to, with the adapters' products in
/// them. `take` gets each parameter's elements, some
/// after others, with the number of the first of them, after all parameters have been found sound.
///
/// # Errors
/// As [`load`], before `take` gets anything; a file that cannot be read any more, and the errors of `take`.
pub fn load_with<'a>(
    folder: impl Into<ModelFolder<'a>>,
    params: &[ParamSpec],
    allow_missing: &dyn Fn(&str) -> bool,
    take: &mut Take<'_>,
) -> Result<Rest> {
    load_into(folder, params, allow_missing, &mut Numbers(take))
}

/// [`load_with`] for a receiver that may store codes of 4 bits as they are.
///
/// # Errors
/// As [`load_with`], and the errors of the receiver.
pub fn load_into<'a>(
    folder: impl Into<ModelFolder<'a>>,
    params: &[ParamSpec],
    allow_missing: &dyn Fn(&str) -> bool,
    receiver: &mut dyn Receive,
) -> Result<Rest> {
    let folder = folder.into();
    let take: &mut Take<'_> = &mut |param, first, part| receiver.numbers(param, first, part);
    if folder.is_onnx_file() {
        return load_onnx(folder.path(), params, allow_missing, take);
    }
    if folder.is_adapted() {
        return load_merged(folder, params, allow_missing, take);
    }
    let mut found = Found::of(folder.path(), params, allow_missing)?;
    found.check(params)?;
    let unread = check_unread(&found, params, folder)?;
    params.iter().try_for_each(|param| found.give(param, receiver))?;
    Ok(found.rest(unread))
}

/// The parameters of two axes or more that a folder has in floats beside integers, such as tables of embeddings; none
/// of a folder without integers, and of adapted models, whose numbers are others.
///
/// # Errors
/// A file that is missing or damaged.
pub fn stored_floats<'a>(folder: impl Into<ModelFolder<'a>>, params: &[ParamSpec]) -> Result<BTreeSet<String>> {
    let folder = folder.into();
    if folder.is_onnx_file() || folder.is_adapted() || !is_quantized(folder.path()) {
        return Ok(BTreeSet::new());
    }
    Ok(Found::of(folder.path(), params, &|_| true)?.floats(params))
}

/// The parameters that a folder has in codes of 4 bits with groups that devices store, and the elements of a group,
/// which are a multiple of 32; none of adapted models, whose numbers are others.
///
/// # Errors
/// A file that is missing or damaged, and codes that do not fit each other or the model.
pub fn stored_groups<'a>(folder: impl Into<ModelFolder<'a>>, params: &[ParamSpec]) -> Result<BTreeMap<String, usize>> {
    let folder = folder.into();
    let mut groups = BTreeMap::new();
    if folder.is_onnx_file() || folder.is_adapted() {
        return Ok(groups);
    }
    let mut found = Found::of(folder.path(), params, &|_| true)?;
    for param in params {
        if let Some((_, op)) = found.packed(param)? {
            groups.insert(param.name.clone(), op.group);
        }
    }
    Ok(groups)
}
