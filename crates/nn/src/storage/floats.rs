//! Parameters that are floats.

use std::borrow::Cow;

use lessen_base::Result;
use lessen_graph::{DType, Host, Tensor, Type, bf16_bits};

use super::{ParamStorage, Put, Stored, as_f32};

/// Every parameter is an `f32` state, as training needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct F32Storage;

impl ParamStorage for F32Storage {
    fn states(&self, Stored { shape, .. }: Stored<'_>) -> Vec<(&'static str, Type)> {
        vec![("", Type::f32(shape))]
    }

    fn value(&self, _: Stored<'_>, states: &[Tensor]) -> Tensor {
        states[0]
    }

    fn encode(&self, _: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        put(0, first, Host::F32(values))
    }

    fn decode<'a>(&self, _: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        as_f32(states[0])
    }
}

/// Matrices and kernels are `bf16` states, the rest, such as biases and statistics, `f32`: for inference, in which each
/// token reads them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bf16Storage;

impl ParamStorage for Bf16Storage {
    fn states(&self, Stored { shape, .. }: Stored<'_>) -> Vec<(&'static str, Type)> {
        let dtype = if shape.len() > 1 { DType::BF16 } else { DType::F32 };
        vec![("", Type::new(dtype, shape))]
    }

    fn value(&self, _: Stored<'_>, states: &[Tensor]) -> Tensor {
        states[0].cast(DType::F32)
    }

    fn encode(&self, Stored { shape, .. }: Stored<'_>, first: usize, values: &[f32], put: &mut Put<'_>) -> Result<()> {
        if shape.len() > 1 {
            let rounded: Vec<u16> = values.iter().map(|&value| bf16_bits(value)).collect();
            put(0, first, Host::BF16(&rounded))
        } else {
            put(0, first, Host::F32(values))
        }
    }

    fn decode<'a>(&self, _: Stored<'_>, states: &[Host<'a>]) -> Cow<'a, [f32]> {
        as_f32(states[0])
    }
}
