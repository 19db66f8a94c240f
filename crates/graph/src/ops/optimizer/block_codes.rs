//! Block-wise dynamic quantization (Dettmers, Lewis, Shleifer, Zettlemoyer 2022, section 2): 8-bit codes of blocks of
//! numbers, each block with one scale, its largest magnitude.

use crate::array::Array;
use crate::tensor::Tensor;
use crate::types::DType;

/// Elements of a block, which follow each other in row-major order; the last block of a tensor may have fewer.
pub const BLOCK: usize = 256;

/// The values that 8-bit codes stand for; their magnitudes are at most 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codebook {
    /// Codes of numbers of either sign.
    Signed,
    /// Codes of numbers that are not negative, with twice as many values above zero.
    Unsigned,
}

impl Codebook {
    /// The value of each code, ascending, as an `f32` represents it: 0, 1, and in each of the seven decades `10^(i - 6)
    /// [0.1, 1]` the centres of equal intervals, `2^i` for either sign or `2^(i + 1)` without signs.
    pub fn values(self) -> [f64; 256] {
        let mut values = [0.0; 256];
        values[1] = 1.0;
        let mut count = 2;
        for decade in 0..7 {
            let intervals = match self {
                Codebook::Signed => 1 << decade,
                Codebook::Unsigned => 2 << decade,
            };
            for k in 0..intervals {
                let centre = 0.1 + 0.9 * (f64::from(k) + 0.5) / f64::from(intervals);
                let value = DType::F32.round(centre * 10f64.powi(decade - 6));
                values[count] = value;
                count += 1;
                if self == Codebook::Signed {
                    values[count] = -value;
                    count += 1;
                }
            }
        }
        values.sort_by(f64::total_cmp);
        values
    }

    /// Between the values of each code and the next one the least number, an `f32`, that counts as the next one's:
    /// their mean.
    pub fn bounds(self) -> [f64; 255] {
        let values = self.values();
        std::array::from_fn(|code| DType::F32.round((values[code] + values[code + 1]) / 2.0))
    }

    /// The code of the value that is nearest to a number; 0 for NaN.
    pub fn code(self, bounds: &[f64; 255], x: f64) -> f64 {
        bounds.partition_point(|&bound| bound <= x) as f64
    }
}

/// Number of blocks of a tensor of `elements` elements.
pub fn blocks(elements: usize) -> usize {
    elements.div_ceil(BLOCK)
}

/// Divisor of a block with the largest magnitude `scale`.
fn divisor(scale: f64) -> f64 {
    if scale == 0.0 { 1.0 } else { scale }
}

/// The numbers that codes and the scales of their blocks stand for.
pub fn dequantize(book: Codebook, codes: &[f64], scales: &[f64]) -> Vec<f64> {
    let values = book.values();
    let number = |(i, &code): (usize, &f64)| values[code as usize] * scales[i / BLOCK];
    codes.iter().enumerate().map(number).collect()
}

/// Codes of numbers, and the scales of their blocks. A block with NaN has the scale NaN, one with an infinity and
/// without NaN an infinite one, so that none of them is finite again.
pub fn quantize(book: Codebook, numbers: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let bounds = book.bounds();
    let larger = |most: f64, x: &f64| if x.abs() > most || x.is_nan() { x.abs() } else { most };
    let scales: Vec<f64> = numbers
        .chunks(BLOCK)
        .map(|block| block.iter().fold(0.0, larger))
        .collect();
    let code = |(i, x): (usize, &f64)| book.code(&bounds, x / divisor(scales[i / BLOCK]));
    (numbers.iter().enumerate().map(code).collect(), scales)
}

/// [`dequantize`] of tensors, with operations: `codes` of any shape gives numbers of that shape and this dtype.
pub(super) fn dequantized(book: Codebook, codes: Tensor, scales: Tensor, dtype: DType) -> Tensor {
    let values = codes.trace().constant(Array::f32(&[256], book.values().to_vec()));
    let relative = values.gather(codes.cast(DType::I32)).cast(dtype);
    let scales = scales.cast(dtype).unsqueeze(-1);
    of_blocks(in_blocks(relative) * scales, &codes.shape())
}

/// [`quantize`] of a tensor, with operations: codes of its shape, and an `f32` scale for each block.
pub(super) fn quantized(book: Codebook, numbers: Tensor) -> [Tensor; 2] {
    let x = in_blocks(numbers);
    let scale = x.abs().max_last();
    let relative = x / scale.eq(scale.scalar_like(0.0)).select(scale.scalar_like(1.0), scale);
    let bounds = x.trace().constant(Array::f32(&[255], book.bounds().to_vec()));
    let bounds = bounds.cast(x.dtype());
    // Halves the range of codes eight times.
    let mut code = x.trace().full(DType::I32, &x.shape(), 0.0);
    for half in (0..8).rev().map(|bit| f64::from(1 << bit)) {
        let is_above = bounds.gather(code + (half - 1.0)).le(relative);
        code = is_above.select(code + half, code);
    }
    let codes = of_blocks(code, &numbers.shape()).cast(DType::U8);
    [codes, scale.reshape(&[scale.ty().numel()]).cast(DType::F32)]
}

/// The elements as rows of blocks, the last one filled with zeros.
fn in_blocks(x: Tensor) -> Tensor {
    let n = x.ty().numel();
    let padding = blocks(n) * BLOCK - n;
    x.reshape(&[n]).pad(0, 0, padding, 0.0).reshape(&[blocks(n), BLOCK])
}

/// The elements of rows of blocks in this shape.
fn of_blocks(x: Tensor, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    x.reshape(&[x.ty().numel()]).slice(0, 0, n).reshape(shape)
}
