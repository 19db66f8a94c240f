//! Values of a program while it is traced, and PyTorch's rules for the dtype of a result.

use lessen_graph::{DType, Tensor};

/// A value of a program.
#[derive(Clone, Debug)]
pub enum Value {
    /// No value.
    Absent,
    /// A truth value that is known.
    Bool(bool),
    /// A whole number that is known, such as an extent.
    Int(i64),
    /// A number that is known.
    Float(f64),
    /// A word.
    Text(String),
    /// A dtype.
    DType(DType),
    /// A tensor of the graph.
    Tensor(Tensor),
    /// Several values.
    List(Vec<Value>),
}

impl Value {
    /// The number that it is.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }
}

/// Order of dtypes: of two, a result has the later one.
fn order(dtype: DType) -> usize {
    [
        DType::Bool,
        DType::U8,
        DType::U32,
        DType::I32,
        DType::BF16,
        DType::F32,
        DType::F64,
    ]
    .iter()
    .position(|own| *own == dtype)
    .unwrap_or(0)
}

/// The dtype of a result of two tensors. One without axes counts only where the other is of a lower category: truth
/// values, whole numbers, floats.
pub fn promoted(a: Tensor, b: Tensor) -> DType {
    let category = |dtype: DType| match dtype {
        DType::Bool => 0,
        dtype if dtype.is_float() => 2,
        _ => 1,
    };
    let (x, y) = (a.dtype(), b.dtype());
    match (a.rank(), b.rank()) {
        (0, 0) => {}
        (0, _) if category(x) <= category(y) => return y,
        (_, 0) if category(y) <= category(x) => return x,
        _ => {}
    }
    if order(x) >= order(y) { x } else { y }
}

/// The dtype of a result of a tensor and a number that is known.
pub fn promoted_with(x: DType, number: &Value) -> DType {
    match number {
        Value::Float(_) if !x.is_float() => DType::F32,
        Value::Int(_) if x == DType::Bool => DType::I32,
        _ => x,
    }
}
