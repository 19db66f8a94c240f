//! How the value of a parameter is stored in states of a device, and how elements become those of states and are read
//! back.

mod by_parameter;
mod codes;
mod floats;
mod nibbles;

use std::borrow::Cow;
use std::fmt;

use lessen_base::Result;
use lessen_graph::ops::DequantizeGroups;
use lessen_graph::{Host, Tensor, Type};

use crate::params::{ParamSpec, StateSpec};

pub use by_parameter::{ByParameter, FloatsBeside, PackedStorage};
pub use codes::Int8Storage;
pub use floats::{Bf16Storage, F32Storage};
pub use nibbles::Int4Storage;

/// A parameter as its storage sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored<'a> {
    /// Full name, such as `transformer.h.0.ln_1.weight`.
    pub name: &'a str,
    /// Extents.
    pub shape: &'a [usize],
    /// Whether it is a matrix `[in, out]`; see [`ParamSpec::is_turned`].
    pub is_turned: bool,
}

impl<'a> From<&'a [usize]> for Stored<'a> {
    /// Of these extents, without a name, and no matrix `[in, out]`.
    fn from(shape: &'a [usize]) -> Stored<'a> {
        Stored {
            name: "",
            shape,
            is_turned: false,
        }
    }
}

impl<'a> From<&'a ParamSpec> for Stored<'a> {
    fn from(param: &'a ParamSpec) -> Stored<'a> {
        Stored {
            name: &param.name,
            shape: &param.shape,
            is_turned: param.is_turned,
        }
    }
}

/// Takes elements of a state: its number in [`ParamStorage::states`], the number of the first element, and the
/// elements.
pub type Put<'a> = dyn FnMut(usize, usize, Host<'_>) -> Result<()> + 'a;

/// How parameters are stored in states of a device: as one array, or as several, such as codes and their scales.
pub trait ParamStorage: fmt::Debug + Send + Sync {
    /// The states of a parameter. The state with the empty label bears the parameter's own name.
    fn states(&self, param: Stored<'_>) -> Vec<(&'static str, Type)>;

    /// The parameter, `f32`, from its states, which come in the order of [`ParamStorage::states`].
    fn value(&self, param: Stored<'_>, states: &[Tensor]) -> Tensor;

    /// The number of consecutive elements of a parameter that are encoded together, such as a row that shares a scale.
    fn unit(&self, _: Stored<'_>) -> usize {
        1
    }

    /// Encodes elements of a parameter from number `first` on: whole units.
    ///
    /// # Errors
    /// The errors of `put`.
    fn encode(&self, param: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()>;

    /// Decodes all elements of a parameter from the elements of its states.
    fn decode<'a>(&self, param: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]>;

    /// How rows of codes of 4 bits are restored where they and their scales are the two states of a parameter; none
    /// where it is stored otherwise.
    fn groups(&self, _: Stored<'_>) -> Option<DequantizeGroups> {
        None
    }
}

impl dyn ParamStorage + '_ {
    /// Names and types of the states of a parameter.
    pub fn specs(&self, param: Stored<'_>) -> Vec<StateSpec> {
        let spec = |(label, ty): (&str, Type)| StateSpec {
            name: state_of(label, param.name),
            dtype: ty.dtype,
            shape: ty.shape.into_vec(),
        };
        self.states(param).into_iter().map(spec).collect()
    }
}

/// The name of the state with this label of a parameter.
fn state_of(label: &str, param: &str) -> String {
    if label.is_empty() {
        param.to_string()
    } else {
        format!("@{label}.{param}")
    }
}

/// The elements as `f32`, rounded where `f32` has fewer digits.
fn as_f32(host: Host<'_>) -> Cow<'_, [f32]> {
    match host.as_f32() {
        Some(elements) => Cow::Borrowed(elements),
        None => host.elements().map(|element| element as f32).collect(),
    }
}
