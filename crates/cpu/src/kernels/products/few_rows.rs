//! Products of a few rows and a shared matrix, as of a text that is continued token by token.
//!
//! Such a product takes as long as reading the matrix from memory. So each element of the matrix is read once, for all
//! rows, in several streams at a time, and the next elements are asked for ahead. The order of every sum over `k`
//! depends on `k` and on whether the matrix is transposed alone: neither on the number of rows nor on how columns are
//! cut nor, with a fused multiply-add, on the CPU level.

use std::ops::Range;

use lessen_graph::ops;

use crate::kernels::elementwise::cast::Float;
use crate::kernels::kernel::{Reads, RowKernel, Types};
use crate::kernels::rows::{Element, Rows};
use crate::simd::{Level, dispatch, fma, prefetch};

/// The most rows that are few: of more, the arithmetic takes longer than reading the matrix.
pub const FEW: usize = 8;

dispatch! {
    /// Columns `columns` of `y = x b`, for `n` rows of `k` elements of `x` and `k` rows of `b`.
    ///
    /// # Safety
    /// The operands cover these elements; rows of `x` and `y`, and rows or columns of `b`, are runs of elements; `y`
    /// overlaps nothing.
    pub unsafe fn few_rows[W: Float](
        n: usize, k: usize, columns: Range<usize>, x: Rows<f32>, b: Rows<W>, y: Rows<f32>,
    ) = few_rows_body;
}

#[inline(always)]
unsafe fn few_rows_body<L: Level, W: Float>(
    n: usize,
    k: usize,
    columns: Range<usize>,
    x: Rows<f32>,
    b: Rows<W>,
    y: Rows<f32>,
) {
    let product = Product { n, k, x, b, y };
    // SAFETY: passed on. Eight registers hold the sums of some rows and columns, sixteen where there are 32.
    unsafe {
        match (b.row, L::REGISTER) {
            (1, 16) => product.dots::<L, 8, 4, 2>(columns),
            (1, 8) => product.dots::<L, 4, 2, 1>(columns),
            (1, _) => product.dots::<L, 2, 1, 1>(columns),
            _ => product.sums::<L>(columns),
        }
    }
}

/// Partial sums of a dot product, each of every `LANES`th element.
const LANES: usize = 16;
/// Columns of a transposed matrix that are read at a time, and that are asked for ahead.
const STREAMS: usize = 8;
/// Rows of a matrix that are read at a time.
const DEPTH: usize = 16;
/// Columns whose sums are in registers.
const WIDTH: usize = 64;
/// How many columns ahead elements of a matrix are asked for.
const AHEAD: usize = 128;
/// Bytes of a line of the cache.
const LINE: usize = 64;

#[derive(Clone, Copy)]
struct Product<W> {
    n: usize,
    k: usize,
    x: Rows<f32>,
    b: Rows<W>,
    y: Rows<f32>,
}

impl<W: Float> Product<W> {
    /// Columns of `b` are runs of elements: dot products, of one, two or four rows and `C1`, `C2` or `C4` columns.
    #[inline(always)]
    unsafe fn dots<L: Level, const C1: usize, const C2: usize, const C4: usize>(&self, columns: Range<usize>) {
        let mut j = columns.start;
        // SAFETY: the columns exist.
        unsafe {
            while j + STREAMS <= columns.end {
                let mut r = 0;
                while r + 4 <= self.n {
                    self.dots_of_columns::<L, 4, C4>(r, j);
                    r += 4;
                }
                if r + 2 <= self.n {
                    self.dots_of_columns::<L, 2, C2>(r, j);
                    r += 2;
                }
                if r < self.n {
                    self.dots_of_columns::<L, 1, C1>(r, j);
                }
                j += STREAMS;
            }
            while j < columns.end {
                for r in 0..self.n {
                    self.dots_of_block::<L, 1, 1, false>(r, j);
                }
                j += 1;
            }
        }
    }

    /// `R` rows from `r` on of `STREAMS` columns, `C` at a time.
    #[inline(always)]
    unsafe fn dots_of_columns<L: Level, const R: usize, const C: usize>(&self, r: usize, j: usize) {
        for j in (j..j + STREAMS).step_by(C) {
            // SAFETY: the columns exist.
            unsafe {
                if r == 0 {
                    self.dots_of_block::<L, R, C, true>(r, j);
                } else {
                    self.dots_of_block::<L, R, C, false>(r, j);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn dots_of_block<L: Level, const R: usize, const C: usize, const PREFETCH: bool>(&self, r: usize, j: usize) {
        let mut sums = [[[0f32; LANES]; R]; C];
        let x = |i: usize, p: usize| self.x.at(r + i).wrapping_add(p).cast_const();
        let b = |i: usize, p: usize| self.b.element(p, j + i).cast_const();
        let mut p = 0;
        // SAFETY: the rows and columns have `k` elements.
        unsafe {
            while p + LANES <= self.k {
                let xs: [[f32; LANES]; R] = std::array::from_fn(|i| x(i, p).cast::<[f32; LANES]>().read_unaligned());
                for c in 0..C {
                    if PREFETCH {
                        prefetch(self.b.element(p, j + c + STREAMS).cast_const().cast());
                    }
                    let w = b(c, p).cast::<[W; LANES]>().read_unaligned();
                    add::<L, W, R>(&xs, &w, &mut sums[c]);
                }
                p += LANES;
            }
            if p < self.k {
                let xs: [[f32; LANES]; R] = std::array::from_fn(|i| padded(x(i, p), self.k - p));
                for c in 0..C {
                    let w = padded(b(c, p), self.k - p);
                    add::<L, W, R>(&xs, &w, &mut sums[c]);
                }
            }
            for i in 0..R {
                for c in 0..C {
                    *self.y.element(r + i, j + c) = total(&sums[c][i]);
                }
            }
        }
    }

    /// Rows of `b` are runs of elements: sums of their multiples, for `DEPTH` rows after the others.
    #[inline(always)]
    unsafe fn sums<L: Level>(&self, columns: Range<usize>) {
        // SAFETY: the rows and columns exist.
        unsafe {
            for r in 0..self.n {
                self.y.element(r, columns.start).write_bytes(0, columns.len());
            }
            let mut p = 0;
            while p + DEPTH <= self.k {
                self.add_rows::<L, DEPTH>(p, &columns);
                p += DEPTH;
            }
            while p < self.k {
                self.add_rows::<L, 1>(p, &columns);
                p += 1;
            }
        }
    }

    /// Adds multiples of `D` rows of `b` from `p` on.
    #[inline(always)]
    unsafe fn add_rows<L: Level, const D: usize>(&self, p: usize, columns: &Range<usize>) {
        let mut j = columns.start;
        // SAFETY: the rows and columns exist.
        unsafe {
            while j + WIDTH <= columns.end {
                let ahead = match columns.end - j {
                    left if left > AHEAD => self.b.element(p, j + AHEAD),
                    left => self.b.element(p + D, columns.start + (AHEAD - left)),
                };
                self.add_rows_of::<L, D, WIDTH, true>(0, p, j, ahead);
                for r in 1..self.n {
                    self.add_rows_of::<L, D, WIDTH, false>(r, p, j, ahead);
                }
                j += WIDTH;
            }
            while j < columns.end {
                let next = self.b.element(p + D, j);
                if j + LANES <= columns.end {
                    (0..self.n).for_each(|r| self.add_rows_of::<L, D, LANES, false>(r, p, j, next));
                    j += LANES;
                } else {
                    (0..self.n).for_each(|r| self.add_rows_of::<L, D, 1, false>(r, p, j, next));
                    j += 1;
                }
            }
        }
    }

    /// Adds the products of `D` elements of row `r` and `D` rows of `b` to `C` columns of the result; asks for the
    /// elements `ahead`, of as many rows and columns.
    #[inline(always)]
    unsafe fn add_rows_of<L: Level, const D: usize, const C: usize, const PREFETCH: bool>(
        &self,
        r: usize,
        p: usize,
        j: usize,
        ahead: *const W,
    ) {
        // SAFETY: the rows and columns exist.
        unsafe {
            let to = self.y.element(r, j).cast::<[f32; C]>();
            let mut sums = to.read_unaligned();
            for d in 0..D {
                if PREFETCH {
                    for c in (0..C).step_by(LINE / size_of::<W>()) {
                        prefetch(ahead.wrapping_add(d * self.b.row + c).cast());
                    }
                }
                let w = self.b.element(p + d, j).cast::<[W; C]>().read_unaligned();
                let x = *self.x.element(r, p + d);
                for c in 0..C {
                    sums[c] = fma::<L>(x, w[c].wide(), sums[c]);
                }
            }
            to.write_unaligned(sums);
        }
    }
}

/// Adds the products of `R` rows and a column.
#[inline(always)]
fn add<L: Level, W: Float, const R: usize>(x: &[[f32; LANES]; R], w: &[W; LANES], sums: &mut [[f32; LANES]; R]) {
    for r in 0..R {
        for l in 0..LANES {
            sums[r][l] = fma::<L>(x[r][l], w[l].wide(), sums[r][l]);
        }
    }
}

/// The first `len` lanes; zeros after them.
#[inline(always)]
unsafe fn padded<T: Element>(x: *const T, len: usize) -> [T; LANES] {
    let mut lanes = [T::default(); LANES];
    // SAFETY: the caller's elements exist, and are fewer than lanes.
    unsafe { lanes.as_mut_ptr().copy_from_nonoverlapping(x, len) };
    lanes
}

/// The sum of the lanes, in a fixed tree.
#[inline(always)]
fn total(lanes: &[f32; LANES]) -> f32 {
    let (mut eight, mut four) = ([0.0; 8], [0.0; 4]);
    for l in 0..8 {
        eight[l] = lanes[l] + lanes[l + 8];
    }
    for l in 0..4 {
        four[l] = eight[l] + eight[l + 4];
    }
    (four[0] + four[2]) + (four[1] + four[3])
}

/// The kernel of [`ops::MatMul`] for a few rows and a shared matrix of elements `W`.
pub(crate) fn few_rows_kernel<W: Float>(op: &ops::MatMul, types: &Types<'_>) -> RowKernel {
    /// Elements of a matrix that are worth a task.
    const LEAST: usize = 1 << 15;
    let (_, k, _) = op.sizes(&types.inputs[0], &types.inputs[1]);
    let transposed = op.transpose_b;
    // The longer the parts of rows are that a thread reads, the sooner they are read.
    let parts = if transposed { 4 } else { 1 };
    let width = LEAST.div_ceil(k).next_multiple_of(WIDTH);
    RowKernel::even(parts, width, move |r| {
        let b = r.inputs[1].rows_or_columns::<W>();
        let b = if transposed { b.exchanged() } else { b };
        // SAFETY: see `Run`; the columns are within the columns of `b` and `y`.
        unsafe { few_rows(r.n, k, r.columns.0..r.columns.1, r.inputs[0].runs(), b, r.y(0)) }
    })
    // All rows at once, so that the matrix is read once.
    .tiled()
    .reading(0, Reads::Runs)
    .reading(1, Reads::RowsOrColumns)
}
