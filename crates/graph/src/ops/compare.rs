//! Elementwise comparisons of two tensors of the same type; the result is boolean.

use lessen_base::{Error, Result};

use super::{arity, fold_exactly};
use crate::{Array, Attr, Attrs, DType, Fold, Op, RowWise, Tensor, Type, Vjp};

/// The comparison. With NaN only `Ne` holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompareKind {
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

impl CompareKind {
    /// All of them.
    pub const ALL: [CompareKind; 6] = [
        CompareKind::Eq,
        CompareKind::Ne,
        CompareKind::Lt,
        CompareKind::Le,
        CompareKind::Gt,
        CompareKind::Ge,
    ];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            CompareKind::Eq => "eq",
            CompareKind::Ne => "ne",
            CompareKind::Lt => "lt",
            CompareKind::Le => "le",
            CompareKind::Gt => "gt",
            CompareKind::Ge => "ge",
        }
    }

    /// The comparison in `f64`.
    pub fn eval(self, a: f64, b: f64) -> bool {
        match self {
            CompareKind::Eq => a == b,
            CompareKind::Ne => a != b,
            CompareKind::Lt => a < b,
            CompareKind::Le => a <= b,
            CompareKind::Gt => a > b,
            CompareKind::Ge => a >= b,
        }
    }
}

/// `y[i] = a[i] ? b[i]`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compare {
    /// The comparison.
    pub kind: CompareKind,
}

impl Op for Compare {
    fn name(&self) -> &'static str {
        "compare"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("f", Attr::Word(self.kind.name().to_string()))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        if inputs[0] != inputs[1] {
            return Err(Error::user(format!("{} and {} differ", inputs[0], inputs[1])));
        }
        Ok(vec![Type::new(DType::Bool, &inputs[0].shape)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let pairs = inputs[0].data.iter().zip(&inputs[1].data);
        let data = pairs.map(|(&a, &b)| f64::from(self.kind.eval(a, b))).collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp<'g>(&self, _: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vec![None, None]
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn fold(&self, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
        fold_exactly(self, known, inputs, outputs)
    }
}

macro_rules! comparison {
    ($method:ident, $kind:ident, $doc:literal) => {
        #[doc = $doc]
        #[track_caller]
        pub fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
            let (a, b) = self.broadcast_with(other);
            self.trace().apply1(
                Compare {
                    kind: CompareKind::$kind,
                },
                &[a, b],
            )
        }
    };
}

impl<'g> Tensor<'g> {
    comparison!(eq, Eq, "`a == b`, element by element.");
    comparison!(ne, Ne, "`a != b`, element by element.");
    comparison!(lt, Lt, "`a < b`, element by element.");
    comparison!(le, Le, "`a <= b`, element by element.");
    comparison!(gt, Gt, "`a > b`, element by element.");
    comparison!(ge, Ge, "`a >= b`, element by element.");
}
