//! The tensors of a model in the files of a folder: `model.safetensors`, or the shards that
//! `model.safetensors.index.json` lists.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde_json::{Map, Value};

use super::WANTED_FOLDER;
use super::file::TensorFile;
use super::names::{Tied, candidates, is_redundant, tied};
use super::save::Stored;
use crate::params::ParamSpec;
use lessen_base::{Error, Result};

/// Takes elements of a parameter, some after others, with the number of the first of them.
pub type Take<'a> = dyn FnMut(&ParamSpec, usize, &[f32]) -> Result<()> + 'a;

/// Differences between a checkpoint and the parameters of a model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rest {
    /// Parameters that the checkpoint may lack and lacks, or has in another shape.
    pub missing: Vec<String>,
    /// Tensors of the checkpoint that are no parameters of the model.
    pub extra: Vec<String>,
}

/// The parameters of a model in a checkpoint that is open.
pub(super) struct Found {
    checkpoint: Checkpoint,
    /// The tensor that each parameter is read from.
    used: BTreeMap<String, String>,
    missing: Vec<String>,
}

impl Found {
    /// Finds the parameters of a model.
    ///
    /// # Errors
    /// A parameter that is missing and may not be, and files that are damaged.
    pub(super) fn of(dir: &Path, params: &[ParamSpec], may_lack: &dyn Fn(&str) -> bool) -> Result<Found> {
        let checkpoint = Checkpoint::open(dir)?;
        let (mut used, mut missing) = (BTreeMap::new(), Vec::new());
        for param in params {
            // A tensor of another parameter of the model is no copy of a tied one.
            let is_other = |name: &String| *name != param.name && params.iter().any(|other| other.name == *name);
            let found = candidates(&param.name)
                .into_iter()
                .find(|name| checkpoint.places.contains_key(name) && !is_other(name));
            if found.is_none() && !may_lack(&param.name) {
                return Err(Error::user(format!(
                    "{} has no tensor `{}`, which the model needs; is it of another model?",
                    checkpoint.path.display(),
                    param.name
                )));
            }
            let is_whole = |name: &String| !may_lack(&param.name) || checkpoint.has_shape(name, &param.shape);
            if !found.as_ref().is_some_and(is_whole) {
                missing.push(param.name.clone());
            }
            used.extend(found.map(|name| (param.name.clone(), name)));
        }
        Ok(Found {
            checkpoint,
            used,
            missing,
        })
    }

    /// The dtypes of the tensors that the parameters are read from.
    pub(super) fn dtypes(&self) -> Vec<Dtype> {
        let tensors = self.checkpoint.tensors().into_iter();
        let used = tensors.filter(|tensor| self.used.values().any(|name| *name == tensor.name));
        used.map(|tensor| tensor.dtype).collect()
    }

    /// Shows the elements of a parameter to `take`, some after others; none where it is missing.
    ///
    /// # Errors
    /// A wrong shape, a damaged file, and the errors of `take`.
    pub(super) fn visit(&mut self, param: &ParamSpec, take: &mut Take<'_>) -> Result<()> {
        let Some(name) = self
            .used
            .get(&param.name)
            .filter(|_| !self.missing.contains(&param.name))
        else {
            return Ok(());
        };
        let mut first = 0;
        self.checkpoint.file(name).visit_f32(name, &param.shape, &mut |part| {
            take(param, first, part)?;
            first += part.len();
            Ok(())
        })
    }

    /// Checks all that can be wrong with the parameters, but for a file that cannot be read any more.
    ///
    /// # Errors
    /// A wrong shape, a dtype that is not read, and two different tensors that the model ties.
    pub(super) fn check(&mut self, params: &[ParamSpec]) -> Result<()> {
        params.iter().try_for_each(|param| self.check_one(param))?;
        self.check_tied(params)
    }

    /// Checks shape and dtype of a parameter, unless it is missing.
    ///
    /// # Errors
    /// A wrong shape, and a dtype that is not read.
    pub(super) fn check_one(&mut self, param: &ParamSpec) -> Result<()> {
        let is_missing = self.missing.contains(&param.name);
        match self.used.get(&param.name).filter(|_| !is_missing) {
            Some(name) => self.checkpoint.file(name).check_f32(name, &param.shape),
            None => Ok(()),
        }
    }

    /// Differences between the checkpoint and the parameters of the model.
    pub(super) fn rest(self) -> Rest {
        let Found {
            checkpoint,
            used,
            missing,
        } = self;
        let is_used = |name: &String| used.values().any(|used| used == name);
        let extra = checkpoint.places.into_keys();
        let extra = extra.filter(|name| !is_used(name) && !is_redundant(name)).collect();
        Rest { missing, extra }
    }

    /// Refuses a checkpoint whose copy of a tied tensor differs from its source.
    ///
    /// # Errors
    /// Two different tensors that the model ties.
    pub(super) fn check_tied(&mut self, params: &[ParamSpec]) -> Result<()> {
        self.checkpoint.check_tied(params, &self.missing, &self.used)
    }
}

/// The files of a checkpoint, and the index of the file that holds each tensor.
pub(super) struct Checkpoint {
    /// The file that errors about missing tensors name.
    path: PathBuf,
    files: Vec<TensorFile>,
    places: BTreeMap<String, usize>,
}

impl Checkpoint {
    pub(super) fn open(dir: &Path) -> Result<Checkpoint> {
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        if single.exists() {
            let file = TensorFile::open(&single)?;
            let places = file.names().into_iter().map(|name| (name, 0)).collect();
            return Ok(Checkpoint {
                path: single,
                files: vec![file],
                places,
            });
        }
        if index.exists() {
            return Checkpoint::open_shards(dir, index);
        }
        let shown = dir.display();
        let pickled = ["pytorch_model.bin", "pytorch_model.bin.index.json"];
        if pickled.iter().any(|name| dir.join(name).exists()) {
            return Err(Error::user(format!(
                "{shown} has a pytorch_model.bin but no model.safetensors; convert it with: python -c \"import transformers \
                 as t; d = '{shown}'; getattr(t, t.AutoConfig.from_pretrained(d).architectures[0]).from_pretrained(d)\
                 .save_pretrained(d)\""
            )));
        }
        Err(Error::user(format!(
            "{shown} has no model.safetensors; {WANTED_FOLDER}"
        )))
    }

    /// All tensors with their stored dtypes.
    pub(super) fn tensors(&self) -> Vec<Stored> {
        let stored = |(name, place): (&String, &usize)| self.files[*place].stored(name);
        self.places.iter().filter_map(stored).collect()
    }

    /// The file of a tensor that the checkpoint has.
    pub(super) fn file(&mut self, name: &str) -> &mut TensorFile {
        &mut self.files[self.places[name]]
    }

    fn has_shape(&self, name: &str, shape: &[usize]) -> bool {
        self.files[self.places[name]].shape(name) == Some(shape)
    }

    /// Refuses a checkpoint whose copy of a tied tensor differs from its source. Copies that a parameter was read from
    /// are skipped.
    fn check_tied(&mut self, params: &[ParamSpec], missing: &[String], used: &BTreeMap<String, String>) -> Result<()> {
        let has_value = |name: &str| used.contains_key(name) && !missing.iter().any(|own| own == name);
        for Tied { copy, source, user } in tied() {
            let (Some(param), true) = (params.iter().find(|param| param.name == source), has_value(user)) else {
                continue;
            };
            let Some(tensor) = used.get(&source).filter(|_| has_value(&source)) else {
                continue;
            };
            if !self.places.contains_key(copy) || used.values().any(|used| used == copy) {
                continue;
            }
            if !self.are_equal(copy, tensor, &param.shape)? {
                return Err(Error::user(format!(
                    "{}: the tensor `{copy}` differs from `{source}`, and Lessen computes this model only \
                     with both the same (`tie_word_embeddings`)",
                    self.path.display()
                )));
            }
        }
        Ok(())
    }

    /// Whether two tensors of this shape have the same bits as `f32`.
    fn are_equal(&mut self, one: &str, other: &str, shape: &[usize]) -> Result<bool> {
        const COUNT: usize = 1 << 16;
        for first in (0..shape.iter().product()).step_by(COUNT) {
            let mut bits = |name: &str| -> Result<Vec<u32>> {
                let part = self.file(name).read_part(name, shape, first, COUNT)?;
                Ok(part.into_iter().map(f32::to_bits).collect())
            };
            if bits(one)? != bits(other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn open_shards(dir: &Path, index: PathBuf) -> Result<Checkpoint> {
        let wrong = |what: String| Error::user(format!("{} {what}", index.display()));
        let text = fs::read_to_string(&index).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let json: Value = serde_json::from_str(&text).map_err(|e| wrong(format!("is no valid JSON: {e}")))?;
        let map: &Map<String, Value> = json
            .get("weight_map")
            .and_then(Value::as_object)
            .ok_or_else(|| wrong("has no object `weight_map` from tensors to files".into()))?;
        let mut shards: Vec<String> = Vec::new();
        let mut checkpoint = Checkpoint {
            path: index.clone(),
            files: Vec::new(),
            places: BTreeMap::new(),
        };
        for (name, shard) in map {
            // A shard lies beside its index: a path would leave the folder.
            let shard = shard
                .as_str()
                .filter(|s| Path::new(s).file_name().is_some_and(|n| n == *s));
            let shard = shard.ok_or_else(|| wrong(format!("gives no file name for the tensor `{name}`")))?;
            let place = match shards.iter().position(|s| s == shard) {
                Some(place) => place,
                None => {
                    checkpoint.files.push(TensorFile::open(&dir.join(shard))?);
                    shards.push(shard.to_string());
                    shards.len() - 1
                }
            };
            checkpoint.places.insert(name.clone(), place);
        }
        Ok(checkpoint)
    }
}
