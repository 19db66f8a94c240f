//! Storages that depend on the name of a parameter.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use lessen_base::Result;
use lessen_graph::ops::DequantizeGroups;
use lessen_graph::{Host, Tensor, Type};

use super::{F32Storage, Int4Storage, ParamStorage, Put, Stored};

/// A choice of storage for each parameter.
pub trait ByParameter {
    /// Calls `f` with the storage of a parameter.
    fn with<T>(&self, param: Stored<'_>, f: impl FnOnce(&dyn ParamStorage) -> T) -> T;
}

impl<B: ByParameter + Debug + Send + Sync> ParamStorage for B {
    fn states(&self, param: Stored<'_>) -> Vec<(&'static str, Type)> {
        self.with(param, |storage| storage.states(param))
    }

    fn value(&self, param: Stored<'_>, states: &[Tensor]) -> Tensor {
        self.with(param, |storage| storage.value(param, states))
    }

    fn unit(&self, param: Stored<'_>) -> usize {
        self.with(param, |storage| storage.unit(param))
    }

    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        self.with(param, |storage| storage.encode(param, first, values, put))
    }

    fn decode<'a>(&self, param: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        self.with(param, |storage| storage.decode(param, states))
    }

    fn groups(&self, param: Stored<'_>) -> Option<DequantizeGroups> {
        self.with(param, |storage| storage.groups(param))
    }
}

/// Matrices that a file has in codes of 4 bits are stored as these, with the groups of the file; the rest is stored
/// another way. For inference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackedStorage<R> {
    /// Elements of a group by the names of parameters, multiples of 32.
    pub groups: BTreeMap<String, usize>,
    /// How all other parameters are stored.
    pub rest: R,
}

impl<R> PackedStorage<R> {
    /// How a parameter of the file is stored; none where it is one of the rest.
    pub fn own(&self, param: Stored<'_>) -> Option<Int4Storage> {
        let group = *self.groups.get(param.name)?;
        let own = Int4Storage { group };
        own.rows(param).is_some().then_some(own)
    }
}

impl<R: ParamStorage> ByParameter for PackedStorage<R> {
    fn with<T>(&self, param: Stored<'_>, f: impl FnOnce(&dyn ParamStorage) -> T) -> T {
        match self.own(param) {
            Some(own) => f(&own),
            None => f(&self.rest),
        }
    }
}

/// Some parameters are `f32`, as a file has them in floats beside integers; the rest is stored another way. For
/// inference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FloatsBeside<R> {
    /// The names of the parameters that are `f32`.
    pub floats: BTreeSet<String>,
    /// How all other parameters are stored.
    pub rest: R,
}

impl<R: ParamStorage> ByParameter for FloatsBeside<R> {
    fn with<T>(&self, param: Stored<'_>, f: impl FnOnce(&dyn ParamStorage) -> T) -> T {
        match self.floats.contains(param.name) {
            true => f(&F32Storage),
            false => f(&self.rest),
        }
    }
}
