//! Blocks of queries: in rows, and in lanes, where `W` queries lie side by side in one row for each coordinate.

use super::super::rows::Rows;
use super::head::Block;
use super::product::Panel;
use crate::simd::{self, LANES, chunks};

/// `W` elements.
#[inline(always)]
pub(super) unsafe fn load<const W: usize>(x: *const f32) -> [f32; W] {
    // SAFETY: the caller's elements exist.
    unsafe { x.cast::<[f32; W]>().read_unaligned() }
}

/// Stores `W` elements.
#[inline(always)]
pub(super) unsafe fn store<const W: usize>(x: *mut f32, lanes: [f32; W]) {
    // SAFETY: the caller's elements exist.
    unsafe { x.cast::<[f32; W]>().write_unaligned(lanes) }
}

/// Some of the lanes, from `first` on.
#[inline(always)]
pub(super) fn part_of<const W: usize, const P: usize>(lanes: &[f32; W], first: usize) -> [f32; P] {
    let mut part = [0.0; P];
    part.copy_from_slice(&lanes[first..first + P]);
    part
}

/// Writes a row: `factor` times the `c` elements of the first row of `x`, then zeros.
#[inline(always)]
pub(super) unsafe fn copy_row(c: usize, factor: f32, x: Rows<f32>, to: Panel) {
    chunks!(c, |j, len| {
        // SAFETY: the row exists.
        unsafe {
            let at = x.element(0, j) as *const f32;
            let mut lanes = match x.col {
                1 => simd::load(at, 1, len, 0.0),
                col => simd::load(at, col, len, 0.0),
            };
            for i in 0..LANES {
                lanes[i] *= factor;
            }
            simd::store(to.ptr.add(j), 1, len, &lanes);
        }
    });
    for j in c..to.row {
        // SAFETY: the row has this many elements.
        unsafe { *to.ptr.add(j) = 0.0 };
    }
}

/// Writes `W` rows: `factors` times the block's rows of `x`, zeros in the rows behind the block.
#[inline(always)]
pub(super) unsafe fn to_rows<const W: usize>(block: Block, c: usize, factors: &[f32; W], x: Rows<f32>, to: Panel) {
    for i in 0..W {
        // SAFETY: the rows exist.
        unsafe {
            if i < block.n {
                copy_row(c, factors[i], x.from(block.first + i), to.at(i));
            } else {
                to.at(i).ptr.write_bytes(0, to.row);
            }
        }
    }
}

/// Writes element `j` of each of `W` rows of `c` elements side by side, for all `j`.
#[inline(always)]
pub(super) unsafe fn to_lanes<const W: usize>(c: usize, rows: Panel, to: *mut f32) {
    let mut j = 0;
    while j < c {
        for i in (0..W).step_by(4) {
            // SAFETY: rows are a multiple of four elements wide; what is behind column `c` is not written.
            unsafe {
                let part = |r: usize| rows.at(i + r).ptr.add(j).cast::<[f32; 4]>().read_unaligned();
                let [a, b, c0, d] = [part(0), part(1), part(2), part(3)];
                for l in 0..4 {
                    if j + l < c {
                        to.add((j + l) * W + i)
                            .cast::<[f32; 4]>()
                            .write_unaligned([a[l], b[l], c0[l], d[l]]);
                    }
                }
            }
        }
        j += 4;
    }
}

/// Writes the block's rows of `y`: `factors` times the rows of a panel.
#[inline(always)]
pub(super) unsafe fn from_rows<const W: usize>(block: Block, c: usize, factors: &[f32; W], from: Panel, y: Rows<f32>) {
    for i in 0..block.n {
        let (row, to) = (from.at(i).ptr, y.from(block.first + i));
        chunks!(c, |j, len| {
            // SAFETY: the rows exist.
            unsafe {
                let mut lanes = simd::load(row.add(j) as *const f32, 1, len, 0.0);
                for l in 0..LANES {
                    lanes[l] *= factors[i];
                }
                let at = to.element(0, j);
                match y.col {
                    1 => simd::store(at, 1, len, &lanes),
                    col => simd::store(at, col, len, &lanes),
                }
            }
        });
    }
}

/// Multiplies rows of a panel by factors.
#[inline(always)]
pub(super) unsafe fn scale_rows<const W: usize>(factors: &[f32; W], rows: Panel) {
    for i in 0..W {
        if factors[i] == 1.0 {
            continue;
        }
        chunks!(rows.row, |j, len| {
            // SAFETY: the row exists.
            unsafe {
                let at = rows.at(i).ptr.add(j);
                let mut lanes = simd::load(at as *const f32, 1, len, 0.0);
                for l in 0..LANES {
                    lanes[l] *= factors[i];
                }
                simd::store(at, 1, len, &lanes);
            }
        });
    }
}
