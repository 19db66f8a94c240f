//! What the updates of parameters change, and the number of the step that they read.

use lessen_graph::{DType, Tensor};

use crate::context::Cx;
use crate::names::steps_input;
use crate::params::StateSpec;

/// What an update changes.
#[derive(Default)]
pub(super) struct Changed {
    /// States of the optimizer.
    pub states: Vec<StateSpec>,
    /// Parameters and states, each with its new value.
    pub values: Vec<(Tensor, Tensor)>,
}

/// The data input with the number of the step since parameters joined, which they did after `joined` steps.
#[track_caller]
pub(super) fn steps_since(cx: Cx, joined: u64) -> Tensor {
    cx.reserved_input(&steps_input(joined), DType::F32, &[])
}
