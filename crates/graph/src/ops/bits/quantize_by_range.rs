//! Numbers as codes of 8 bits with one scale and one zero for all of them, which their range gives.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::Op;
use crate::ops::rules::{arity, arrays};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The codes but that of the least number.
const LEVELS: f32 = 255.0;

/// Input `x` of `f32` with at least one element; outputs `codes` of `u8` like `x`, and `scale` of `f32` and `zero` of
/// `u8` with one element. With the least number `a` and the greatest one `b` of all elements and 0:
/// `scale = (b - a) / 255`, or 1 where both are 0, `zero = round(min(max(-a / scale, 0), 255))` and
/// `codes = min(max(round(x / scale) + zero, 0), 255)`, ties to even, each step in `f32`. It has no derivative.
///
/// It is `DynamicQuantizeLinear` of ONNX. NaN is left out of the range, and its code is 0; where the range is infinite,
/// numbers have any code.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantizeByRange;

named!("quantize_by_range": QuantizeByRange {});

impl QuantizeByRange {
    /// The scale and the code of zero of numbers in a range that has 0.
    pub fn scale(least: f32, most: f32) -> (f32, u8) {
        let scale = if least == most { 1.0 } else { (most - least) / LEVELS };
        (scale, (-least / scale).clamp(0.0, LEVELS).round_ties_even() as u8)
    }

    /// The codes of numbers, with their scale and the code of zero.
    pub fn codes(all: &[f32]) -> (Vec<u8>, f32, u8) {
        let least = all.iter().fold(0f32, |least, x| least.min(*x));
        let most = all.iter().fold(0f32, |most, x| most.max(*x));
        let (scale, zero) = QuantizeByRange::scale(least, most);
        let codes = all.iter().map(|x| QuantizeByRange::code(*x, (scale, zero)));
        (codes.collect(), scale, zero)
    }

    /// The code of a number.
    pub fn code(x: f32, (scale, zero): (f32, u8)) -> u8 {
        ((x / scale).round_ties_even() + f32::from(zero)).clamp(0.0, LEVELS) as u8
    }
}

impl Op for QuantizeByRange {
    named!();

    facts! { flops(8.0); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let x = &inputs[0];
        if x.dtype != DType::F32 || x.numel() == 0 {
            return Err(Error::user(format!("needs elements of f32, not {x}")));
        }
        Ok(vec![
            Type::new(DType::U8, &x.shape),
            Type::f32(&[]),
            Type::new(DType::U8, &[]),
        ])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let all: Vec<f32> = inputs[0].data.iter().map(|x| *x as f32).collect();
        let (codes, scale, zero) = QuantizeByRange::codes(&all);
        let codes = codes.into_iter().map(f64::from).collect();
        arrays(outputs, [codes, vec![scale.into()], vec![zero.into()]])
    }
}

impl Tensor {
    /// Numbers `f32` as codes `u8` by their range, with the scale `f32[]` and the code of zero `u8[]`. See
    /// [`QuantizeByRange`].
    #[track_caller]
    pub fn quantize_by_range(self) -> [Tensor; 3] {
        let outputs = self.trace().apply(QuantizeByRange, &[self]);
        [outputs[0], outputs[1], outputs[2]]
    }
}
