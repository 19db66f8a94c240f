//! Rows in 8 bits for each element times one shared matrix in 4 bits for each, with scales of groups.
//!
//! 64 elements of a row are 16 lanes of four: their products are added up as integers, exactly, and times the group's
//! scale added to the lane's sum in `f32`, block after block. The lanes are added up in a fixed tree, so all levels
//! give the same bits.

use std::ops::Range;

use lessen_graph::ops;

use super::nibbles::{BLOCK, LANES, Levels, ROWS, WORD, ZEROS, total};
pub use super::nibbles::{Nibbles, scratch_bytes};
use crate::kernels::kernel::{Kernel, Reads, RowKernel, Types};
use crate::kernels::rows::Rows;
#[cfg(target_arch = "x86_64")]
use crate::kernels::x86::{avx2, avx512, byte_products::CodeProducts};
use crate::simd::{Level, dispatch};

/// Tasks of a product of a few rows for each thread, and the columns that they are multiples of.
const TASKS: (usize, usize) = (2, 16);

dispatch! {
    /// Columns of the product of some rows whose levels are there.
    ///
    /// # Safety
    /// The factors cover these elements; rows of `y` are runs of elements; `y` overlaps nothing.
    unsafe fn plain(rows: usize, columns: Range<usize>, factors: Nibbles, levels: Levels, y: Rows<f32>) = plain_body;
}

#[inline(always)]
unsafe fn plain_body<L: Level>(rows: usize, columns: Range<usize>, factors: Nibbles, levels: Levels, y: Rows<f32>) {
    let last = factors.k.div_ceil(factors.group) - 1;
    for j in columns {
        // SAFETY: the column, the rows and their blocks exist.
        unsafe {
            let (bytes, scales) = factors.column(j);
            for r in 0..rows {
                let mut sums = [0f32; LANES];
                for block in 0..levels.blocks {
                    let at = r * levels.blocks + block;
                    for (lane, sum) in sums.iter_mut().enumerate() {
                        let mut part = *levels.begin.add(at * LANES + lane);
                        for i in lane * WORD..(lane + 1) * WORD {
                            let byte = *bytes.add(block * (BLOCK / 2) + i % (BLOCK / 2));
                            let code = if i < BLOCK / 2 { byte & 0x0f } else { byte >> 4 };
                            part += i32::from(code) * i32::from(*levels.levels.add(at * BLOCK + i));
                        }
                        let group = (block * BLOCK + lane * WORD) / factors.group;
                        *sum += part as f32 * *scales.add(group.min(last));
                    }
                }
                *y.at(r).add(j) = total(sums) * *factors.scale.at(r);
            }
        }
    }
}

/// Columns of the product of `n` rows and a matrix.
///
/// # Safety
/// The factors cover these elements; rows of `y` are runs of elements; `y` overlaps nothing; `scratch` has
/// [`scratch_bytes`].
pub unsafe fn grouped_matmul(n: usize, columns: Range<usize>, factors: Nibbles, y: Rows<f32>, scratch: *mut u8) {
    let levels = Levels::new(factors.k, scratch);
    for first in (0..n).step_by(ROWS) {
        let rows = ROWS.min(n - first);
        // SAFETY: passed on.
        unsafe {
            for r in 0..rows {
                levels.copy(r, factors.k, factors.codes.at(first + r));
            }
            let some = Nibbles {
                codes: factors.codes.from(first),
                scale: factors.scale.from(first),
                ..factors
            };
            let y = y.from(first);
            #[cfg(target_arch = "x86_64")]
            match CodeProducts::used() {
                CodeProducts::Wide => avx512::nibbles::product(rows, columns.clone(), &some, levels, y),
                CodeProducts::Evex => avx2::nibbles::by_evex(rows, columns.clone(), &some, levels, y),
                CodeProducts::Vex => avx2::nibbles::by_vex(rows, columns.clone(), &some, levels, y),
                CodeProducts::WidePairs | CodeProducts::Pairs => {
                    avx2::nibbles::by_pairs(rows, columns.clone(), &some, levels, y)
                }
                CodeProducts::Plain => plain(rows, columns.clone(), some, levels, y),
            }
            #[cfg(not(target_arch = "x86_64"))]
            plain(rows, columns.clone(), some, levels, y);
        }
    }
}

/// The kernel of [`ops::GroupedMatMul`].
pub(crate) fn grouped_matmul_kernel(op: &ops::GroupedMatMul, types: &Types<'_>) -> Option<Kernel> {
    let (k, group) = (types.inputs[0].last(), op.group);
    RowKernel::even(TASKS.0, TASKS.1, move |r| {
        let factors = Nibbles {
            k,
            group,
            codes: r.inputs[0].runs(),
            scale: r.x(1),
            weight: r.inputs[2].dense::<u8>().cast_const(),
            weight_scale: r.whole(3),
        };
        // SAFETY: see `Run`.
        unsafe { grouped_matmul(r.n, r.columns.0..r.columns.1, factors, r.y(0), r.scratch) };
    })
    .tiled()
    .with_scratch(scratch_bytes(k), 0)
    .reading(0, Reads::MatrixOfRuns)
    .into()
}

dispatch! {
    /// The numbers of rows of codes of 4 bits.
    ///
    /// # Safety
    /// The operands cover `n` rows of `columns` elements that follow each other; `y` overlaps nothing.
    unsafe fn restore(n: usize, op: ops::DequantizeGroups, codes: Rows<u8>, scale: Rows<f32>, y: Rows<f32>) = restore_body;
}

#[inline(always)]
unsafe fn restore_body<L: Level>(n: usize, op: ops::DequantizeGroups, codes: Rows<u8>, scale: Rows<f32>, y: Rows<f32>) {
    const HALF: usize = BLOCK / 2;
    for r in 0..n {
        for first in (0..op.columns).step_by(HALF) {
            // SAFETY: the elements are those of the row; a half block is of one group.
            unsafe {
                let bytes = codes.at(r).add(first / BLOCK * HALF);
                let scale = *scale.at(r).add(first / op.group);
                let shift = if first % BLOCK == 0 { 0 } else { 4 };
                for i in 0..HALF.min(op.columns - first) {
                    let code = i32::from(*bytes.add(i) >> shift & 0x0f) - ZEROS[1];
                    *y.at(r).add(first + i) = code as f32 * scale;
                }
            }
        }
    }
}

/// The kernel of [`ops::DequantizeGroups`].
pub(crate) fn dequantize_groups_kernel(op: &ops::DequantizeGroups, _: &Types<'_>) -> Option<Kernel> {
    let op = *op;
    RowKernel::rows(move |r| {
        // SAFETY: see `Run`.
        unsafe { restore(r.n, op, r.inputs[0].runs(), r.inputs[1].runs(), r.y(0)) };
    })
    .reading(0, Reads::Runs)
    .reading(1, Reads::Runs)
    .into()
}
