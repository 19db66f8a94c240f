//! Folders of adapters as `peft` writes them: `adapter_config.json` and `adapter_model.safetensors` with the adapters
//! and the parameters that were trained whole, beside a base model in another folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::adapter_config::{AdapterConfig, config_of};
use super::adapter_files::{ADAPTERS, TENSORS, open_tensors};
use super::dtype::WeightDtype;
use super::file::TensorFile;
use super::folder::ModelFolder;
use super::found::{Found, Rest, Take};
use super::save::{Entry, Sink, Stored, create, save_with, write_config, write_json, write_stored, write_weights};
use super::tensor_names::{is_left_over, parameter_of, tensor_of, variants};
use crate::config::Fields;
use crate::lora::{Adapter, Lora, adapter_layer};
use crate::model::Model;
use crate::params::ParamSpec;
use lessen_base::{Error, Result, atomic};
use lessen_graph::Type;

/// Writes the trained parameters of a model with adapters, and its `config.json`, in this dtype. `show` passes the
/// elements of each of `entries`, which bear the names of parameters, to the sink.
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
    let prefixed = entries.iter().map(|entry| Entry {
        name: tensor_of(&entry.name),
        ty: entry.ty.clone(),
    });
    let mut own = entries.iter();
    write_weights(&dir.join(TENSORS), &prefixed.collect::<Vec<_>>(), dtype, |_, sink| {
        own.next().map_or(Ok(()), |entry| show(entry, sink))
    })?;
    write_json(&dir.join(ADAPTERS), &config_of(lora, entries))?;
    write_config(dir, config_json.clone(), dtype)
}

/// A folder of adapters that is open.
struct Folder {
    config: AdapterConfig,
    base: PathBuf,
    file: TensorFile,
    path: PathBuf,
    /// The name of the tensor of each parameter.
    tensors: BTreeMap<String, String>,
    fan_in_fan_out: bool,
}

impl Folder {
    fn open(folder: ModelFolder<'_>) -> Result<Folder> {
        let config = AdapterConfig::read(folder.path())?;
        let base = folder.base_of(&config)?;
        let (path, file) = open_tensors(folder.path())?;
        let named = file.names().into_iter();
        let tensors = named
            .filter_map(|tensor| Some((parameter_of(&tensor)?, tensor)))
            .collect();
        Ok(Folder {
            fan_in_fan_out: Model::from_dir(folder)?.fan_in_fan_out(),
            config,
            base,
            file,
            path,
            tensors,
        })
    }

    /// The tensor of a parameter, if there is one.
    fn tensor(&self, param: &str) -> Option<String> {
        variants(param).find_map(|name| self.tensors.get(name)).cloned()
    }

    /// The elements of a tensor.
    fn read(&mut self, tensor: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(shape.iter().product());
        self.file.visit_f32(tensor, shape, &mut |part| {
            all.extend_from_slice(part);
            Ok(())
        })?;
        Ok(all)
    }

    /// The adapter of a parameter with the elements of both matrices, if it has one.
    fn adapter(&mut self, param: &ParamSpec) -> Result<Option<Matrices>> {
        let Some(FoundAdapter { adapter, a, b }) = self.find_adapter(param) else {
            return Ok(None);
        };
        let scale = self.config.scale(adapter.layer(), adapter.rank);
        let a = self.read(&a, &[adapter.rank, adapter.inputs])?;
        let b = self.read(&b, &[adapter.outputs, adapter.rank])?;
        Ok(Some(Matrices { adapter, scale, a, b }))
    }

    /// [`load_with`](super::load::load_with) of parameters with the adapters' products added.
    fn load(&mut self, params: &[ParamSpec], may_lack: &dyn Fn(&str) -> bool, take: &mut Take<'_>) -> Result<Rest> {
        let mut base = self.open_base(params, may_lack)?;
        self.check(&mut base, params)?;
        for param in params {
            self.visit(&mut base, param, take)?;
        }
        let mut rest = base.rest();
        rest.missing.retain(|name| self.tensor(name).is_none());
        Ok(rest)
    }

    /// Opens the parameters in the base model, which may lack parameters that the folder has.
    fn open_base(&self, params: &[ParamSpec], may_lack: &dyn Fn(&str) -> bool) -> Result<Found> {
        Found::of(&self.base, params, &|name| {
            may_lack(name) || self.tensor(name).is_some()
        })
    }

    /// Checks all that can be wrong with the parameters, but for a file that cannot be read any more.
    fn check(&mut self, base: &mut Found, params: &[ParamSpec]) -> Result<()> {
        for param in params {
            match self.tensor(&param.name) {
                Some(tensor) => self.file.check_f32(&tensor, &param.shape)?,
                None => {
                    self.check_adapter(param)?;
                    base.check_one(param)?;
                }
            }
        }
        base.check_tied(params)
    }

    /// Checks shapes and dtypes of the adapter of a parameter, if it has one.
    fn check_adapter(&self, param: &ParamSpec) -> Result<()> {
        let Some(FoundAdapter { adapter, a, b }) = self.find_adapter(param) else {
            return Ok(());
        };
        self.file.check_f32(&a, &[adapter.rank, adapter.inputs])?;
        self.file.check_f32(&b, &[adapter.outputs, adapter.rank])
    }

    /// The adapter of a parameter and the tensors of both matrices, if it has one.
    fn find_adapter(&self, param: &ParamSpec) -> Option<FoundAdapter> {
        let mut adapter = Adapter::beside(param, self.fan_in_fan_out)?;
        let (a, b) = (self.tensor(&adapter.a())?, self.tensor(&adapter.b())?);
        adapter.rank = self
            .file
            .shape(&a)
            .and_then(|shape| shape.first().copied())
            .unwrap_or(0);
        Some(FoundAdapter { adapter, a, b })
    }

    /// Shows the elements of a parameter to `take`: the folder's elements if the folder has the parameter, otherwise
    /// the base model's elements with the adapter's product added.
    fn visit(&mut self, base: &mut Found, param: &ParamSpec, take: &mut Take<'_>) -> Result<()> {
        if let Some(tensor) = self.tensor(&param.name) {
            let mut first = 0;
            return self.file.visit_f32(&tensor, &param.shape, &mut |part| {
                take(param, first, part)?;
                first += part.len();
                Ok(())
            });
        }
        let Some(Matrices { adapter, scale, a, b }) = self.adapter(param)? else {
            return base.visit(param, take);
        };
        base.visit(param, &mut |param, first, part| {
            let mut merged = part.to_vec();
            adapter.merge((scale, self.fan_in_fan_out), (&a, &b), first, &mut merged);
            take(param, first, &merged)
        })
    }

    /// Refuses tensors that belong to none of the parameters of a model.
    fn check_tensors(&self, params: &[ParamSpec]) -> Result<()> {
        let has = |name: &str| params.iter().any(|param| variants(&param.name).any(|own| own == name));
        let is_known = |tensor: &String| {
            let is_of_one = parameter_of(tensor).is_some_and(|name| {
                has(&name) || adapter_layer(&name).is_some_and(|layer| has(&format!("{layer}.weight")))
            });
            is_of_one || is_left_over(tensor)
        };
        match self.file.names().into_iter().find(|tensor| !is_known(tensor)) {
            None => Ok(()),
            Some(stranger) => Err(Error::user(format!(
                "{}: the tensor `{stranger}` belongs to no parameter of the model; are the adapters of another model?",
                self.path.display()
            ))),
        }
    }
}

/// An adapter and the tensors of both matrices.
struct FoundAdapter {
    adapter: Adapter,
    a: String,
    b: String,
}

/// An adapter with the elements of both matrices.
struct Matrices {
    adapter: Adapter,
    scale: f64,
    a: Vec<f32>,
    b: Vec<f32>,
}

/// Loads a folder of adapters as [`load_with`](super::load::load_with) does: the weights of the base model with the
/// adapters' products in them, and the parameters that were trained whole.
pub(super) fn load_merged(
    folder: ModelFolder<'_>,
    params: &[ParamSpec],
    may_lack: &dyn Fn(&str) -> bool,
    take: &mut Take<'_>,
) -> Result<Rest> {
    let mut folder = Folder::open(folder)?;
    folder.check_tensors(params)?;
    folder.load(params, may_lack, take)
}

/// Writes the model of a folder of adapters to the folder `target` as one without adapters, in this dtype: every weight
/// is `W + s B A` with the adapters' factor `s`. Blocks are read and written one after another, so that the model is
/// never in memory.
///
/// # Errors
/// As [`load_with`](super::load::load_with), a file that cannot be written, and a number that the dtype does not reach.
pub(super) fn merge(source: ModelFolder<'_>, target: &Path, dtype: WeightDtype) -> Result<()> {
    let model = Model::from_dir(source)?;
    let mut params = model.parameters();
    params.sort_by(|a, b| a.name.cmp(&b.name));
    let mut folder = Folder::open(source)?;
    folder.check_tensors(&params)?;
    let entry = |param: &ParamSpec| Entry {
        name: param.name.clone(),
        ty: Type::f32(&param.shape),
    };
    let entries: Vec<Entry> = params.iter().map(entry).collect();
    let mut base = folder.open_base(&params, &|_| false)?;
    base.check_tied(&params)?;
    let mut left = params.iter();
    save_with(target, &model.config_json(), dtype, &entries, |_, sink| {
        let fail = |error| atomic::error_of(target, error);
        let mut take = |_: &ParamSpec, _: usize, part: &[f32]| sink(part).map_err(fail);
        let Some(param) = left.next() else { return Ok(()) };
        let read = folder.visit(&mut base, param, &mut take);
        read.map_err(std::io::Error::other)
    })
}

/// Writes the adapters of the folder `source` to the folder `target`, creating it if needed, with their tensors in
/// `dtype`. Where `source` was given a base model, the file names that folder.
///
/// # Errors
/// A folder without adapters, a damaged one, a file that cannot be written, and a number that the dtype does not reach.
pub fn copy_adapters(source: ModelFolder<'_>, target: &Path, dtype: WeightDtype) -> Result<()> {
    let dir = source.path();
    if !source.has_adapters() {
        return Err(Error::user(format!(
            "{} holds a whole model and no adapters; leave out --adapters",
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
    let own = dir.join("config.json");
    if own.exists() {
        write_config(target, Fields::read(&own)?.into_map(), dtype)
    } else {
        Ok(())
    }
}
