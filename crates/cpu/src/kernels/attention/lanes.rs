//! Blocks of queries: in rows, and in lanes, where `W` queries lie side by side in one row for each coordinate.

use super::super::rows::Rows;
use super::product::Panel;
use super::query_block::QueryBlock;
use crate::simd::LANES;

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

/// Repeats the lanes of one row of `W` lanes over a chunk of such rows.
#[inline(always)]
pub(super) fn repeated<const W: usize>(lanes: &[f32; W]) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    for rows in all.chunks_exact_mut(W) {
        rows.copy_from_slice(lanes);
    }
    all
}

/// Some of the lanes, from `first` on.
#[inline(always)]
pub(super) fn part_of<const W: usize, const P: usize>(lanes: &[f32; W], first: usize) -> [f32; P] {
    let mut part = [0.0; P];
    part.copy_from_slice(&lanes[first..first + P]);
    part
}

/// Elements that rows are copied by; rows of heads are short.
const PIECE: usize = 16;

/// Writes `factor` times `c` elements that lie `x.1` apart side by side.
#[inline(always)]
pub(super) unsafe fn scale_row(c: usize, factor: f32, x: (*const f32, usize), to: *mut f32) {
    let (from, step) = x;
    let mut j = 0;
    // SAFETY: the elements exist.
    unsafe {
        while step == 1 && j + PIECE <= c {
            let mut piece = load::<PIECE>(from.add(j));
            for i in 0..PIECE {
                piece[i] *= factor;
            }
            store(to.add(j), piece);
            j += PIECE;
        }
        while j < c {
            *to.add(j) = *from.add(j * step) * factor;
            j += 1;
        }
    }
}

/// Writes zeros to elements `from..to`.
#[inline(always)]
unsafe fn zero(x: *mut f32, from: usize, to: usize) {
    let mut j = from;
    // SAFETY: the elements exist.
    unsafe {
        while j + PIECE <= to {
            store(x.add(j), [0.0; PIECE]);
            j += PIECE;
        }
        while j < to {
            *x.add(j) = 0.0;
            j += 1;
        }
    }
}

/// Writes a row: `factor` times the `c` elements of the first row of `x`, then zeros.
#[inline(always)]
pub(super) unsafe fn copy_row(c: usize, factor: f32, x: Rows<f32>, to: Panel) {
    // SAFETY: the rows exist.
    unsafe {
        let from = x.at(0) as *const f32;
        match x.col {
            1 => scale_row(c, factor, (from, 1), to.ptr),
            col => scale_row(c, factor, (from, col), to.ptr),
        }
        zero(to.ptr, c, to.row);
    }
}

/// Writes `W` rows: `factors` times the block's rows of `x`, zeros in the rows after the block.
#[inline(always)]
pub(super) unsafe fn to_rows<const W: usize>(block: QueryBlock, c: usize, factors: &[f32; W], x: Rows<f32>, to: Panel) {
    for i in 0..W {
        // SAFETY: the rows exist.
        unsafe {
            if i < block.n {
                copy_row(c, factors[i], x.from(block.first + i), to.at(i));
            } else {
                zero(to.at(i).ptr, 0, to.row);
            }
        }
    }
}

/// Writes element `j` of each of `W` rows of `c` elements side by side, for all `j`.
#[inline(always)]
pub(super) unsafe fn to_lanes<const W: usize>(c: usize, rows: Panel, to: *mut f32) {
    for i in (0..W).step_by(4) {
        let mut j = 0;
        // SAFETY: the elements exist.
        unsafe {
            while j + 4 <= c {
                let part = |r: usize| load::<4>(rows.at(i + r).ptr.add(j));
                let parts = [part(0), part(1), part(2), part(3)];
                for l in 0..4 {
                    store(to.add((j + l) * W + i), parts.map(|part| part[l]));
                }
                j += 4;
            }
            while j < c {
                store(to.add(j * W + i), [0, 1, 2, 3].map(|r| *rows.at(i + r).ptr.add(j)));
                j += 1;
            }
        }
    }
}

/// Writes the block's rows of `y`: `factors` times the rows of a panel.
#[inline(always)]
pub(super) unsafe fn from_rows<const W: usize>(
    block: QueryBlock,
    c: usize,
    factors: &[f32; W],
    from: Panel,
    y: Rows<f32>,
) {
    for i in 0..block.n {
        // SAFETY: the rows exist.
        unsafe {
            let (row, to) = (from.at(i).ptr as *const f32, y.at(block.first + i));
            if y.col == 1 {
                scale_row(c, factors[i], (row, 1), to);
            } else {
                for j in 0..c {
                    *to.add(j * y.col) = *row.add(j) * factors[i];
                }
            }
        }
    }
}

/// Multiplies rows of a panel by factors.
#[inline(always)]
pub(super) unsafe fn scale_rows<const W: usize>(factors: &[f32; W], rows: Panel) {
    for i in 0..W {
        if factors[i] != 1.0 {
            let row = rows.at(i).ptr;
            // SAFETY: the row exists.
            unsafe { scale_row(rows.row, factors[i], (row as *const f32, 1), row) };
        }
    }
}
