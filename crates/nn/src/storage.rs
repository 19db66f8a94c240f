//! How the value of a parameter is stored in states of a device.

use std::fmt;

use lessen_graph::{DType, Tensor, Type};

use crate::params::StateSpec;

/// How parameters are stored in states of a device: as one array, or as several, such as codes and their scales.
pub trait ParamStorage: fmt::Debug + Send + Sync {
    /// The states of a parameter of this shape. The state with the empty label bears the parameter's own name.
    fn states(&self, shape: &[usize]) -> Vec<(&'static str, Type)>;

    /// The parameter of this shape, `f32`, from its states, which come in the order of [`ParamStorage::states`].
    fn value<'g>(&self, shape: &[usize], states: &[Tensor<'g>]) -> Tensor<'g>;
}

impl dyn ParamStorage + '_ {
    /// Names and types of the states of a parameter.
    pub fn specs(&self, name: &str, shape: &[usize]) -> Vec<StateSpec> {
        let spec = |(label, ty): (&str, Type)| StateSpec {
            name: state_of(label, name),
            dtype: ty.dtype,
            shape: ty.shape.into_vec(),
        };
        self.states(shape).into_iter().map(spec).collect()
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

/// Every parameter is an `f32` state, as training needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct F32Storage;

impl ParamStorage for F32Storage {
    fn states(&self, shape: &[usize]) -> Vec<(&'static str, Type)> {
        vec![("", Type::f32(shape))]
    }

    fn value<'g>(&self, _shape: &[usize], states: &[Tensor<'g>]) -> Tensor<'g> {
        states[0]
    }
}

/// Matrices are codes of 8 bits with a scale for each row, which are the states `codes` and `scale`; the rest is `f32`,
/// kernels of convolutions among it. For inference: products read the codes where the precision says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Int8Storage;

impl Int8Storage {
    /// Whether a parameter of this shape has codes.
    pub fn has_codes(shape: &[usize]) -> bool {
        shape.len() == 2 && shape[1] > 0
    }
}

impl ParamStorage for Int8Storage {
    fn states(&self, shape: &[usize]) -> Vec<(&'static str, Type)> {
        if Int8Storage::has_codes(shape) {
            vec![
                ("codes", Type::new(DType::U8, shape)),
                ("scale", Type::f32(&shape[..1])),
            ]
        } else {
            vec![("", Type::f32(shape))]
        }
    }

    fn value<'g>(&self, _shape: &[usize], states: &[Tensor<'g>]) -> Tensor<'g> {
        match *states {
            [codes, scale] => codes.dequantize_rows(scale),
            _ => states[0],
        }
    }
}

/// Matrices and kernels are `bf16` states, the rest, such as biases and statistics, `f32`: for inference, in which each
/// token reads them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bf16Storage;

impl ParamStorage for Bf16Storage {
    fn states(&self, shape: &[usize]) -> Vec<(&'static str, Type)> {
        let dtype = if shape.len() > 1 { DType::BF16 } else { DType::F32 };
        vec![("", Type::new(dtype, shape))]
    }

    fn value<'g>(&self, _shape: &[usize], states: &[Tensor<'g>]) -> Tensor<'g> {
        states[0].cast(DType::F32)
    }
}
