//! Rows of numbers in 4 bits for each element, with a scale for each group of elements.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Cost, Op};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The code of zero.
const ZERO: u8 = 8;
/// The codes of either sign.
const LEVELS: f32 = 7.0;
/// Elements whose codes lie side by side, in the low or in the high bits of bytes.
const RUN: usize = DequantizeGroups::BLOCK / 2;
/// Numbers of its binade are whole.
const WHOLE: f32 = 1.5 * (1 << 23) as f32;

/// Restores rows of codes of 4 bits: inputs `codes[N, B]` of `u8` and `scale[N, G]` of `f32`; output `y[N, columns]` of
/// `f32`, `y = (code - 8) scale` with the scale of the element's group: `group` elements have one.
///
/// 64 codes are 32 bytes, of which byte `i` has the code of element `i` in its low bits and that of element `i + 32` in
/// its high bits; a row is filled up to 64 codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DequantizeGroups {
    /// Elements that share a scale, a multiple of 32.
    pub group: usize,
    /// Elements of a row.
    pub columns: usize,
}

named!("dequantize_groups": DequantizeGroups { group, columns });

impl DequantizeGroups {
    /// Codes of a block of bytes.
    pub const BLOCK: usize = 64;

    /// The types of the codes and the scales of `rows` rows.
    ///
    /// # Errors
    /// Groups that are no multiple of 32, extents that no array has.
    pub fn types(&self, rows: usize) -> Result<[Type; 2]> {
        if self.group == 0 || !self.group.is_multiple_of(RUN) {
            return Err(Error::user(format!(
                "groups of {} elements are no multiple of {RUN}",
                self.group
            )));
        }
        let blocks = self.columns.div_ceil(DequantizeGroups::BLOCK);
        let Some(bytes) = blocks.checked_mul(RUN) else {
            return Err(Error::user(format!("rows of {} elements are too long", self.columns)));
        };
        Ok([
            Type::sized(DType::U8, &[rows, bytes])?,
            Type::sized(DType::F32, &[rows, self.columns.div_ceil(self.group)])?,
        ])
    }

    /// The place of an element's code: its byte, and whether it is in the high bits.
    pub fn place(element: usize) -> (usize, bool) {
        let (block, within) = (element / DequantizeGroups::BLOCK, element % DequantizeGroups::BLOCK);
        (block * RUN + within % RUN, within >= RUN)
    }

    /// Writes the codes and the scales of a row, of which codes of absent elements are those of zero. With the largest
    /// magnitude `m` of a group: `scale = m / 7`, and codes are from 1 to 15. Groups with numbers that are not finite
    /// are restored as NaN.
    pub fn quantize(&self, row: &[f32], codes: &mut [u8], scales: &mut [f32]) {
        codes.fill(ZERO | ZERO << 4);
        for (i, (part, scale)) in row.chunks(self.group).zip(scales).enumerate() {
            let larger = |most: f32, x: &f32| if x.abs() > most || x.is_nan() { x.abs() } else { most };
            *scale = part.iter().fold(0.0, larger) / LEVELS;
            if *scale < f32::MIN_POSITIVE {
                *scale = 0.0;
            }
            if *scale == 0.0 || !scale.is_finite() {
                continue;
            }
            for (j, run) in part.chunks(RUN).enumerate() {
                let (first, is_high) = DequantizeGroups::place(i * self.group + j * RUN);
                let kept = if is_high { 0x0f } else { 0xf0 };
                let shift = if is_high { 4 } else { 0 };
                for (byte, x) in codes[first..].iter_mut().zip(run) {
                    // Ties go to the even level: a sum with this number has no bits for fractions.
                    let level = ((x / *scale + WHOLE) - WHOLE).clamp(-LEVELS, LEVELS);
                    let code = (level as i32 + i32::from(ZERO)) as u8;
                    *byte = *byte & kept | code << shift;
                }
            }
        }
    }

    /// The number of an element of a row.
    pub fn element(&self, codes: &[u8], scales: &[f32], element: usize) -> f32 {
        let (byte, is_high) = DequantizeGroups::place(element);
        let code = if is_high { codes[byte] >> 4 } else { codes[byte] & 0x0f };
        (f32::from(code) - f32::from(ZERO)) * scales[element / self.group]
    }
}

impl Op for DequantizeGroups {
    named!();

    facts! { rows; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let rows = inputs[0].shape.first().copied().unwrap_or(0);
        let types = self.types(rows)?;
        if types != inputs || self.columns == 0 {
            return Err(Error::user(format!(
                "needs codes {} and scales {} of rows of elements, not {} and {}",
                types[0], types[1], inputs[0], inputs[1]
            )));
        }
        Ok(vec![Type::sized(DType::F32, &[rows, self.columns])?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let y = inputs[0].rows().zip(inputs[1].rows()).flat_map(|(codes, scales)| {
            (0..self.columns).map(|element| {
                let (byte, is_high) = DequantizeGroups::place(element);
                let code = codes[byte] as u8;
                let code = if is_high { code >> 4 } else { code & 0x0f };
                (f64::from(code) - f64::from(ZERO)) * scales[element / self.group]
            })
        });
        vec![Array::new(outputs[0].clone(), y.collect())]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost::vector(4.0 * outputs[0].numel() as f64, inputs, outputs)
    }
}

impl Tensor {
    /// The rows `f32[N, columns]` of codes of 4 bits `u8[N, B]` and their scales `f32[N, G]`. See [`DequantizeGroups`].
    #[track_caller]
    pub fn dequantize_groups(self, scale: Tensor, op: DequantizeGroups) -> Tensor {
        self.trace().apply1(op, &[self, scale])
    }
}
