//! Blocks of queries in lanes: elements of `W` queries side by side, one row for each coordinate of a vector.

use super::super::rows::Rows;
use super::head::Block;
use super::product::Panel;

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

/// Writes `c` rows of `W` lanes: row `j` holds `scale` times element `j` of the block's rows of `x`, zeros in the lanes
/// behind the block.
#[inline(always)]
pub(super) unsafe fn to_lanes<const W: usize>(block: Block, c: usize, scale: f32, x: Rows<f32>, to: *mut f32) {
    let x = x.from(block.first);
    // SAFETY: the rows exist, and `to` has `c` rows of `W` elements.
    unsafe {
        if x.col == 1 && block.n == W {
            for j in 0..c {
                let mut row = [0.0; W];
                for i in 0..W {
                    row[i] = scale * *x.ptr.wrapping_add(i * x.row + j);
                }
                store(to.add(j * W), row);
            }
            return;
        }
        for j in 0..c {
            let mut row = [0.0; W];
            for i in 0..block.n {
                row[i] = scale * *x.element(i, j);
            }
            store(to.add(j * W), row);
        }
    }
}

/// The reverse of [`to_lanes`]: writes element `j` of the block's rows of `y`, `factors` times the lanes of row `j`.
#[inline(always)]
pub(super) unsafe fn from_lanes<const W: usize>(
    block: Block,
    c: usize,
    factors: &[f32; W],
    from: *const f32,
    y: Rows<f32>,
) {
    let y = y.from(block.first);
    // SAFETY: the rows exist, and `from` has `c` rows of `W` elements.
    unsafe {
        for i in 0..block.n {
            for j in 0..c {
                *y.element(i, j) = factors[i] * *from.add(j * W + i);
            }
        }
    }
}

/// Writes `W` rows of `c` elements and zeros: `factors` times the block's rows of `x`, zeros in the rows behind the block.
#[inline(always)]
pub(super) unsafe fn to_rows<const W: usize>(block: Block, c: usize, factors: &[f32; W], x: Rows<f32>, to: Panel) {
    for i in 0..W {
        let (x, y) = (x.from(block.first + i), to.at(i).ptr);
        // SAFETY: the rows exist.
        unsafe {
            if i >= block.n {
                y.write_bytes(0, to.row);
                continue;
            }
            for j in 0..c {
                *y.add(j) = factors[i] * *x.element(0, j);
            }
            y.add(c).write_bytes(0, to.row - c);
        }
    }
}
