//! Elementwise comparisons of two tensors of the same type; the result is boolean.

use lessen_base::Result;

use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::ops::rules::equal;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

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

function_names!(CompareKind);

/// `y[i] = a[i] ? b[i]`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compare {
    /// The comparison.
    pub kind: CompareKind,
}

named!("compare": Compare { kind as "f" });

impl Elementwise for Compare {
    const INPUTS: usize = 2;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        equal(&inputs[0], &inputs[1])?;
        Ok(Type::new(DType::Bool, &inputs[0].shape))
    }

    fn element(&self, x: &[f64]) -> f64 {
        f64::from(self.kind.eval(x[0], x[1]))
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn vjp(&self, _: &Vjp<'_>, _: Tensor) -> Vec<Option<Tensor>> {
        vec![None, None]
    }
}

macro_rules! comparison {
    ($method:ident, $kind:ident, $doc:literal) => {
        #[doc = $doc]
        #[track_caller]
        pub fn $method(self, other: Tensor) -> Tensor {
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

impl Tensor {
    comparison!(eq, Eq, "`a == b`, element by element.");
    comparison!(ne, Ne, "`a != b`, element by element.");
    comparison!(lt, Lt, "`a < b`, element by element.");
    comparison!(le, Le, "`a <= b`, element by element.");
    comparison!(gt, Gt, "`a > b`, element by element.");
    comparison!(ge, Ge, "`a >= b`, element by element.");
}
