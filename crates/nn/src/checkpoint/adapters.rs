//! Folders of adapters as `peft` writes them: `adapter_config.json` and `adapter_model.safetensors` with the adapters
//! and the parameters that were trained whole, beside a base model in another folder.

use std::path::Path;

use serde_json::{Map, Value};

use super::adapted_model::AdaptedModel;
use super::adapter_config::{AdapterConfig, config_of};
use super::adapter_files::{ADAPTERS, MODEL, TENSORS, model_config, open_tensors};
use super::dtype::WeightDtype;
use super::folder::ModelFolder;
use super::found::Rest;
use super::names::tied_head;
use super::receive::Take;
use super::save::{Entry, Sink, Stored, create, save_with, write_config, write_json, write_stored, write_weights};
use super::tensor_names::tensor_of;
use crate::config::Fields;
use crate::lora::Lora;
use crate::model::Model;
use crate::params::ParamSpec;
use lessen_base::{Error, Result, atomic};
use lessen_graph::Type;

/// Writes the trained parameters of a model with adapters, and the file that describes the whole model, in this dtype.
/// `show` passes the elements of one of `entries`, which bear the names of parameters, to the sink; it may be asked for
/// one twice.
///
/// # Errors
/// A file that cannot be written, which the message names, and a number that the dtype does not reach.
pub fn save_adapters(
    dir: &Path,
    config_json: &Map<String, Value>,
    lora: &Lora,
    dtype: WeightDtype,
    entries: &[Entry],
    mut show: impl FnMut(&Entry, &mut Sink<'_>) -> std::io::Result<()>,
) -> Result<()> {
    create(dir)?;
    // The head that the model ties to trained embeddings is written beside them, since `peft` unties the two otherwise.
    let model = Fields::of(config_json.clone(), "config.json");
    let words = tied_head(&model);
    let words = words.filter(|words| entries.iter().any(|entry| entry.name == words.source));
    let mut written: Vec<(String, &Entry)> = Vec::new();
    for entry in entries {
        written.push((entry.name.clone(), entry));
        let copy = words.as_ref().filter(|words| entry.name == words.source);
        written.extend(copy.map(|words| (words.copy.to_string(), entry)));
    }
    let named = |name: String, entry: &Entry| Entry {
        name,
        ty: entry.ty.clone(),
    };
    let tensors = written.iter().map(|(name, entry)| named(tensor_of(name), entry));
    let mut sources = written.iter();
    write_weights(&dir.join(TENSORS), &tensors.collect::<Vec<_>>(), dtype, |_, sink| {
        sources.next().map_or(Ok(()), |(_, entry)| show(entry, sink))
    })?;
    let own: Vec<Entry> = written.iter().map(|(name, entry)| named(name.clone(), entry)).collect();
    write_json(&dir.join(ADAPTERS), &config_of(lora, &own, words.is_some(), &model))?;
    write_config(&dir.join(MODEL), config_json.clone(), dtype)
}

/// Loads a model with adapters as [`load_with`](super::load::load_with) does: the weights of the base model with the
/// adapters' products in them, and the parameters that were trained whole.
pub(super) fn load_merged(
    folder: ModelFolder<'_>,
    params: &[ParamSpec],
    may_lack: &dyn Fn(&str) -> bool,
    take: &mut Take<'_>,
) -> Result<Rest> {
    AdaptedModel::open(folder)?.load(params, may_lack, take)
}

/// Writes a model with adapters to the folder `target` as one without adapters, in this dtype: every weight is
/// `W + s B A` with the adapter's factor `s`, or the sum over all adapters. Blocks are read and written one after
/// another, so that the model is never in memory.
///
/// # Errors
/// As [`load_with`](super::load::load_with), a file that cannot be written, and a number that the dtype does not reach.
pub(super) fn merge(source: ModelFolder<'_>, target: &Path, dtype: WeightDtype) -> Result<()> {
    let model = Model::from_dir(source)?;
    let mut params = model.parameters();
    params.sort_by(|a, b| a.name.cmp(&b.name));
    let mut adapted = AdaptedModel::open(source)?;
    let entry = |param: &ParamSpec| Entry {
        name: param.name.clone(),
        ty: Type::f32(&param.shape),
    };
    let entries: Vec<Entry> = params.iter().map(entry).collect();
    let mut base = adapted.open_base(&params, &|_| false)?;
    adapted.check(&mut base, &params)?;
    let mut left = params.iter();
    save_with(target, &model.config_json(), dtype, &entries, |_, sink| {
        let fail = |error| atomic::error_of(target, error);
        let mut take = |_: &ParamSpec, _: usize, part: &[f32]| sink(part).map_err(fail);
        let Some(param) = left.next() else { return Ok(()) };
        let read = adapted.visit(&mut base, param, &mut take);
        read.map_err(std::io::Error::other)
    })
}

/// Writes the adapters of the folder `source` to the folder `target`, creating it if needed, with their tensors in
/// `dtype`. Where `source` was given a base model, the file names that folder.
///
/// # Errors
/// A folder without adapters, or with others added; a damaged one, a file that cannot be written, and a number that the
/// dtype does not reach.
pub fn copy_adapters(source: ModelFolder<'_>, target: &Path, dtype: WeightDtype) -> Result<()> {
    let dir = source.path();
    if !source.has_adapters() {
        return Err(Error::user(format!(
            "{} holds a whole model and no adapters; leave out --adapters",
            dir.display()
        )));
    }
    if let Some(added) = source.added().first() {
        return Err(Error::user(format!(
            "--adapters writes the adapters of {} alone, and --adapter {added} adds others; leave out one of the two",
            dir.display()
        )));
    }
    let config = AdapterConfig::read(dir)?;
    let (_, mut file) = open_tensors(dir)?;
    let mut names = file.names();
    names.sort();
    let tensors = names.iter().filter_map(|name| file.stored(name)).map(|tensor| Stored {
        dtype: dtype.stored(),
        ..tensor
    });
    let tensors: Vec<Stored> = tensors.collect();
    create(target)?;
    let path = target.join(TENSORS);
    write_stored(&path, &tensors, |Stored { name, shape, .. }, out| {
        let fail = |error| atomic::error_of(&path, error);
        let copied = file.visit_f32(name, shape, &mut |part| dtype.write(name, part, out).map_err(fail));
        copied.map_err(std::io::Error::other)
    })?;
    write_json(&target.join(ADAPTERS), &config.into_map(source.given_base()))?;
    match model_config(dir) {
        Some(own) => write_config(&target.join(MODEL), Fields::read(&own)?.into_map(), dtype),
        None => Ok(()),
    }
}
