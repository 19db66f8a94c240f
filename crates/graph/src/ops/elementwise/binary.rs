//! Elementwise functions of two tensors of the same type: `y[i] = f(a[i], b[i])`. The operators of
//! [`Tensor`] broadcast first.
//!
//! For `i32`, sums, differences and products wrap around; quotients are truncated towards zero, and 0 where `b` is 0;
//! powers are the powers of the real numbers, truncated towards zero and to the range of `i32`.

use lessen_base::Result;
use std::sync::Arc;

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::graph::{Graph, ValueId};
use crate::inverse::{Condition, Inverse, Operand};
use crate::op::{Fold, OnRows, Op, Vjp};
use crate::ops::elementwise::identity::Identity;
use crate::ops::elementwise::scalar::Scalar;
use crate::ops::rules::{arity, equal, float, fold_exactly, map};
use crate::ops::shape::broadcast::Broadcast;
use crate::ops::shape::reshape::Reshape;
use crate::ops::source::full::Full;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryKind {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Sub,
    /// `a * b`; integers wrap.
    Mul,
    /// `a / b`; of integers truncated towards zero, 0 where `b` is 0; `i32::MIN / -1` wraps to `i32::MIN`.
    Div,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
    /// `a^b`, for `a > 0` where `b` is no whole number; of integers truncated towards zero and to their
    /// range.
    ///
    /// Derivatives at the ends of its domain are torch's: 0 for `a` where both are 0, and 0 for `b` where `a`
    /// is 0 and `b` is not negative.
    Pow,
}

impl BinaryKind {
    /// All of them.
    pub const ALL: [BinaryKind; 7] = [
        BinaryKind::Add,
        BinaryKind::Sub,
        BinaryKind::Mul,
        BinaryKind::Div,
        BinaryKind::Max,
        BinaryKind::Min,
        BinaryKind::Pow,
    ];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            BinaryKind::Add => "add",
            BinaryKind::Sub => "sub",
            BinaryKind::Mul => "mul",
            BinaryKind::Div => "div",
            BinaryKind::Max => "max",
            BinaryKind::Min => "min",
            BinaryKind::Pow => "pow",
        }
    }

    /// Whether devices compute it exactly or correctly rounded.
    pub fn is_exact(self) -> bool {
        self != BinaryKind::Pow
    }

    /// The function in `f64`.
    pub fn eval(self, a: f64, b: f64) -> f64 {
        match self {
            BinaryKind::Add => a + b,
            BinaryKind::Sub => a - b,
            BinaryKind::Mul => a * b,
            BinaryKind::Div => a / b,
            BinaryKind::Max | BinaryKind::Min if a.is_nan() || b.is_nan() => f64::NAN,
            BinaryKind::Max => a.max(b),
            BinaryKind::Min => a.min(b),
            BinaryKind::Pow => a.powf(b),
        }
    }

    /// The function of integers.
    pub fn eval_i32(self, a: i32, b: i32) -> i32 {
        match self {
            BinaryKind::Add => a.wrapping_add(b),
            BinaryKind::Sub => a.wrapping_sub(b),
            BinaryKind::Mul => a.wrapping_mul(b),
            BinaryKind::Div if b == 0 => 0,
            BinaryKind::Div => a.wrapping_div(b),
            BinaryKind::Max => a.max(b),
            BinaryKind::Min => a.min(b),
            BinaryKind::Pow => f64::from(a).powf(f64::from(b)) as i32,
        }
    }
}

function_names!(BinaryKind);

/// `y[i] = f(a[i], b[i])`, both of the same type: floats or `i32`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Binary {
    /// The function.
    pub kind: BinaryKind,
}

impl Binary {
    /// The position of the input that the result equals, given the numbers that fill inputs.
    fn neutral(&self, known: &[Option<f64>], float: bool) -> Option<usize> {
        // Integers have one zero.
        let zero = |known: Option<f64>, negative: bool| {
            known.is_some_and(|x| x == 0.0 && (x.is_sign_negative() == negative || !float))
        };
        match self.kind {
            BinaryKind::Mul if known[1] == Some(1.0) => Some(0),
            BinaryKind::Mul if known[0] == Some(1.0) => Some(1),
            // -0 + 0 is 0: only the other zero leaves every number unchanged.
            BinaryKind::Add if zero(known[1], true) => Some(0),
            BinaryKind::Add if zero(known[0], true) => Some(1),
            BinaryKind::Sub if zero(known[1], false) => Some(0),
            BinaryKind::Div if known[1] == Some(1.0) => Some(0),
            _ => None,
        }
    }
}

named!("binary": Binary { kind as "f" });

impl Op for Binary {
    named!();

    facts! { elementwise; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        equal(&inputs[0], &inputs[1])?;
        if inputs[0].dtype != DType::I32 {
            float(&inputs[0])?;
        }
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let whole = outputs[0].dtype == DType::I32;
        map(inputs, &outputs[0], |x| {
            if whole {
                f64::from(self.kind.eval_i32(x[0] as i32, x[1] as i32))
            } else {
                self.kind.eval(x[0], x[1])
            }
        })
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let Some(dy) = cx.cotangents[0] else {
            return vec![None, None];
        };
        let (a, b, y) = (cx.inputs[0], cx.inputs[1], cx.outputs[0]);
        // At a tie each side gets half, so that max and min stay symmetric. A side that loses gets zero, even
        // of an infinite cotangent.
        let share = |loses: Tensor| a.eq(b).select(dy * 0.5, loses.select(dy.scalar_like(0.0), dy));
        let da = || match self.kind {
            BinaryKind::Add | BinaryKind::Sub => dy,
            BinaryKind::Mul => dy * b,
            BinaryKind::Div => dy / b,
            BinaryKind::Max => share(a.lt(b)),
            BinaryKind::Min => share(a.gt(b)),
            BinaryKind::Pow => power_by_base(dy, a, b),
        };
        let db = || match self.kind {
            BinaryKind::Add => dy,
            BinaryKind::Sub => -dy,
            BinaryKind::Mul => dy * a,
            BinaryKind::Div => -(dy * y / b),
            BinaryKind::Max => share(b.lt(a)),
            BinaryKind::Min => share(b.gt(a)),
            BinaryKind::Pow => {
                // Where 0^b has the same value for every exponent near b, the logarithm of 1 stands for the logarithm
                // of 0.
                let zero = a.scalar_like(0.0);
                let flat = a.eq(zero).and(b.ge(zero));
                dy * y * flat.select(a.scalar_like(1.0), a).log()
            }
        };
        vec![cx.wanted[0].then(da), cx.wanted[1].then(db)]
    }

    fn is_sum(&self) -> bool {
        self.kind == BinaryKind::Add
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        let is_float = query.inputs[0].dtype.is_float();
        match (self.kind, query.constant) {
            (_, [true, true]) => Along::Constant,
            (BinaryKind::Add | BinaryKind::Sub, _) if is_float => query.same_axis(),
            (BinaryKind::Mul | BinaryKind::Div, [false, true]) if is_float => query.of_first(query.axis),
            (BinaryKind::Mul, [true, false]) if is_float => Along::Linear(vec![(1, query.axis)]),
            (BinaryKind::Mul, _) if is_float => Along::Product,
            _ => Along::Unknown,
        }
    }

    /// Errors are the rounding of `y` and that of the result, for a magnitude of at most 1 a quarter of the dtype's
    /// epsilon each; dividing by a factor magnifies that of a product, which is relative, to at most a half. Factors
    /// may be small, as long as `y` is no subnormal number.
    fn inverse(&self, input: usize, inputs: &[Type]) -> Option<Inverse> {
        use Operand::{ForwardInput, ForwardOutput};
        const LEAST: f64 = 1e-30;
        let (dtype, other) = (inputs[0].dtype, ForwardInput(1 - input));
        let (kind, operands) = match (self.kind, input) {
            (BinaryKind::Add, _) => (BinaryKind::Sub, [ForwardOutput(0), other]),
            (BinaryKind::Sub, 0) => (BinaryKind::Add, [ForwardOutput(0), other]),
            (BinaryKind::Sub, _) => (BinaryKind::Sub, [other, ForwardOutput(0)]),
            (BinaryKind::Mul, _) if dtype.is_float() => (BinaryKind::Div, [ForwardOutput(0), other]),
            (BinaryKind::Div, 0) if dtype.is_float() => (BinaryKind::Mul, [ForwardOutput(0), other]),
            _ => return None,
        };
        let is_factor = matches!(self.kind, BinaryKind::Mul | BinaryKind::Div);
        let share = if self.kind == BinaryKind::Mul { 0.76 } else { 0.51 };
        Some(Inverse {
            op: Arc::new(Binary { kind }),
            operands: operands.to_vec(),
            error: share * dtype.epsilon(),
            condition: is_factor.then_some(Condition {
                operand: other,
                least: LEAST,
            }),
        })
    }

    fn on_rows(&self, _: &[bool], _: &[Type]) -> OnRows {
        match self.kind {
            BinaryKind::Mul => OnRows::Rows,
            _ => OnRows::No,
        }
    }

    fn fold(&self, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
        if let Some(input) = self.neutral(known, outputs[0].dtype.is_float()) {
            return Fold::Input(input);
        }
        if self.kind.is_exact() {
            fold_exactly(self, known, inputs, outputs)
        } else {
            Fold::No
        }
    }
}

/// The derivative of `a^b` for `a`: `b a^(b - 1)`, and 0 where both are 0, so that neither it nor its own
/// derivatives are NaN there.
fn power_by_base(dy: Tensor, a: Tensor, b: Tensor) -> Tensor {
    if known(b, true).is_some_and(|b| b != 0.0) {
        return dy * b * a.pow(b - 1.0);
    }
    let zero = a.scalar_like(0.0);
    let flat = a.eq(zero).and(b.eq(zero));
    let exponent = flat.select(b.scalar_like(1.0), b) - 1.0;
    flat.select(zero, dy * b * a.pow(exponent))
}

/// The number that all elements of a tensor are, where the trace shows it at once: an exponent that was
/// written as a number, or that less another one where `arithmetic` counts.
fn known(x: Tensor, arithmetic: bool) -> Option<f64> {
    x.trace().with_graph(|graph| {
        // The functions that were applied to the number, the last first, and their right operands.
        let mut applied = Vec::new();
        let mut value = x.id();
        let number = loop {
            let node = &graph.nodes[graph.producer(value)?.index()];
            let op = node.op.as_ref();
            if let Some(full) = op.downcast_ref::<Full>() {
                break full.value;
            }
            if let Some(Binary { kind }) = op.downcast_ref().filter(|_| arithmetic) {
                applied.push((*kind, written(graph, node.inputs[1])?));
            } else if !is_copy(op) {
                return None;
            }
            value = node.inputs[0];
        };
        let apply = |a, (kind, b): (BinaryKind, f64)| kind.eval(a, b);
        Some(applied.into_iter().rev().fold(number, apply))
    })
}

/// The number that a value was written as.
fn written(graph: &Graph, mut value: ValueId) -> Option<f64> {
    loop {
        let node = &graph.nodes[graph.producer(value)?.index()];
        match node.op.as_ref().downcast_ref::<Full>() {
            Some(full) => return Some(full.value),
            None if is_copy(node.op.as_ref()) => value = node.inputs[0],
            None => return None,
        }
    }
}

/// Whether all elements of the result are elements of the input.
fn is_copy(op: &dyn Op) -> bool {
    op.is::<Broadcast>() || op.is::<Reshape>() || op.is::<Identity>()
}

impl Tensor {
    #[track_caller]
    fn binary(self, other: Tensor, kind: BinaryKind) -> Tensor {
        let (a, b) = self.broadcast_with(other);
        self.trace().apply1(Binary { kind }, &[a, b])
    }

    /// The larger of two, element by element.
    #[track_caller]
    pub fn maximum(self, other: Tensor) -> Tensor {
        self.binary(other, BinaryKind::Max)
    }

    /// The smaller of two, element by element.
    #[track_caller]
    pub fn minimum(self, other: Tensor) -> Tensor {
        self.binary(other, BinaryKind::Min)
    }

    /// `self^exponent`, element by element.
    #[track_caller]
    pub fn pow(self, exponent: Tensor) -> Tensor {
        self.binary(exponent, BinaryKind::Pow)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $kind:expr) => {
        impl std::ops::$trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                self.binary(other, $kind)
            }
        }
        impl<S: Scalar> std::ops::$trait<S> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: S) -> Tensor {
                self.binary(self.scalar_like(other.to_f64()), $kind)
            }
        }
        operator!(f64: $trait, $method, $kind);
        operator!(i32: $trait, $method, $kind);
    };
    ($number:ty: $trait:ident, $method:ident, $kind:expr) => {
        impl std::ops::$trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                other.scalar_like(self.to_f64()).binary(other, $kind)
            }
        }
    };
}

operator!(Add, add, BinaryKind::Add);
operator!(Sub, sub, BinaryKind::Sub);
operator!(Mul, mul, BinaryKind::Mul);
operator!(Div, div, BinaryKind::Div);
