//! Numbers as codes of 8 bits with one scale and one zero for all of them, which are known while a graph is traced.

use lessen_base::{Error, Result};

use crate::attrs::Attrs;
use crate::named::AttrValue;
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Input `x` of `f32`; output `codes` of `u8`, `min(max(round(x / scale) + zero, 0), 255)`, ties to even. NaN becomes
/// 0. It has no derivative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantizeLinear {
    /// The distance of the numbers of two neighbouring codes, a positive `f32`.
    pub scale: f64,
    /// The code of zero.
    pub zero: u8,
}

/// Restores the numbers of [`QuantizeLinear`]: input `codes` of `u8`; output `y = (codes - zero) scale` of `f32`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DequantizeLinear {
    /// The distance of the numbers of two neighbouring codes, a positive `f32`.
    pub scale: f64,
    /// The code of zero.
    pub zero: u8,
}

named!("quantize_linear": QuantizeLinear { scale, zero });
named!("dequantize_linear": DequantizeLinear { scale, zero });

impl QuantizeLinear {
    /// The attributes of an operation whose result becomes these codes, or stays numbers.
    pub(crate) fn with_result(result: Option<QuantizeLinear>, attrs: Attrs) -> Attrs {
        match result {
            None => attrs,
            Some(QuantizeLinear { scale, zero }) => attrs
                .with("result_scale", scale.to_attr())
                .with("result_zero", zero.to_attr()),
        }
    }

    /// Reads what [`QuantizeLinear::with_result`] wrote.
    pub(crate) fn read_result(attrs: &Attrs) -> Result<Option<QuantizeLinear>> {
        if attrs.get("result_scale").is_none() {
            return Ok(None);
        }
        Ok(Some(QuantizeLinear {
            scale: AttrValue::read(attrs, "result_scale")?,
            zero: AttrValue::read(attrs, "result_zero")?,
        }))
    }

    /// The type of the result of an operation whose numbers become these codes, or stay numbers.
    pub(crate) fn of_result(result: Option<QuantizeLinear>, numbers: Type) -> Result<Type> {
        match result {
            None => Ok(numbers),
            Some(codes) => codes.output(&[numbers]),
        }
    }
}

/// The result's type, where the input and the scale are right.
fn result(input: &Type, scale: f64, [from, to]: [DType; 2]) -> Result<Type> {
    if input.dtype != from {
        return Err(Error::user(format!("needs {} and not {input}", from.name())));
    }
    let is_single = f64::from(scale as f32) == scale;
    if !(is_single && scale > 0.0 && scale.is_finite()) {
        return Err(Error::user(format!(
            "the scale {scale} is not a positive number in f32"
        )));
    }
    Ok(Type::new(to, &input.shape))
}

impl Elementwise for QuantizeLinear {
    const INPUTS: usize = 1;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        result(&inputs[0], self.scale, [DType::F32, DType::U8])
    }

    fn element(&self, x: &[f64]) -> f64 {
        let code = (x[0] / self.scale).round_ties_even() + f64::from(self.zero);
        if code.is_nan() { 0.0 } else { code.clamp(0.0, 255.0) }
    }

    fn vjp(&self, _: &Vjp<'_>, _: Tensor) -> Vec<Option<Tensor>> {
        vec![None]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let code = (inputs[0] / self.scale).round() + f64::from(self.zero);
        Some(code.clamp(0.0, 255.0).cast(DType::U8))
    }
}

impl Elementwise for DequantizeLinear {
    const INPUTS: usize = 1;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        result(&inputs[0], self.scale, [DType::U8, DType::F32])
    }

    fn element(&self, x: &[f64]) -> f64 {
        (x[0] - f64::from(self.zero)) * self.scale
    }

    fn vjp(&self, _: &Vjp<'_>, _: Tensor) -> Vec<Option<Tensor>> {
        vec![None]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        Some((inputs[0].cast(DType::F32) - f64::from(self.zero)) * self.scale)
    }
}

impl Tensor {
    /// Numbers `f32` as codes `u8`. See [`QuantizeLinear`].
    #[track_caller]
    pub fn quantize_linear(self, scale: f32, zero: u8) -> Tensor {
        let scale = scale.into();
        self.trace().apply1(QuantizeLinear { scale, zero }, &[self])
    }

    /// The numbers `f32` of codes `u8`. See [`DequantizeLinear`].
    #[track_caller]
    pub fn dequantize_linear(self, scale: f32, zero: u8) -> Tensor {
        let scale = scale.into();
        self.trace().apply1(DequantizeLinear { scale, zero }, &[self])
    }
}
