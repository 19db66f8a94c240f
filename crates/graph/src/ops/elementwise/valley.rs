//! Functions that fall to one minimum and rise after it, as GELU and SiLU: their derivative from their value and the
//! side of the minimum.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::inverse::{FromOutput, Operand};
use crate::op::{Op, Vjp};
use crate::ops::element_function::Elementwise;
use crate::ops::elementwise::clamp::Between;
use crate::ops::rules::{equal, float};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// A function with one minimum. On its left it rises to 0 from below, on its right it is above `x - 1`, so that
/// positive values are on the right.
pub(crate) struct Valley<F, D> {
    /// The function.
    pub value: F,
    /// Its derivative.
    pub slope: D,
    /// The argument of the minimum.
    pub argmin: f64,
}

impl<F: Fn(f64) -> f64, D: Fn(f64) -> f64> Valley<F, D> {
    /// The derivative where the function is `y`, on the right of the minimum or on its left; 0 where `y` is below the
    /// minimum.
    pub fn slope_from(&self, y: f64, right: bool) -> f64 {
        if y.is_nan() || y == f64::INFINITY {
            return if y.is_nan() { y } else { 1.0 };
        }
        if y <= (self.value)(self.argmin) {
            return 0.0;
        }
        let right = right || y > 0.0;
        // Bisection until the two ends are neighbours. Left of -1000 the function is 0 to all digits.
        let (mut near, mut far) = (self.argmin, if right { y.max(0.0) + 1.0 } else { -1000.0 });
        loop {
            let middle = 0.5 * (near + far);
            if middle == near || middle == far {
                return (self.slope)(near);
            }
            if (self.value)(middle) > y {
                far = middle;
            } else {
                near = middle;
            }
        }
    }
}

/// The type rule of a derivative from `y`, the side and `dy`: floats of one type, and as many truth values.
pub(crate) fn from_output_type(inputs: &[Type]) -> Result<Type> {
    let (y, side, dy) = (&inputs[0], &inputs[1], &inputs[2]);
    float(y)?;
    equal(y, dy)?;
    if *side != Type::new(DType::Bool, &y.shape) {
        return Err(Error::user(format!(
            "the side of {y} must be {}, not {side}",
            Type::new(DType::Bool, &y.shape)
        )));
    }
    Ok(y.clone())
}

/// The rule by which `op` computes a derivative from the output of `forward`, whose minimum is at `argmin`, for inputs
/// of the types `inputs`. The bits of `bf16` are too few for it.
pub(crate) fn rule(inputs: &[Type], forward: impl Op, op: impl Op, argmin: f64, error: f64) -> Option<FromOutput> {
    let side = Between {
        low: argmin,
        high: f64::INFINITY,
    };
    (inputs[0].dtype != DType::BF16).then(|| FromOutput {
        input: 0,
        forward: Arc::new(forward),
        same: Vec::new(),
        side: Some(Arc::new(side)),
        op: Arc::new(op),
        operands: vec![Operand::ForwardOutput(0), Operand::Side, Operand::Own(1)],
        error,
        condition: None,
    })
}

/// The cotangents of such a derivative: that of `dy` alone, in which it is linear.
///
/// # Panics
/// Where the derivative for `y` is wanted: `op` replaces an operation, named `backward`, that has been differentiated
/// already.
pub(crate) fn vjp<T: Elementwise + Copy>(op: T, backward: &str, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
    if cx.wanted[0] {
        dy.trace().fail(format!(
            "{} has no derivative for its input y; differentiate {backward} instead",
            T::NAME
        ));
    }
    let dx = || dy.trace().apply1(op, &[cx.inputs[0], cx.inputs[1], dy]);
    vec![None, None, cx.wanted[2].then(dx)]
}
