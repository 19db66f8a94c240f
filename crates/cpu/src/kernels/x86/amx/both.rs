//! A product whose factors are both packed when it is computed, such as a part of the gradient of a convolution's
//! weight.

use super::block::{Factor, Packed, Product, multiply};
use super::number::Number;
use super::tiles::Tiles;
use super::{PANEL, STEP, STRIP, is_used};

/// The most extents of a product.
#[derive(Clone, Copy)]
pub(crate) struct Both {
    /// Rows.
    pub(crate) m: usize,
    /// Terms of an element.
    pub(crate) k: usize,
    /// Columns.
    pub(crate) n: usize,
}

/// A factor: its elements, and how many of them lie from row or column to the next, and from one `k` to the next.
pub(crate) type Strided<N> = (*const N, usize, usize);

impl Both {
    /// Whether products are computed here; [`Both::scratch`] is the same on every machine.
    pub(crate) fn is_used() -> bool {
        is_used()
    }

    fn strip_bytes<N: Number>(&self) -> usize {
        self.k.div_ceil(STEP) * N::STRIP_BYTES
    }

    fn panel_bytes<N: Number>(&self) -> usize {
        self.k.div_ceil(STEP) * N::PANEL_BYTES
    }

    /// Bytes of the packed factors.
    pub(crate) fn scratch<N: Number>(&self) -> usize {
        self.m.div_ceil(STRIP) * self.strip_bytes::<N>() + self.n.div_ceil(PANEL) * self.panel_bytes::<N>()
    }

    /// `c = a b` or `c += a b`; the rows of `c` lie `row` elements apart. Returns false, with `c` as it was, where
    /// numbers are not finite and the product has to be computed otherwise.
    ///
    /// # Safety
    /// [`Both::is_used`]; the factors have their elements, `scratch` has [`Both::scratch`] for these or larger extents,
    /// and nobody else accesses the elements of `c`.
    pub(crate) unsafe fn multiply<N: Number>(
        &self,
        a: Strided<N>,
        b: Strided<N>,
        (c, row): (*mut f32, usize),
        accumulate: bool,
        scratch: *mut u8,
    ) -> bool {
        let factor = |(ptr, line, k): Strided<N>, lines: usize| Factor {
            ptr,
            line,
            k,
            lines,
            depth: self.k,
        };
        let (left, right) = (factor(a, self.m), factor(b, self.n));
        let (strips, panels) = (self.m.div_ceil(STRIP), self.n.div_ceil(PANEL));
        let all = 0..self.k.div_ceil(STEP);
        // SAFETY: passed on.
        unsafe {
            let after = scratch.add(strips * self.strip_bytes::<N>());
            let strip = |i: usize| left.pack_strip(i, all.clone(), scratch.add(i * self.strip_bytes::<N>()));
            let panel = |i: usize| right.pack_panel(i, all.clone(), after.add(i * self.panel_bytes::<N>()));
            if !(0..strips).all(strip) || !(0..panels).all(panel) {
                return false;
            }
            let strips = Packed {
                ptr: scratch,
                apart: self.strip_bytes::<N>(),
            };
            let panels = Packed {
                ptr: after,
                apart: self.panel_bytes::<N>(),
            };
            let c = Product { ptr: c, row, col: 1 };
            let (a, b) = ((strips, 0..self.m), (panels, 0..self.n));
            multiply::<N>(&Tiles::configure(), all.len(), a, b, c, accumulate);
        }
        true
    }
}
