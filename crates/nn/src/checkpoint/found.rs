//! The parameters of a model in the files of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use safetensors::Dtype;

use super::names::{MERGE, beside_packed, candidates, is_of_adapter, is_redundant, packed};
use super::packed::Packed;
use super::receive::{Receive, Take};
use super::scales::{Scales, beside};
use super::shards::Checkpoint;
use crate::params::ParamSpec;
use crate::quantization::check_scale;
use crate::quantization_config::READ;
use lessen_base::{Error, Result};
use lessen_graph::ops::DequantizeGroups;

/// Differences between a checkpoint and the parameters of a model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rest {
    /// Parameters that the checkpoint may lack and lacks, or has in another shape.
    pub missing: Vec<String>,
    /// Tensors of the checkpoint that are no parameters of the model.
    pub extra: Vec<String>,
    /// Those of them that are no parameters of the model that the folder describes, either: heads of other tasks.
    pub unread: Vec<String>,
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
        let mut checkpoint = Checkpoint::open(dir)?;
        let (mut used, mut missing) = (BTreeMap::new(), Vec::new());
        for param in params {
            // A tensor of another parameter of the model is no copy of a tied one.
            let is_other = |name: &String| *name != param.name && params.iter().any(|other| other.name == *name);
            let found = candidates(&param.name)
                .into_iter()
                .find(|name| checkpoint.has(name) && !is_other(name));
            if found.is_none() && !may_lack(&param.name) {
                let codes = format!("{}.qweight", param.name.trim_end_matches(".weight"));
                if checkpoint.places.contains_key(&codes) {
                    let what = format!("is of codes as GPTQ or AWQ have them; {READ}");
                    return Err(checkpoint.file(&codes).wrong(&codes, &what));
                }
                if let Some(adapter) = checkpoint.places.keys().find(|name| is_of_adapter(name)) {
                    return Err(Error::user(format!(
                        "{} has no tensor `{}`, which the model needs, but `{adapter}` of adapters that are not merged; \
                         {MERGE}",
                        checkpoint.path.display(),
                        param.name
                    )));
                }
                return Err(Error::user(format!(
                    "{} has no tensor `{}`, which the model needs; is it of another model?",
                    checkpoint.path.display(),
                    param.name
                )));
            }
            let is_whole = match &found {
                None => false,
                Some(name) => !may_lack(&param.name) || has_shape(&mut checkpoint, name, &param.shape)?,
            };
            if !is_whole {
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
        let mut put = |part: &[f32]| {
            check_scale(&param.name, part)?;
            take(param, first, part)?;
            first += part.len();
            Ok(())
        };
        if let Some(packed) = Packed::of(&mut self.checkpoint, name, Some(param.into()))? {
            return packed.numbers(&mut self.checkpoint, &mut put);
        }
        match Scales::of(&mut self.checkpoint, name, &param.shape)? {
            None => self.checkpoint.file(name).visit_f32(name, &param.shape, &mut put),
            Some(scales) => {
                let mut read = 0;
                self.checkpoint.file(name).visit(name, &mut |integers| {
                    let numbers = scales.restore(read, integers);
                    read += integers.len();
                    put(&numbers)
                })
            }
        }
    }

    /// Gives a parameter to a receiver: its codes of 4 bits where it stores them as they are, or its numbers.
    ///
    /// # Errors
    /// As [`Found::visit`], and the errors of the receiver.
    pub(super) fn give(&mut self, param: &ParamSpec, receiver: &mut dyn Receive) -> Result<()> {
        if let Some((packed, op)) = self.packed(param)?
            && receiver.groups(param) == Some(op)
        {
            return packed.codes(&mut self.checkpoint, op, &mut |row, codes, scales| {
                receiver.codes(param, row, codes, scales)
            });
        }
        self.visit(param, &mut |param, first, part| receiver.numbers(param, first, part))
    }

    /// The codes of 4 bits that a parameter has, and how a device stores them; none where it has none, or a device does
    /// not store such groups.
    ///
    /// # Errors
    /// Codes and scales that do not fit each other or the model.
    pub(super) fn packed(&mut self, param: &ParamSpec) -> Result<Option<(Packed, DequantizeGroups)>> {
        let is_missing = self.missing.contains(&param.name);
        let Some(name) = self.used.get(&param.name).filter(|_| !is_missing) else {
            return Ok(None);
        };
        let packed = Packed::of(&mut self.checkpoint, name, Some(param.into()))?;
        Ok(packed.and_then(|packed| packed.op().map(|op| (packed, op))))
    }

    /// The names of parameters of two axes or more that are read from tensors of floats.
    pub(super) fn floats(&self, params: &[ParamSpec]) -> BTreeSet<String> {
        let is_float = |param: &&ParamSpec| {
            let tensor = self.used.get(&param.name).and_then(|name| self.checkpoint.stored(name));
            param.shape.len() > 1 && tensor.is_some_and(|tensor| tensor.dtype != Dtype::I8)
        };
        params.iter().filter(is_float).map(|param| param.name.clone()).collect()
    }

    /// These parameters with the tensors that they are read from.
    pub(super) fn tensors_of<'a>(
        &'a self,
        params: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = (&'a String, &'a String)> + 'a {
        params.iter().filter_map(|name| Some((name, self.used.get(name)?)))
    }

    /// The files.
    pub(super) fn into_checkpoint(self) -> Checkpoint {
        self.checkpoint
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
            Some(name) => {
                if Packed::of(&mut self.checkpoint, name, Some(param.into()))?.is_some() {
                    return Ok(());
                }
                match Scales::of(&mut self.checkpoint, name, &param.shape)? {
                    Some(_) => Ok(()),
                    None => self.checkpoint.file(name).check_f32(name, &param.shape),
                }
            }
            None => Ok(()),
        }
    }

    /// The path that errors about missing tensors name.
    pub(super) fn path(&self) -> &Path {
        &self.checkpoint.path
    }

    /// Whether the checkpoint has a tensor, or codes of 4 bits in its place.
    pub(super) fn has(&self, name: &str) -> bool {
        self.checkpoint.has(name)
    }

    /// The names of the tensors that parameters are read from.
    pub(super) fn read(&self) -> impl Iterator<Item = String> + '_ {
        self.used.values().cloned()
    }

    /// The tensors of the checkpoint other than these, what lies beside them, and those that carry no information.
    pub(super) fn left_over<'a>(&self, read: impl Iterator<Item = &'a String>) -> Vec<String> {
        let mut known: BTreeSet<String> = BTreeSet::new();
        for name in read {
            if self.checkpoint.places.contains_key(name) {
                known.extend(beside(name));
            } else {
                known.extend(beside_packed(name));
                known.insert(packed(name));
            }
            known.insert(name.clone());
        }
        let left = self.checkpoint.tensors().into_iter();
        let left = left.filter(|tensor| !known.contains(&tensor.name) && !is_redundant(&tensor.name, &tensor.shape));
        left.map(|tensor| tensor.name).collect()
    }

    /// Differences between the checkpoint and the parameters of the model, with the tensors that nothing reads.
    pub(super) fn rest(self, unread: Vec<String>) -> Rest {
        Rest {
            extra: self.left_over(self.used.values()),
            missing: self.missing,
            unread,
        }
    }

    /// Refuses a checkpoint whose copy of a tied tensor differs from its source.
    ///
    /// # Errors
    /// Two different tensors that the model ties.
    pub(super) fn check_tied(&mut self, params: &[ParamSpec]) -> Result<()> {
        self.checkpoint.check_tied(params, &self.missing, &self.used)
    }
}

/// Whether a tensor of the checkpoint has this shape, as numbers or as codes.
///
/// # Errors
/// Codes that do not fit each other.
fn has_shape(checkpoint: &mut Checkpoint, name: &str, shape: &[usize]) -> Result<bool> {
    Ok(match Packed::of(checkpoint, name, None)? {
        Some(packed) => packed.shape() == shape,
        None => checkpoint.stored(name).is_some_and(|stored| stored.shape == shape),
    })
}
