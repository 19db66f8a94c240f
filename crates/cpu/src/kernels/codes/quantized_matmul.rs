//! Rows times one shared matrix, both in 8 bits for each element with a scale for each row.
//!
//! Sums of products of integers are exact, so their bits depend on codes alone: neither on the instructions nor on how
//! rows and columns are cut. What follows rounds each element three times: the sum, the product of the scales, and the
//! product of both.

use std::ops::Range;

use lessen_graph::{numel, ops};

pub use super::factors::Factors;
use super::factors::{Operands, ZERO};
use super::to_code::ToCode;
use crate::kernels::kernel::{Kernel, Reads, RowKernel, Types};
use crate::kernels::map::map;
use crate::kernels::rows::Rows;
#[cfg(target_arch = "x86_64")]
use crate::kernels::x86::{avx2, avx512, byte_products::CodeProducts};
use crate::simd::{Level, dispatch};

/// Tasks of a product of a few rows for each thread, and the columns that they are multiples of.
const TASKS: (usize, usize) = (2, 16);

/// Products of a chunk of a sum.
const CHUNK: usize = 64;

dispatch! {
    /// Columns of the product of `n` rows and a matrix.
    ///
    /// # Safety
    /// The factors cover these elements; rows of `y` are runs of elements; `y` overlaps nothing.
    unsafe fn plain(n: usize, columns: Range<usize>, factors: Factors, y: Rows<f32>) = plain_body;
}

#[inline(always)]
unsafe fn plain_body<L: Level>(n: usize, columns: Range<usize>, factors: Factors, y: Rows<f32>) {
    let Factors { k, codes, weight, .. } = factors;
    for j in columns {
        for r in 0..n {
            // SAFETY: the rows and columns exist.
            unsafe {
                let sum = if weight.col == 1 {
                    dot(k, (codes.at(r), factors.zero), weight.at(j))
                } else {
                    dot_apart(k, (codes.at(r), factors.zero), (weight.at(j), weight.col))
                };
                *y.at(r).add(j) = f32::from_bits(factors.element(r, j, sum));
            }
        }
    }
}

/// A code less that of zero.
#[inline(always)]
fn level(code: u8, zero: u8) -> i16 {
    i16::from(code) - i16::from(zero)
}

/// The code of zero of a matrix.
const MIDDLE: u8 = ZERO as u8;

/// The sum of products of the levels of a run of codes with this zero and one of a matrix.
#[inline(always)]
unsafe fn dot(k: usize, (a, zero): (*const u8, u8), b: *const u8) -> i32 {
    // SAFETY: the runs have `k` codes.
    let (a, b) = unsafe { (std::slice::from_raw_parts(a, k), std::slice::from_raw_parts(b, k)) };
    let product = |a: u8, b: u8| i32::from(level(a, zero)) * i32::from(level(b, MIDDLE));
    let mut lanes = [0i32; CHUNK / 2];
    let (chunks_a, chunks_b) = (a.chunks_exact(CHUNK), b.chunks_exact(CHUNK));
    let rest = chunks_a.remainder().iter().zip(chunks_b.remainder());
    let rest: i32 = rest.map(|(a, b)| product(*a, *b)).sum();
    for (a, b) in chunks_a.zip(chunks_b) {
        for (i, lane) in lanes.iter_mut().enumerate() {
            // Pairs of products are one instruction.
            *lane += product(a[2 * i], b[2 * i]) + product(a[2 * i + 1], b[2 * i + 1]);
        }
    }
    lanes.iter().sum::<i32>() + rest
}

/// The same, where the second run's codes lie apart.
#[inline(never)]
unsafe fn dot_apart(k: usize, (a, zero): (*const u8, u8), (b, apart): (*const u8, usize)) -> i32 {
    // SAFETY: the runs have `k` codes.
    let product = |i: usize| unsafe { i32::from(level(*a.add(i), zero)) * i32::from(level(*b.add(i * apart), MIDDLE)) };
    (0..k).map(product).sum()
}

/// Rows whose numbers become codes at a time.
const ROWS: usize = 16;

/// Bytes for the sums of a product with a packed matrix that become codes.
fn fixed_room() -> usize {
    #[cfg(target_arch = "x86_64")]
    return crate::kernels::x86::words::fixed_codes::ROOM;
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Bytes of scratch for rows of `k` codes, on machines of every kind.
pub fn scratch_bytes(k: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return avx512::codes::scratch_bytes(k).max(avx2::codes::scratch_bytes(k));
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = k;
        0
    }
}

/// Columns of the product of `n` rows and a matrix.
///
/// # Safety
/// The factors cover these elements; rows of `y` are runs of elements; `y` overlaps nothing; `scratch` has
/// [`scratch_bytes`].
pub unsafe fn quantized_matmul(n: usize, columns: Range<usize>, factors: Factors, y: Rows<f32>, scratch: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        let (by_columns, by_rows) = (factors.weight.col == 1, factors.weight.row == 1);
        let by_words = by_columns || (by_rows && factors.zero == MIDDLE);
        // SAFETY: passed on; the machine has the instructions that are used.
        unsafe {
            match CodeProducts::used() {
                CodeProducts::Wide if by_words => return avx512::codes::product(n, columns, factors, y, scratch),
                CodeProducts::Evex if by_words => return avx2::codes::by_evex(n, columns, factors, y, scratch),
                CodeProducts::Vex if by_words => return avx2::codes::by_vex(n, columns, factors, y, scratch),
                CodeProducts::Plain => {}
                _ if by_columns || by_rows => return avx2::codes::by_pairs(n, columns, factors, y, scratch),
                _ => {}
            }
        }
    }
    let _ = scratch;
    // SAFETY: passed on.
    unsafe { plain(n, columns, factors, y) }
}

/// The kernel of [`ops::QuantizedMatMul`].
pub(crate) fn quantized_matmul_kernel(op: &ops::QuantizedMatMul, types: &Types<'_>) -> Option<Kernel> {
    product_kernel((op.zero, op.result.map(ToCode::of)), types, Operands::SCALED).into()
}

/// The kernel of [`ops::IntegerMatMul`].
pub(crate) fn integer_matmul_kernel(op: &ops::IntegerMatMul, types: &Types<'_>) -> Option<Kernel> {
    product_kernel((op.zero, None), types, Operands::SUMS).into()
}

/// The kernel of a product of rows with this code of zero and these operands, whose numbers become codes or stay.
fn product_kernel((zero, codes): (u8, Option<ToCode>), types: &Types<'_>, operands: Operands) -> RowKernel {
    let (k, all_columns) = (types.inputs[0].last(), types.inputs[operands.weight].shape[0]);
    // Numbers that become codes lie after the scratch of the product.
    let numbers = scratch_bytes(k).next_multiple_of(64);
    let room = codes.map_or(0, |_| (ROWS * all_columns * size_of::<f32>()).max(fixed_room()));
    let has_bias = types.inputs.len() > operands.bias;
    let kernel = RowKernel::even(TASKS.0, TASKS.1, move |r| {
        let factors = Factors {
            k,
            zero,
            codes: r.inputs[0].runs(),
            scale: operands
                .scales
                .map_or(Rows::scalar(std::ptr::null_mut()), |[scale, _]| r.x(scale)),
            weight: r.inputs[operands.weight].matrix(),
            weight_scale: operands.scales.map_or(std::ptr::null(), |[_, scale]| r.whole(scale)),
            bias: if has_bias {
                r.inputs[operands.bias].dense::<i32>().cast_const()
            } else {
                std::ptr::null()
            },
        };
        let columns = r.columns.0..r.columns.1;
        let Some(codes) = codes else {
            // SAFETY: see `Run`.
            return unsafe { quantized_matmul(r.n, columns, factors, r.y(0), r.scratch) };
        };
        for first in (0..r.n).step_by(ROWS) {
            let rows = ROWS.min(r.n - first);
            // SAFETY: see `Run`; the scratch has room for the numbers of these rows.
            unsafe {
                let of_rows = Factors {
                    codes: factors.codes.from(first),
                    scale: factors.scale.from(first),
                    ..factors
                };
                let room = Rows::dense(r.scratch.add(numbers).cast::<f32>(), all_columns);
                quantized_matmul(rows, columns.clone(), of_rows, room, r.scratch);
                let y = r.outputs[0].rows::<u8>();
                let to = Rows {
                    ptr: y.element(first, columns.start),
                    ..y
                };
                let from = Rows {
                    ptr: room.element(0, columns.start),
                    ..room
                };
                map(codes, rows, columns.len(), from, to);
            }
        }
    })
    .tiled()
    .with_scratch(if room == 0 { scratch_bytes(k) } else { numbers + room }, 0)
    .reading(0, Reads::MatrixOfRuns)
    .reading(operands.weight, Reads::Matrix);
    #[cfg(target_arch = "x86_64")]
    let kernel = {
        let rows = numel(&types.inputs[0].shape[..types.inputs[0].rank() - 1]);
        let shape = crate::kernels::x86::words::rows::Shape {
            rows,
            k,
            columns: all_columns,
            transposed: true,
            task_columns: 0,
        };
        let becomes = crate::kernels::x86::words::fixed_codes::Becomes {
            zero,
            codes: codes.map(|codes| (codes, numbers)),
        };
        kernel.with_fixed(crate::kernels::x86::words::fixed_codes::fixed(
            shape, becomes, operands, has_bias,
        ))
    };
    kernel
}
