//! An operation with the types of its inputs, for checks of a device.

use std::sync::Arc;

use lessen_graph::{DType, Op, Type};

/// An operation and its inputs: shapes, each with a dtype or with the dtype that is tried out.
#[derive(Clone)]
pub struct Sample {
    /// The operation.
    pub op: Arc<dyn Op>,
    /// Shapes of its inputs, each with its dtype where it has one of its own.
    pub inputs: Vec<(Option<DType>, Vec<usize>)>,
}

pub(super) fn sample(op: impl Op, shapes: &[&[usize]]) -> Sample {
    Sample {
        op: Arc::new(op),
        inputs: shapes.iter().map(|shape| (None, shape.to_vec())).collect(),
    }
}

impl Sample {
    /// An operation on inputs of these types.
    pub fn new(op: impl Op, inputs: &[Type]) -> Sample {
        Sample {
            op: Arc::new(op),
            inputs: inputs.iter().map(|ty| (Some(ty.dtype), ty.shape.to_vec())).collect(),
        }
    }

    /// The types of the inputs; `f32` where a dtype is tried out.
    pub(super) fn types(&self) -> Vec<Type> {
        let inputs = self.inputs.iter();
        inputs
            .map(|(own, shape)| Type::new(own.unwrap_or(DType::F32), shape))
            .collect()
    }

    pub(super) fn with(mut self, input: usize, dtype: DType) -> Sample {
        self.inputs[input].0 = Some(dtype);
        self
    }
}
