//! How parameters are held: as training needs them, or in half the bytes.

use lessen_graph::{DType, Type};

/// How the parameters of a model are held in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Held {
    /// As `f32`, as training needs them.
    #[default]
    Wide,
    /// Matrices and kernels as `bf16`, the rest, such as biases and statistics, as `f32`: for inference, in which each
    /// token reads them all.
    Narrow,
}

impl Held {
    /// The type in which a parameter of this shape is held.
    pub fn ty(self, shape: &[usize]) -> Type {
        match self {
            Held::Narrow if shape.len() > 1 => Type::new(DType::BF16, shape),
            _ => Type::f32(shape),
        }
    }
}
