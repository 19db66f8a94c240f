//! The operations, one file each: type rule, derivative, decomposition, row-wise structure, cost, reference
//! evaluation, and the methods of [`Tensor`](crate::Tensor) that apply it.

pub mod adamw;
pub mod attention;
pub mod attention_backward;
pub mod binary;
pub mod broadcast;
pub mod cast;
pub mod clip;
pub mod compare;
pub mod concat;
pub mod constant;
pub mod cross_entropy;
pub mod dropout;
pub mod elu;
pub mod gather;
pub mod gelu;
pub mod identity;
pub mod layer_norm;
pub mod log_softmax;
pub mod matmul;
pub mod pad;
pub mod permute;
pub mod random;
pub mod reduce;
pub mod relu;
pub mod reshape;
pub mod rms_norm;
pub mod scatter_add;
pub mod select;
pub mod sgd;
pub mod silu;
pub mod slice;
pub mod softmax;
pub mod split;
pub mod unary;
pub mod update_slice;

pub use adamw::AdamW;
pub use attention::Attention;
pub use attention_backward::AttentionBackward;
pub use binary::{Binary, BinaryKind};
pub use broadcast::Broadcast;
pub use cast::Cast;
pub use compare::{Compare, CompareKind};
pub use concat::Concat;
pub use constant::{Constant, Full, Iota};
pub use cross_entropy::{CrossEntropy, CrossEntropyBackward};
pub use dropout::Dropout;
pub use elu::Elu;
pub use gather::Gather;
pub use gelu::{Gelu, GeluBackward};
pub use identity::Identity;
pub use layer_norm::{LayerNorm, LayerNormBackward};
pub use log_softmax::LogSoftmax;
pub use matmul::MatMul;
pub use pad::Pad;
pub use permute::Permute;
pub use random::RandomBits;
pub use reduce::{Reduce, ReduceKind};
pub use relu::Relu;
pub use reshape::Reshape;
pub use rms_norm::{RmsNorm, RmsNormBackward};
pub use scatter_add::ScatterAdd;
pub use select::Select;
pub use sgd::Sgd;
pub use silu::Silu;
pub use slice::Slice;
pub use softmax::{Softmax, SoftmaxBackward};
pub use split::Split;
pub use unary::{Unary, UnaryKind};
pub use update_slice::UpdateSlice;

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Fold, Op, OutRole, Role, RowWise};
use crate::types::{DType, Type};

/// Folds a function of constants whose reference evaluation, rounded to the output's dtype, is what every device computes:
/// one that is correctly rounded or exact. One element stands for all.
pub(crate) fn fold_exactly(op: &dyn Op, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
    let Some(known) = known.iter().copied().collect::<Option<Vec<f64>>>() else {
        return Fold::No;
    };
    let scalar = |ty: &Type| Type::new(ty.dtype, &[]);
    let arrays: Vec<Array> = inputs
        .iter()
        .zip(known)
        .map(|(ty, value)| Array::full(scalar(ty), value))
        .collect();
    let arrays: Vec<&Array> = arrays.iter().collect();
    let value = op.eval(&arrays, &[scalar(&outputs[0])])[0].item();
    Fold::Splat(outputs[0].dtype.round(value))
}

/// Checks the number of inputs.
pub(crate) fn arity(inputs: &[Type], n: usize) -> Result<()> {
    if inputs.len() == n {
        Ok(())
    } else {
        Err(Error::user(format!("needs {n} inputs, not {}", inputs.len())))
    }
}

/// Checks that a type is a float.
pub(crate) fn float(ty: &Type) -> Result<()> {
    if ty.dtype.is_float() {
        Ok(())
    } else {
        Err(Error::user(format!("needs a float tensor, not {ty}")))
    }
}

/// Checks that a type is a key.
pub(crate) fn key(ty: &Type) -> Result<()> {
    if *ty == Type::new(DType::U32, &[2]) {
        Ok(())
    } else {
        Err(Error::user(format!("the key must be u32[2], not {ty}")))
    }
}

/// The key that an array holds.
pub(crate) fn key_of(array: &Array) -> [u32; 2] {
    [array.data[0] as u32, array.data[1] as u32]
}

/// The number of rows along the last axis.
pub(crate) fn rows(ty: &Type) -> usize {
    ty.shape.iter().rev().skip(1).product()
}

/// The products of the extents before and after an axis.
pub(crate) fn around(ty: &Type, axis: usize) -> (usize, usize) {
    (
        ty.shape[..axis].iter().product(),
        ty.shape[axis + 1..].iter().product(),
    )
}

/// All inputs and outputs by rows of the last axis.
pub(crate) fn all_rows(inputs: &[Type], outputs: &[Type], rows: usize) -> RowWise {
    RowWise::Rows {
        rows,
        inputs: vec![Role::Rows; inputs.len()],
        outputs: vec![OutRole::Rows; outputs.len()],
    }
}

/// What an operation that cuts or joins along `axis` does by rows: everything if that is the last one.
pub(crate) fn last_axis_rows(axis: usize, inputs: &[Type], outputs: &[Type]) -> RowWise {
    if axis + 1 == inputs[0].rank() {
        all_rows(inputs, outputs, rows(&inputs[0]))
    } else {
        RowWise::No
    }
}

/// Checks that a type is a float with a last axis of at least one element.
pub(crate) fn float_rows(ty: &Type) -> Result<()> {
    float(ty)?;
    if ty.rank() > 0 && ty.last() > 0 {
        Ok(())
    } else {
        Err(Error::user(format!("needs a last axis with elements, not {ty}")))
    }
}

/// The shape without its last axis.
pub(crate) fn lead(ty: &Type) -> &[usize] {
    &ty.shape[..ty.rank() - 1]
}
