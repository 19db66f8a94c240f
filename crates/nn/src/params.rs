//! Descriptions of a model's parameters and other states, without their values.

use lessen_graph::{DType, Tensor, TraceRef, Type, ValueId};

use crate::init::Init;

/// A parameter of a model without its values.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamSpec {
    /// Full name, as in a checkpoint: `transformer.h.0.ln_1.weight`.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// Distribution of its initial values.
    pub init: Init,
    /// The value of the trace that declares it: its state, as `f32` where the state has another dtype.
    pub value: ValueId,
    /// Whether it is a matrix `[in, out]`, whose rows products of rows add up.
    pub is_turned: bool,
    /// Whether it is a buffer: a value of the model that no optimizer changes, such as a running statistic.
    pub is_buffer: bool,
}

/// A state other than a parameter: an optimizer state, a summed gradient, or a key/value cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateSpec {
    /// Name of the state in the graph and on the device; see [`names`](crate::names).
    pub name: String,
    /// Dtype of the elements, as a checkpoint stores them.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<usize>,
}

impl StateSpec {
    /// Returns the dtype and shape as one type.
    pub fn ty(&self) -> Type {
        Type::new(self.dtype, &self.shape)
    }

    /// Declares this state in a trace and returns its value before the step.
    ///
    /// # Panics
    /// If the trace has an input of this name.
    #[track_caller]
    pub fn declare(&self, trace: TraceRef) -> Tensor {
        trace.state(&self.name, self.dtype, &self.shape)
    }
}
