//! Small matrix products whose result stays in registers while the sum runs: `C = A B` for a block of `C` of a few rows
//! and a few vector registers.
//!
//! `A` is read element by element, so that neither it nor its transpose is ever packed; rows of `B` and `C` are runs of
//! elements. Every element is one sum in the order of `k`, and its old value is added last, so bits
//! depend neither on the blocks nor, with a fused multiply-add, on the CPU level.

use crate::simd::{Level, dispatch, fma};

/// Rows of `B` and `C` have a multiple of this many elements.
pub(super) const PANEL: usize = 32;

/// Products have a multiple of this many columns.
pub(super) const LEAST: usize = 16;

/// Elements of a row of at least `c` in an operand.
pub(super) fn wide(c: usize) -> usize {
    c.next_multiple_of(PANEL)
}

/// A factor that is read element by element: rows of elements side by side, or columns.
#[derive(Clone, Copy)]
pub(super) enum Left {
    Rows { ptr: *const f32, row: usize },
    Columns { ptr: *const f32, column: usize },
}

/// Rows of elements side by side, `row` elements from one to the next.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) ptr: *mut f32,
    pub(super) row: usize,
}

impl Panel {
    #[inline(always)]
    pub(super) fn at(self, row: usize) -> Panel {
        Panel {
            ptr: self.ptr.wrapping_add(row * self.row),
            row: self.row,
        }
    }
}

dispatch! {
    /// `c = a b`, or `c += a b` when accumulating, for `m x k` elements of `a`, `k x n` of `b` and `m x n` of `c`; `n`
    /// is a multiple of [`LEAST`].
    ///
    /// # Safety
    /// The operands cover these elements, and `c` overlaps nothing.
    pub(super) unsafe fn product(
        m: usize, k: usize, n: usize, a: Left, b: Panel, c: Panel, accumulate: bool,
    ) = product_body;
}

/// Steps of the sum that are unrolled where rows of `A` are read.
const UNROLLED: usize = 4;

#[inline(always)]
unsafe fn product_body<L: Level>(m: usize, k: usize, n: usize, a: Left, b: Panel, c: Panel, accumulate: bool) {
    let product = |a: *const f32, stride: usize| Product {
        m,
        k,
        a,
        stride,
        b,
        c,
        accumulate,
    };
    // SAFETY: passed on.
    unsafe {
        match a {
            Left::Rows { ptr, row } => all_columns::<L, true>(n, product(ptr, row)),
            Left::Columns { ptr, column } => all_columns::<L, false>(n, product(ptr, column)),
        }
    }
}

#[inline(always)]
unsafe fn all_columns<L: Level, const ROWS: bool>(n: usize, product: Product) {
    let mut j = 0;
    while j < n {
        let shift = |x: Panel| Panel {
            ptr: x.ptr.wrapping_add(j),
            ..x
        };
        let columns = Product {
            b: shift(product.b),
            c: shift(product.c),
            ..product
        };
        // SAFETY: the columns lie within the operands. As many rows as registers hold, and the rest in halves.
        unsafe {
            j += match L::REGISTER {
                16 if n - j >= 64 => {
                    let i = columns.rows::<L, ROWS, 64, 6>(0);
                    let i = columns.rows::<L, ROWS, 64, 4>(i);
                    let i = columns.rows::<L, ROWS, 64, 2>(i);
                    columns.rows::<L, ROWS, 64, 1>(i);
                    64
                }
                16 if n - j < 32 => {
                    let i = columns.rows::<L, ROWS, 16, 8>(0);
                    let i = columns.rows::<L, ROWS, 16, 4>(i);
                    columns.rows::<L, ROWS, 16, 1>(i);
                    16
                }
                16 => {
                    let i = columns.rows::<L, ROWS, 32, 12>(0);
                    let i = columns.rows::<L, ROWS, 32, 8>(i);
                    let i = columns.rows::<L, ROWS, 32, 4>(i);
                    let i = columns.rows::<L, ROWS, 32, 2>(i);
                    columns.rows::<L, ROWS, 32, 1>(i);
                    32
                }
                8 => {
                    let i = columns.rows::<L, ROWS, 16, 6>(0);
                    let i = columns.rows::<L, ROWS, 16, 4>(i);
                    let i = columns.rows::<L, ROWS, 16, 2>(i);
                    columns.rows::<L, ROWS, 16, 1>(i);
                    16
                }
                _ => {
                    let i = columns.rows::<L, ROWS, 8, 6>(0);
                    let i = columns.rows::<L, ROWS, 8, 4>(i);
                    let i = columns.rows::<L, ROWS, 8, 2>(i);
                    columns.rows::<L, ROWS, 8, 1>(i);
                    8
                }
            };
        }
    }
}

/// A product of some columns.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    k: usize,
    a: *const f32,
    /// Elements from one row, or column, of `a` to the next.
    stride: usize,
    b: Panel,
    c: Panel,
    accumulate: bool,
}

impl Product {
    /// Computes `W` columns of rows from `i` on, `R` at a time; returns the first row that is left.
    #[inline(always)]
    unsafe fn rows<L: Level, const ROWS: bool, const W: usize, const R: usize>(&self, mut i: usize) -> usize {
        while i + R <= self.m {
            // SAFETY: rows i..i+R exist.
            unsafe { self.block::<L, ROWS, W, R>(i) };
            i += R;
        }
        i
    }

    #[inline(always)]
    unsafe fn block<L: Level, const ROWS: bool, const W: usize, const R: usize>(&self, i: usize) {
        let mut sums = [[0.0; W]; R];
        // SAFETY: the caller's promise covers R rows of `a` and `c`, and `k` rows of `b`.
        unsafe {
            let mut p = 0;
            if ROWS {
                while p + UNROLLED <= self.k {
                    for u in 0..UNROLLED {
                        self.step::<L, ROWS, W, R>(i, p + u, &mut sums);
                    }
                    p += UNROLLED;
                }
            }
            while p < self.k {
                self.step::<L, ROWS, W, R>(i, p, &mut sums);
                p += 1;
            }
            for r in 0..R {
                let to = self.c.at(i + r).ptr.cast::<[f32; W]>();
                if self.accumulate {
                    let before = to.read_unaligned();
                    for l in 0..W {
                        sums[r][l] += before[l];
                    }
                }
                to.write_unaligned(sums[r]);
            }
        }
    }

    /// Adds one step of the sum.
    #[inline(always)]
    unsafe fn step<L: Level, const ROWS: bool, const W: usize, const R: usize>(
        &self,
        i: usize,
        p: usize,
        sums: &mut [[f32; W]; R],
    ) {
        let (row, column) = if ROWS { (self.stride, 1) } else { (1, self.stride) };
        // SAFETY: as above.
        unsafe {
            let y = self.b.at(p).ptr.cast::<[f32; W]>().read_unaligned();
            for r in 0..R {
                let x = *self.a.wrapping_add((i + r) * row + p * column);
                for l in 0..W {
                    sums[r][l] = fma::<L>(x, y[l], sums[r][l]);
                }
            }
        }
    }
}
