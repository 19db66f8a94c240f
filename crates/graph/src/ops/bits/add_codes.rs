//! The sum of two arrays of codes as codes.

use lessen_base::{Error, Result};

use crate::op::Vjp;
use crate::ops::bits::{DequantizeLinear, QuantizeLinear};
use crate::ops::element_function::Elementwise;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `a` and `b` of `u8` and one shape; output the codes of `u8` that [`QuantizeLinear`] has for the sum of the
/// numbers that [`DequantizeLinear`] has for them. It has no derivative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AddCodes {
    /// The scale of `a`.
    pub left_scale: f64,
    /// The code of zero in `a`.
    pub left_zero: u8,
    /// The scale of `b`.
    pub right_scale: f64,
    /// The code of zero in `b`.
    pub right_zero: u8,
    /// The scale of the result.
    pub scale: f64,
    /// The code of zero in the result.
    pub zero: u8,
}

named!("add_codes": AddCodes { left_scale, left_zero, right_scale, right_zero, scale, zero });

impl AddCodes {
    /// The sum of codes that these operations restore, as codes of `result`.
    pub fn new(left: DequantizeLinear, right: DequantizeLinear, result: QuantizeLinear) -> AddCodes {
        AddCodes {
            left_scale: left.scale,
            left_zero: left.zero,
            right_scale: right.scale,
            right_zero: right.zero,
            scale: result.scale,
            zero: result.zero,
        }
    }

    /// What the numbers of the inputs are.
    pub fn inputs(&self) -> [DequantizeLinear; 2] {
        let left = (self.left_scale, self.left_zero);
        let right = (self.right_scale, self.right_zero);
        [left, right].map(|(scale, zero)| DequantizeLinear { scale, zero })
    }

    /// What the codes of the result are.
    pub fn result(&self) -> QuantizeLinear {
        QuantizeLinear {
            scale: self.scale,
            zero: self.zero,
        }
    }
}

impl Elementwise for AddCodes {
    const INPUTS: usize = 2;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        let [left, right] = self.inputs();
        let (left, right) = (left.output(&inputs[..1])?, right.output(&inputs[1..])?);
        if left != right {
            return Err(Error::user(format!(
                "needs two of one shape and not {left} and {right}"
            )));
        }
        self.result().output(&[left])
    }

    fn element(&self, x: &[f64]) -> f64 {
        let [left, right] = self.inputs();
        self.result().element(&[left.element(&x[..1]) + right.element(&x[1..])])
    }

    fn flops(&self) -> f64 {
        6.0
    }

    fn vjp(&self, _: &Vjp<'_>, _: Tensor) -> Vec<Option<Tensor>> {
        vec![None, None]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let trace = inputs[0].trace();
        let [left, right] = self.inputs();
        let sum = trace.apply1(left, &inputs[..1]) + trace.apply1(right, &inputs[1..]);
        Some(trace.apply1(self.result(), &[sum]))
    }
}
