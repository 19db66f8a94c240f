//! Blocks of a product at its corners, which may have fewer than 32 rows and columns.

use super::number::Number;
use super::tiles::Tiles;
use super::{PANEL, STRIP};

impl Tiles {
    /// The product of up to 32 rows and 32 columns. Its first `rows` rows and `columns` columns are stored, in any
    /// strides.
    ///
    /// # Safety
    /// As for [`Tiles::two_strips`]; where there are at most 16 rows, the second strip is not read.
    pub(crate) unsafe fn block<N: Number>(
        &self,
        steps: usize,
        a: [*const u8; 2],
        b: *const u8,
        c: &Corner,
        accumulate: bool,
    ) {
        let whole = c.columns == PANEL && c.col == 1;
        // SAFETY: passed on; a corner that is not whole goes through a block of its own.
        unsafe {
            if whole && c.rows == 2 * STRIP {
                return N::two_strips(self, steps, a, b, (c.ptr, c.row), accumulate);
            }
            if whole && c.rows == STRIP {
                return N::one_strip(self, steps, a[0], b, (c.ptr, c.row), accumulate);
            }
            let mut block = [0f32; 2 * STRIP * PANEL];
            let at = (block.as_mut_ptr(), PANEL);
            if accumulate {
                c.each(|i, element| block[i] = *element);
            }
            if c.rows > STRIP {
                N::two_strips(self, steps, a, b, at, accumulate);
            } else {
                N::one_strip(self, steps, a[0], b, at, accumulate);
            }
            c.each(|i, element| *element = block[i]);
        }
    }
}

/// Where a block of a product lies.
pub(crate) struct Corner {
    pub(crate) ptr: *mut f32,
    /// Elements from row to row, and from column to column.
    pub(crate) row: usize,
    pub(crate) col: usize,
    /// At most 32 of either.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Corner {
    /// Calls `f` with each element, and its position in a dense block of 32 columns.
    ///
    /// # Safety
    /// The elements exist, and nobody else accesses them.
    unsafe fn each(&self, mut f: impl FnMut(usize, &mut f32)) {
        for i in 0..self.rows {
            for j in 0..self.columns {
                // SAFETY: the caller's promise.
                f(i * PANEL + j, unsafe {
                    &mut *self.ptr.add(i * self.row + j * self.col)
                });
            }
        }
    }
}
