//! The factors of a product of codes of 8 and of 4 bits, and the levels of its rows.

use crate::kernels::rows::Rows;

/// Elements of a block, lanes of it, and elements of a lane.
pub(crate) const BLOCK: usize = 64;
pub(crate) const LANES: usize = 16;
pub(crate) const WORD: usize = BLOCK / LANES;

/// The codes of zero of rows and of the matrix.
pub(crate) const ZEROS: [i32; 2] = [128, 8];

/// Rows whose levels are copied at a time.
pub(crate) const ROWS: usize = 16;

/// The factors of a product.
#[derive(Clone, Copy)]
pub struct Nibbles {
    /// Elements of a row.
    pub k: usize,
    /// Elements of a group.
    pub group: usize,
    /// Rows of codes, each a run of elements.
    pub codes: Rows<u8>,
    /// A scale for each of these rows.
    pub scale: Rows<f32>,
    /// A run of bytes for each column of the product.
    pub weight: *const u8,
    /// A run of scales for each column of the product.
    pub weight_scale: *const f32,
}

/// Levels of some rows, block after block: numbers from -127 to 127, and for each lane what its sum begins with, -8
/// times the sum of its levels.
#[derive(Clone, Copy)]
pub(crate) struct Levels {
    pub(crate) levels: *mut i8,
    pub(crate) begin: *mut i32,
    pub(crate) blocks: usize,
}

/// Bytes of scratch for rows of `k` codes.
pub fn scratch_bytes(k: usize) -> usize {
    ROWS * k.div_ceil(BLOCK) * (BLOCK + LANES * size_of::<i32>())
}

impl Levels {
    /// Levels in this scratch.
    pub(crate) fn new(k: usize, scratch: *mut u8) -> Levels {
        let blocks = k.div_ceil(BLOCK);
        Levels {
            begin: scratch.cast(),
            levels: scratch.wrapping_add(ROWS * blocks * LANES * size_of::<i32>()).cast(),
            blocks,
        }
    }

    /// Copies a row of `k` codes; levels beyond them are zeros.
    ///
    /// # Safety
    /// There are the codes, and the scratch has room for the row.
    pub(crate) unsafe fn copy(&self, r: usize, k: usize, codes: *const u8) {
        // SAFETY: passed on.
        unsafe {
            let to = self.levels.add(r * self.blocks * BLOCK);
            for i in 0..self.blocks * BLOCK {
                let level = if i < k { i32::from(*codes.add(i)) - ZEROS[0] } else { 0 };
                to.add(i).write(level as i8);
            }
            for lane in 0..self.blocks * LANES {
                let sum: i32 = (0..WORD).map(|i| i32::from(*to.add(lane * WORD + i))).sum();
                self.begin.add(r * self.blocks * LANES + lane).write(-ZEROS[1] * sum);
            }
        }
    }
}

impl Nibbles {
    /// The bytes of a column, and its scales.
    ///
    /// # Safety
    /// There is the column.
    pub(crate) unsafe fn column(&self, j: usize) -> (*const u8, *const f32) {
        let bytes = self.k.div_ceil(BLOCK) * (BLOCK / 2);
        // SAFETY: passed on.
        unsafe {
            (
                self.weight.add(j * bytes),
                self.weight_scale.add(j * self.k.div_ceil(self.group)),
            )
        }
    }
}

/// The sum of lanes, in a fixed tree.
pub(crate) fn total(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}
