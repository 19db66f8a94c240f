//! Elementwise functions of two tensors of the same type: `y[i] = f(a[i], b[i])`. The operators of
//! [`Tensor`] broadcast first.

use std::any::Any;

use super::{arity, float};
use crate::{Array, Attr, Attrs, DType, Op, RowWise, Tensor, Type, Vjp};

/// The function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryKind {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// The larger; NaN if either is.
    Max,
    /// The smaller; NaN if either is.
    Min,
    /// `a^b`, for `a > 0` where `b` is no whole number.
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
}

/// `y[i] = f(a[i], b[i])`, both of the same type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Binary {
    /// The function.
    pub kind: BinaryKind,
}

impl Op for Binary {
    fn name(&self) -> &'static str {
        "binary"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("f", Attr::Word(self.kind.name().to_string()))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>, String> {
        arity(inputs, 2)?;
        if inputs[0] != inputs[1] {
            return Err(format!("{} and {} differ", inputs[0], inputs[1]));
        }
        if inputs[0].dtype != DType::I32 {
            float(&inputs[0])?;
        }
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let whole = outputs[0].dtype == DType::I32;
        let pairs = inputs[0].data.iter().zip(&inputs[1].data);
        let data = pairs
            .map(|(&a, &b)| {
                let y = self.kind.eval(a, b);
                if whole { y.trunc() } else { y }
            })
            .collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let Some(dy) = cx.cotangents[0] else {
            return vec![None, None];
        };
        let (a, b, y) = (cx.inputs[0], cx.inputs[1], cx.outputs[0]);
        let da = || match self.kind {
            BinaryKind::Add | BinaryKind::Sub => dy,
            BinaryKind::Mul => dy * b,
            BinaryKind::Div => dy / b,
            // At a tie each side gets half, so that max and min stay symmetric.
            BinaryKind::Max => dy * (a.gt(b).cast(a.dtype()) + a.eq(b).cast(a.dtype()) * 0.5),
            BinaryKind::Min => dy * (a.lt(b).cast(a.dtype()) + a.eq(b).cast(a.dtype()) * 0.5),
            BinaryKind::Pow => dy * b * a.pow(b - 1.0),
        };
        let db = || match self.kind {
            BinaryKind::Add => dy,
            BinaryKind::Sub => -dy,
            BinaryKind::Mul => dy * a,
            BinaryKind::Div => -(dy * y / b),
            BinaryKind::Max => dy * (b.gt(a).cast(a.dtype()) + a.eq(b).cast(a.dtype()) * 0.5),
            BinaryKind::Min => dy * (b.lt(a).cast(a.dtype()) + a.eq(b).cast(a.dtype()) * 0.5),
            BinaryKind::Pow => dy * y * a.log(),
        };
        vec![cx.wanted[0].then(da), cx.wanted[1].then(db)]
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<'g> Tensor<'g> {
    #[track_caller]
    fn binary(self, other: Tensor<'g>, kind: BinaryKind) -> Tensor<'g> {
        let (a, b) = self.broadcast_with(other);
        self.trace().apply1(Binary { kind }, &[a, b])
    }

    /// The larger of two, element by element.
    #[track_caller]
    pub fn maximum(self, other: Tensor<'g>) -> Tensor<'g> {
        self.binary(other, BinaryKind::Max)
    }

    /// The smaller of two, element by element.
    #[track_caller]
    pub fn minimum(self, other: Tensor<'g>) -> Tensor<'g> {
        self.binary(other, BinaryKind::Min)
    }

    /// `self^exponent`, element by element.
    #[track_caller]
    pub fn pow(self, exponent: Tensor<'g>) -> Tensor<'g> {
        self.binary(exponent, BinaryKind::Pow)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $kind:expr) => {
        impl<'g> std::ops::$trait for Tensor<'g> {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
                self.binary(other, $kind)
            }
        }
        impl<'g> std::ops::$trait<f64> for Tensor<'g> {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor<'g> {
                self.binary(self.scalar_like(other), $kind)
            }
        }
        impl<'g> std::ops::$trait<Tensor<'g>> for f64 {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
                other.scalar_like(self).binary(other, $kind)
            }
        }
    };
}

operator!(Add, add, BinaryKind::Add);
operator!(Sub, sub, BinaryKind::Sub);
operator!(Mul, mul, BinaryKind::Mul);
operator!(Div, div, BinaryKind::Div);
