//! Rows as codes of 8 bits with a scale each, and restored from them. Results have the same bits at every CPU level.

use lessen_graph::{DType, ops};

use crate::kernels::elementwise::cast::{Bf16, Float};
use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::widths::{self, widths};
use crate::simd::{LANES, Level, dispatch};

/// The code of zero.
const ZERO: u8 = 128;
/// The codes of either sign.
const LEVELS: f32 = 127.0;
/// The sum of it and a number from -127 to 127 is rounded to an integer, ties to even; its lowest byte is the code.
const TO_CODE: f32 = 12_582_912.0 + ZERO as f32;

dispatch! {
    /// `scale[r] = m / 127` with the largest magnitude `m` of row `r`, and `codes = round(x / scale[r]) + 128`; see
    /// [`ops::QuantizeRows`] for rows of tiny numbers, of very large ones, and with numbers that are not finite.
    ///
    /// # Safety
    /// `x` covers `n` rows of `c` elements, `codes` as many codes, and the codes of a row follow each other; `scale`
    /// has `n` elements. The written memory overlaps nothing.
    pub unsafe fn quantize_rows[X: Float](
        n: usize, c: usize, x: Rows<X>, codes: Rows<u8>, scale: *mut f32,
    ) = quantize_rows_body;

    /// `y = (codes - 128) scale[r]`.
    ///
    /// # Safety
    /// `codes` and `y` cover `n` rows of `c` elements that follow each other, `scale` has `n` elements; `y` overlaps
    /// nothing.
    pub unsafe fn dequantize_rows(
        n: usize, c: usize, codes: Rows<u8>, scale: *const f32, y: Rows<f32>,
    ) = dequantize_rows_body;
}

#[inline(always)]
unsafe fn quantize_rows_body<L: Level, X: Float>(n: usize, c: usize, x: Rows<X>, codes: Rows<u8>, scale: *mut f32) {
    for r in 0..n {
        // SAFETY: the rows lie within the operands, and `r < n`.
        unsafe {
            *scale.add(r) = if x.col == 1 {
                quantize_row(c, x.at(r), 1, codes.at(r))
            } else {
                quantize_row(c, x.at(r), x.col, codes.at(r))
            };
        }
    }
}

/// Writes the codes of one row; returns its scale.
#[inline(always)]
unsafe fn quantize_row<X: Float>(c: usize, x: *const X, col: usize, codes: *mut u8) -> f32 {
    // SAFETY: passed on.
    let scale = scale_of(unsafe { largest(c, x, col) });
    if scale == 0.0 || !scale.is_finite() {
        // SAFETY: the row has `c` codes.
        unsafe { codes.write_bytes(ZERO, c) };
        return scale;
    }
    let inverse = 1.0 / scale;
    widths!(c, |j, W| {
        // SAFETY: elements j..j+W lie within the rows.
        unsafe {
            let xs: [X; W] = load(x.add(j * col), col);
            let mut row_codes = [0; W];
            for i in 0..W {
                row_codes[i] = (xs[i].wide() * inverse + TO_CODE).to_bits() as u8;
            }
            widths::store(codes.add(j), row_codes);
        }
    });
    scale
}

/// The largest magnitude of a row; NaN if there is one.
#[inline(always)]
unsafe fn largest<X: Float>(c: usize, x: *const X, col: usize) -> f32 {
    // Without their sign, the bits of numbers are ordered as numbers are, and the bits of NaN come last.
    let mut lanes = [0; LANES];
    widths!(c, |j, W| {
        // SAFETY: elements j..j+W lie within the row.
        let xs: [X; W] = unsafe { load(x.add(j * col), col) };
        for i in 0..W {
            lanes[i] = lanes[i].max(xs[i].wide().abs().to_bits() as i32);
        }
    });
    let mut bits = 0;
    for i in 0..LANES {
        bits = bits.max(lanes[i]);
    }
    f32::from_bits(bits as u32)
}

/// The scale of a row with this largest magnitude.
#[inline(always)]
fn scale_of(largest: f32) -> f32 {
    let scale = largest / LEVELS;
    if scale < ops::QuantizeRows::LEAST_SCALE {
        0.0
    } else if scale.is_finite() {
        scale.min(ops::QuantizeRows::MOST_SCALE)
    } else {
        scale
    }
}

/// Loads `W` elements that lie `col` apart.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn load<X: Float, const W: usize>(x: *const X, col: usize) -> [X; W] {
    // SAFETY: passed on.
    unsafe { if col == 1 { widths::load(x) } else { load_apart(x, col) } }
}

/// The same for any stride: not inlined, since LLVM would unroll it at every width of every level.
#[inline(never)]
unsafe fn load_apart<X: Float, const W: usize>(x: *const X, col: usize) -> [X; W] {
    // SAFETY: the caller's elements exist.
    std::array::from_fn(|i| unsafe { *x.add(i * col) })
}

#[inline(always)]
unsafe fn dequantize_rows_body<L: Level>(n: usize, c: usize, codes: Rows<u8>, scale: *const f32, y: Rows<f32>) {
    for r in 0..n {
        // SAFETY: `r < n`.
        let scale = unsafe { *scale.add(r) };
        widths!(c, |j, W| {
            // SAFETY: elements j..j+W lie within the rows.
            unsafe {
                let row_codes: [u8; W] = widths::load(codes.at(r).add(j));
                let mut ys = [0.0; W];
                for i in 0..W {
                    ys[i] = (i32::from(row_codes[i]) - i32::from(ZERO)) as f32 * scale;
                }
                widths::store(y.at(r).add(j), ys);
            }
        });
    }
}

/// The kernel of [`ops::QuantizeRows`].
pub(crate) fn quantize_rows_kernel(_: &ops::QuantizeRows, types: &Types<'_>) -> Option<Kernel> {
    fn of<X: Float>() -> Option<Kernel> {
        // SAFETY: see `Run`.
        RowKernel::rows(|r| unsafe {
            let (x, codes) = (r.inputs[0].rows::<X>(), r.outputs[0].rows());
            quantize_rows(r.n, r.c(), x, codes, r.column(1));
        })
        .into()
    }
    match types.inputs[0].dtype {
        DType::F32 => of::<f32>(),
        DType::BF16 => of::<Bf16>(),
        _ => None,
    }
}

/// The kernel of [`ops::DequantizeRows`].
pub(crate) fn dequantize_rows_kernel(_: &ops::DequantizeRows, _: &Types<'_>) -> Option<Kernel> {
    // SAFETY: see `Run`.
    RowKernel::rows(|r| unsafe {
        dequantize_rows(r.n, r.c(), r.inputs[0].runs(), r.whole(1), r.y(0));
    })
    .dense([0, 1])
    .into()
}
