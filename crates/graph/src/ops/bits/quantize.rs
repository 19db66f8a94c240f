//! Rows of numbers in 8 bits for each element, with a scale for each row. A plan keeps them in place of a value of
//! which backward reads an approximation.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::Op;
use crate::ops::rules::{arity, arrays, lead};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The code of zero.
const ZERO: f64 = 128.0;
/// The codes of either sign.
const LEVELS: f64 = 127.0;

/// Input `x[.., C]` of `f32` or `bf16`; outputs `codes[.., C]` of `u8` and `scale[..]` of `f32`. With the row's largest
/// magnitude `m`: `scale = m / 127` and `codes = round(x / scale) + 128`, ties to even, from 1 to 255.
///
/// [`DequantizeRows`] restores each element with an error of at most [`QuantizeRows::ERROR`] times `m`, and zeros
/// exactly. A row whose scale would be less than [`QuantizeRows::LEAST_SCALE`] counts as zeros, which have the scale 0
/// and codes 128; a finite scale is at most [`QuantizeRows::MOST_SCALE`]. A row with NaN has the scale NaN, one with an
/// infinity and without NaN an infinite one; its codes are 128, and all of it is restored as NaN. It has no derivative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantizeRows;

named!("quantize_rows": QuantizeRows {});

/// Restores the rows of [`QuantizeRows`]: inputs `codes[.., C]` of `u8` and `scale[..]` of `f32`; output `y[.., C]` of
/// `f32`, `y = (codes - 128) scale`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DequantizeRows;

named!("dequantize_rows": DequantizeRows {});

impl QuantizeRows {
    /// The greatest error of a restored element, relative to the largest magnitude of its row: half a scale, and
    /// roundings in `f32`.
    pub const ERROR: f64 = 1.0 / 254.0 + 4.0 * f32::EPSILON as f64;

    /// The least scale but 0, which is the least normal number.
    pub const LEAST_SCALE: f32 = f32::MIN_POSITIVE;

    /// The greatest finite scale: 127 times it does not overflow.
    pub const MOST_SCALE: f32 = f32::from_bits((f32::MAX / 127.0).to_bits() - 1);

    /// Writes the codes of a row of `f32`, and returns its scale.
    pub fn quantize(row: &[f32], codes: &mut [u8]) -> f32 {
        /// Sums with it have no place for fractions: they round to even, as machines without an instruction for that
        /// do fastest.
        const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
        let wide: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
        let scale = scale_of(&wide) as f32;
        if !(scale > 0.0 && scale.is_finite()) {
            codes.fill(ZERO as u8);
            return scale;
        }
        for (code, x) in codes.iter_mut().zip(wide) {
            let level = (x / f64::from(scale) + WHOLE - WHOLE).clamp(-LEVELS, LEVELS);
            *code = (level + ZERO) as u8;
        }
        scale
    }

    /// The number of a code.
    pub fn dequantize(code: u8, scale: f32) -> f32 {
        (f32::from(code) - ZERO as f32) * scale
    }

    /// The types of codes and scales of a type; none for a type without rows of `f32` or `bf16`.
    pub fn quantized(ty: &Type) -> Option<[Type; 2]> {
        let has_rows = matches!(ty.dtype, DType::F32 | DType::BF16) && ty.rank() > 0 && ty.last() > 0;
        has_rows.then(|| [Type::new(DType::U8, &ty.shape), Type::f32(lead(ty))])
    }
}

/// The scale of a row.
fn scale_of(row: &[f64]) -> f64 {
    let larger = |most: f64, x: &f64| if x.abs() > most || x.is_nan() { x.abs() } else { most };
    let scale = row.iter().fold(0.0, larger) / LEVELS;
    if scale < f64::from(QuantizeRows::LEAST_SCALE) {
        0.0
    } else if scale.is_finite() {
        scale.min(QuantizeRows::MOST_SCALE.into())
    } else {
        scale
    }
}

impl Op for QuantizeRows {
    named!();

    facts! {
        rows;
        flops(4.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        match QuantizeRows::quantized(&inputs[0]) {
            Some(types) => Ok(types.to_vec()),
            None => Err(Error::user(format!("needs rows of f32 or bf16, not {}", inputs[0]))),
        }
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for x in inputs[0].rows() {
            let scale = scale_of(x);
            let has_codes = scale > 0.0 && scale.is_finite();
            let code = |x: &f64| if has_codes { (x / scale).round_ties_even() } else { 0.0 };
            codes.extend(x.iter().map(|x| code(x) + ZERO));
            scales.push(scale);
        }
        arrays(outputs, [codes, scales])
    }
}

impl Op for DequantizeRows {
    named!();

    facts! {
        rows;
        flops(3.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let y = Type::f32(&inputs[0].shape);
        match QuantizeRows::quantized(&y) {
            Some(types) if types == inputs => Ok(vec![y]),
            _ => Err(Error::user(format!(
                "needs codes u8[.., C] and a scale f32[..] for each row, not {} and {}",
                inputs[0], inputs[1]
            ))),
        }
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let of_row =
            |(codes, &scale): (&[f64], &f64)| -> Vec<f64> { codes.iter().map(|code| (code - ZERO) * scale).collect() };
        let y = inputs[0].rows().zip(&inputs[1].data).flat_map(of_row);
        arrays(outputs, [y.collect()])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [codes, scale] = [inputs[0].cast(DType::F32), inputs[1]];
        Some(vec![(codes - ZERO) * scale.unsqueeze(-1)])
    }
}

impl Tensor {
    /// The rows `[.., C]` of `f32` or `bf16` as codes `u8[.., C]` and scales `f32[..]`. See [`QuantizeRows`].
    #[track_caller]
    pub fn quantize_rows(self) -> [Tensor; 2] {
        let outputs = self.trace().apply(QuantizeRows, &[self]);
        [outputs[0], outputs[1]]
    }

    /// The rows `f32[.., C]` of codes `u8[.., C]` and their scales `f32[..]`. See [`DequantizeRows`].
    #[track_caller]
    pub fn dequantize_rows(self, scale: Tensor) -> Tensor {
        self.trace().apply1(DequantizeRows, &[self, scale])
    }
}
