//! The parameters of a model in the files of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use safetensors::Dtype;

use super::names::{candidates, is_redundant};
use super::scales::{Scales, beside};
use super::shards::Checkpoint;
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
        let mut put = |part: &[f32]| {
            take(param, first, part)?;
            first += part.len();
            Ok(())
        };
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

    /// The tensors that these parameters are read from.
    pub(super) fn tensors_of<'a>(&'a self, params: &'a BTreeSet<String>) -> impl Iterator<Item = String> + 'a {
        params.iter().filter_map(|name| self.used.get(name).cloned())
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
            Some(name) => match Scales::of(&mut self.checkpoint, name, &param.shape)? {
                Some(_) => Ok(()),
                None => self.checkpoint.file(name).check_f32(name, &param.shape),
            },
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
        let is_used = |name: &String| used.values().any(|used| used == name || beside(used).contains(name));
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
