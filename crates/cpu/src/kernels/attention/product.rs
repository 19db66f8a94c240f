//! Small matrix products whose result stays in registers while the sum runs: `C = A B` for a block of `C` of a few rows
//! and a few vector registers.
//!
//! `A` is read element by element with any strides, so that neither it nor its transpose is ever packed; rows of `B` and
//! `C` are runs of elements. Every element is one sum in the order of `k`, to which what was there is added last, so bits
//! depend neither on the blocks nor, with a fused multiply-add, on the CPU level.

use crate::simd::{Level, dispatch, fma};

/// Rows of `B` and `C` have a multiple of this many elements.
pub(super) const PANEL: usize = 32;

/// Elements of a row of at least `c` in an operand.
pub(super) fn wide(c: usize) -> usize {
    c.next_multiple_of(PANEL)
}

/// A factor that is read element by element: element `(i, p)` lies `i * row + p * col` elements from the first.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) ptr: *const f32,
    pub(super) row: usize,
    pub(super) col: usize,
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
    /// `c = a b`, or `c += a b` when accumulating, for `m x k` elements of `a`, `k x n` of `b` and `m x n` of `c`; `n` is a
    /// multiple of [`PANEL`].
    ///
    /// # Safety
    /// The operands cover these elements, and `c` overlaps nothing.
    pub(super) unsafe fn product(
        m: usize, k: usize, n: usize, a: Left, b: Panel, c: Panel, accumulate: bool,
    ) = product_body;
}

#[inline(always)]
unsafe fn product_body<L: Level>(m: usize, k: usize, n: usize, a: Left, b: Panel, c: Panel, accumulate: bool) {
    let mut j = 0;
    while j < n {
        let shift = |x: Panel| Panel {
            ptr: x.ptr.wrapping_add(j),
            ..x
        };
        let columns = Columns {
            m,
            k,
            a,
            b: shift(b),
            c: shift(c),
            accumulate,
        };
        // SAFETY: the columns lie within the operands. As many rows as registers hold, and the rest in halves.
        unsafe {
            j += match L::REGISTER {
                16 if n - j >= 64 => {
                    let i = columns.rows::<L, 64, 6>(0);
                    let i = columns.rows::<L, 64, 4>(i);
                    let i = columns.rows::<L, 64, 2>(i);
                    columns.rows::<L, 64, 1>(i);
                    64
                }
                16 => {
                    let i = columns.rows::<L, 32, 12>(0);
                    let i = columns.rows::<L, 32, 8>(i);
                    let i = columns.rows::<L, 32, 4>(i);
                    let i = columns.rows::<L, 32, 2>(i);
                    columns.rows::<L, 32, 1>(i);
                    32
                }
                8 => {
                    let i = columns.rows::<L, 16, 6>(0);
                    let i = columns.rows::<L, 16, 4>(i);
                    let i = columns.rows::<L, 16, 2>(i);
                    columns.rows::<L, 16, 1>(i);
                    16
                }
                _ => {
                    let i = columns.rows::<L, 8, 6>(0);
                    let i = columns.rows::<L, 8, 4>(i);
                    let i = columns.rows::<L, 8, 2>(i);
                    columns.rows::<L, 8, 1>(i);
                    8
                }
            };
        }
    }
}

/// A product of some columns.
struct Columns {
    m: usize,
    k: usize,
    a: Left,
    b: Panel,
    c: Panel,
    accumulate: bool,
}

impl Columns {
    /// Computes `W` columns of rows from `i` on, `R` at a time; returns the first row that is left.
    #[inline(always)]
    unsafe fn rows<L: Level, const W: usize, const R: usize>(&self, mut i: usize) -> usize {
        while i + R <= self.m {
            // SAFETY: rows i..i+R exist.
            unsafe { self.block::<L, W, R>(i) };
            i += R;
        }
        i
    }

    #[inline(always)]
    unsafe fn block<L: Level, const W: usize, const R: usize>(&self, i: usize) {
        let Columns { k, a, b, c, .. } = *self;
        let mut sums = [[0.0; W]; R];
        // SAFETY: the caller's promise covers R rows of `a` and `c`, and `k` rows of `b`.
        unsafe {
            let first = a.ptr.wrapping_add(i * a.row);
            for p in 0..k {
                let y = b.at(p).ptr.cast::<[f32; W]>().read_unaligned();
                for r in 0..R {
                    let x = *first.wrapping_add(r * a.row + p * a.col);
                    for l in 0..W {
                        sums[r][l] = fma::<L>(x, y[l], sums[r][l]);
                    }
                }
            }
            for r in 0..R {
                let to = c.at(i + r).ptr.cast::<[f32; W]>();
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::CpuLevel;

    #[test]
    #[ignore]
    fn speed() {
        for level in [CpuLevel::Baseline, CpuLevel::V3, CpuLevel::V4] {
            level.on_this_thread(|| {
                for (n, t) in [(64, false), (64, true), (32, false), (32, true)] {
                    let (m, k) = (64usize, 64usize);
                    let mut x = vec![1e-3f32; 3 * 64 * 64 + 16];
                    let base = x.as_mut_ptr().wrapping_add(x.as_ptr().align_offset(64));
                    let a = Left {
                        ptr: base,
                        row: if t { 1 } else { 64 },
                        col: if t { 64 } else { 1 },
                    };
                    let b = Panel {
                        ptr: base.wrapping_add(4096),
                        row: n,
                    };
                    let c = Panel {
                        ptr: base.wrapping_add(8192),
                        row: n,
                    };
                    let mut best = f64::MAX;
                    for _ in 0..30 {
                        let start = std::time::Instant::now();
                        for _ in 0..500 {
                            unsafe { product(m, k, n, a, b, c, t) };
                        }
                        best = best.min(start.elapsed().as_secs_f64() / 500.0);
                    }
                    println!(
                        "{level:?} n {n} transposed {t}: {:.1} GFLOP/s",
                        2e-9 * (m * k * n) as f64 / best
                    );
                }
            });
        }
    }
}
