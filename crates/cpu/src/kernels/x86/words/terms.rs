//! The terms of a product and the place of its elements, for products by vectors of every width.
//!
//! In products of rows, a row is a list of runs of words, such as the channels of the pixels of a window. In products
//! of columns, the words of all rows of the product follow each other for each `k`, such as the channels of a pixel in
//! the gradient of a weight.

use super::{PANEL, VECTOR, WORD};

/// The words of a product of rows.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    /// Runs, and words of each.
    pub(crate) runs: usize,
    pub(crate) words: usize,
    /// The beginning of a row's run: `offset` bytes after the pointer number `run * apart + row`.
    pub(crate) pointers: *const *const u8,
    pub(crate) apart: usize,
    pub(crate) offset: usize,
    /// The pointer of runs that are zeros.
    pub(crate) zeros: *const u8,
    /// The first word of the panel, and bytes from one of its runs to the next.
    pub(crate) panel: *const u8,
    pub(crate) panel_apart: usize,
    /// Bytes from one word of the panel to the next.
    pub(crate) panel_row: usize,
}

impl Runs {
    /// The same for the rows from this one on.
    #[inline]
    pub(crate) fn from(self, row: usize) -> Runs {
        Runs {
            pointers: self.pointers.wrapping_add(row),
            ..self
        }
    }
}

/// The words of a product of columns.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    /// How many words an element of the product is the sum of.
    pub(crate) words: usize,
    /// The left factor's words for each `k`: they begin `offset` bytes after the pointer.
    pub(crate) pointers: *const *const u8,
    pub(crate) offset: usize,
    /// The right factor's words, and bytes from one `k` to the next.
    pub(crate) right: *const u8,
    pub(crate) right_row: usize,
}

impl Columns {
    /// The same for the rows of the product from this one on.
    #[inline]
    pub(crate) fn from(self, row: usize) -> Columns {
        Columns {
            offset: self.offset + row * WORD,
            ..self
        }
    }
}

/// Where the rows of a product begin.
#[derive(Clone, Copy)]
pub(crate) enum Begins {
    /// Each at a pointer of its own.
    Listed(*const *mut f32),
    /// The first one, and elements from each to the next.
    Apart(*mut f32, usize),
}

/// Where a product lies.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) begins: Begins,
    /// The first column.
    pub(crate) column: usize,
    /// Which columns of the last vector there are.
    pub(crate) last: u16,
    /// A row that the sums of products of rows begin with, from its first column on; null where they begin with zeros.
    pub(crate) bias: *const f32,
}

impl Place {
    /// The panel that begins at a column of `columns` columns in all.
    #[inline]
    pub(crate) fn panel(begins: Begins, column: usize, columns: usize) -> Place {
        let kept = (columns - column).min(PANEL);
        let last = (kept - 1) % VECTOR + 1;
        Place {
            begins,
            column,
            last: ((1u32 << last) - 1) as u16,
            bias: std::ptr::null(),
        }
    }

    /// One vector of `width` columns, as a place of its own.
    #[inline]
    pub(crate) fn vector(self, column: usize, width: usize) -> Place {
        let is_last = column + VECTOR >= width;
        Place {
            column: self.column + column,
            last: if is_last { self.last } else { !0 },
            ..self
        }
    }

    /// The same for the rows from this one on.
    #[inline]
    pub(crate) fn from(self, row: usize) -> Place {
        let begins = match self.begins {
            Begins::Listed(rows) => Begins::Listed(rows.wrapping_add(row)),
            Begins::Apart(first, apart) => Begins::Apart(first.wrapping_add(row * apart), apart),
        };
        Place { begins, ..self }
    }

    /// The elements of a row.
    ///
    /// # Safety
    /// There is the row.
    #[inline(always)]
    pub(crate) unsafe fn row(&self, row: usize) -> *mut f32 {
        let begin = match self.begins {
            // SAFETY: passed on.
            Begins::Listed(rows) => unsafe { *rows.add(row) },
            Begins::Apart(first, apart) => first.wrapping_add(row * apart),
        };
        begin.wrapping_add(self.column)
    }
}
