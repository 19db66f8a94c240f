//! A right factor that is packed once and multiplied with many blocks of dense rows, as a convolution's weight
//! with patches.

use super::block::{Factor, Packed, Product, multiply};
use super::number::Number;
use super::tiles::Tiles;
use super::{PANEL, STEP, STRIP, is_used};

/// A factor of `k` by `columns`.
#[derive(Clone, Copy)]
pub(crate) struct Right {
    k: usize,
    columns: usize,
    strip_bytes: usize,
    panel_bytes: usize,
}

impl Right {
    /// A factor of `k` rows and `columns` columns, of numbers `N`; the same type of number is packed and multiplied.
    pub(crate) fn new<N: Number>(k: usize, columns: usize) -> Right {
        Right {
            k,
            columns,
            strip_bytes: k.div_ceil(STEP) * N::STRIP_BYTES,
            panel_bytes: k.div_ceil(STEP) * N::PANEL_BYTES,
        }
    }

    /// Whether products with it are computed here; `scratch` and `bytes` are the same on every machine.
    pub(crate) fn is_used() -> bool {
        is_used()
    }

    fn steps(&self) -> usize {
        self.k.div_ceil(STEP)
    }

    fn panels(&self) -> usize {
        self.columns.div_ceil(PANEL)
    }

    /// Bytes before the panels: one for each says whether it is finite.
    fn flags(&self) -> usize {
        self.panels().next_multiple_of(64)
    }

    /// Bytes of the packed factor.
    pub(crate) fn bytes(&self) -> usize {
        self.flags() + self.panels() * self.panel_bytes
    }

    /// Bytes of the packed rows of a block.
    pub(crate) fn scratch(&self, rows: usize) -> usize {
        rows.div_ceil(STRIP) * self.strip_bytes
    }

    /// Packs the factor, whose rows are dense.
    ///
    /// # Safety
    /// [`Right::is_used`]; `b` has its elements, and `to` [`Right::bytes`].
    pub(crate) unsafe fn pack<N: Number>(&self, b: *const N, to: *mut u8) {
        let factor = Factor {
            ptr: b,
            line: 1,
            k: self.columns,
            lines: self.columns,
            depth: self.k,
        };
        for panel in 0..self.panels() {
            // SAFETY: passed on.
            unsafe {
                let at = to.add(self.flags() + panel * self.panel_bytes);
                *to.add(panel) = u8::from(factor.pack_panel(panel, 0..self.steps(), at));
            }
        }
    }

    /// `c = a b` or `c += a b` for a block of dense rows; the rows of `c` lie `row` elements apart. Returns false, with
    /// `c` as it was, where numbers are not finite and the product has to be computed otherwise.
    ///
    /// # Safety
    /// [`Right::is_used`]; `a` has the rows, `packed` was written by [`Right::pack`], `scratch` has [`Right::scratch`],
    /// and nobody else accesses the elements of `c`.
    pub(crate) unsafe fn multiply<N: Number>(
        &self,
        (a, rows): (*const N, usize),
        packed: *const u8,
        (c, row): (*mut f32, usize),
        accumulate: bool,
        scratch: *mut u8,
    ) -> bool {
        let left = Factor {
            ptr: a,
            line: self.k,
            k: 1,
            lines: rows,
            depth: self.k,
        };
        let apart = self.strip_bytes;
        // SAFETY: passed on.
        unsafe {
            let strip = |i: usize| left.pack_strip(i, 0..self.steps(), scratch.add(i * apart));
            if !(0..self.panels()).all(|panel| *packed.add(panel) == 1) || !(0..rows.div_ceil(STRIP)).all(strip) {
                return false;
            }
            let strips = Packed { ptr: scratch, apart };
            let panels = Packed {
                ptr: packed.add(self.flags()),
                apart: self.panel_bytes,
            };
            let c = Product { ptr: c, row, col: 1 };
            let (a, b) = ((strips, 0..rows), (panels, 0..self.columns));
            multiply::<N>(&Tiles::configure(), self.steps(), a, b, c, accumulate);
        }
        true
    }
}
