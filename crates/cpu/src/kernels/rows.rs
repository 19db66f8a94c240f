//! Operands of kernels: blocks of rows in memory.

/// Types of elements: plain numbers.
pub trait Element: Copy + Default + Send + Sync + 'static {}
impl Element for f32 {}
impl Element for f64 {}
impl Element for u8 {}
impl Element for u16 {}
impl Element for i32 {}
impl Element for u32 {}
impl Element for u64 {}

/// A block of rows: element `(r, j)` lies at `ptr + r * row + j * col`.
///
/// `row == 0` repeats one row for all rows, `col == 0` one element along each row. Only an operand that is read may
/// repeat. Kernels are fastest where `col` is 1 (or 0 for operands that are read), and correct for any.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T> {
    /// The first element.
    pub ptr: *mut T,
    /// Elements from one row to the next.
    pub row: usize,
    /// Elements from one column to the next.
    pub col: usize,
}

impl<T> Rows<T> {
    /// Rows of `c` elements, one after the other without gaps.
    pub fn dense(ptr: *mut T, c: usize) -> Rows<T> {
        Rows { ptr, row: c, col: 1 }
    }

    /// One element for each row.
    pub fn column(ptr: *mut T) -> Rows<T> {
        Rows { ptr, row: 1, col: 0 }
    }

    /// One row, the same for all rows.
    pub fn row_vector(ptr: *mut T) -> Rows<T> {
        Rows { ptr, row: 0, col: 1 }
    }

    /// One element, the same everywhere.
    pub fn scalar(ptr: *mut T) -> Rows<T> {
        Rows { ptr, row: 0, col: 0 }
    }

    /// The same positions as elements of another type; strides still count elements.
    pub fn cast<U>(self) -> Rows<U> {
        Rows {
            ptr: self.ptr.cast(),
            row: self.row,
            col: self.col,
        }
    }

    /// The first element of row `r`.
    #[inline(always)]
    pub(crate) fn at(&self, r: usize) -> *mut T {
        self.ptr.wrapping_add(r * self.row)
    }

    /// Element `(r, j)`.
    #[inline(always)]
    pub(crate) fn element(&self, r: usize, j: usize) -> *mut T {
        self.ptr.wrapping_add(r * self.row + j * self.col)
    }

    /// The rows from row `r` on.
    #[inline(always)]
    pub(crate) fn from(self, r: usize) -> Rows<T> {
        Rows {
            ptr: self.at(r),
            ..self
        }
    }

    /// Whether rows of `c` elements are one run of elements that lie `col` apart.
    #[inline(always)]
    pub(crate) fn is_run_of(&self, c: usize) -> bool {
        self.row == self.col * c
    }

    /// The transposed block.
    #[inline(always)]
    pub(crate) fn exchanged(self) -> Rows<T> {
        Rows {
            ptr: self.ptr,
            row: self.col,
            col: self.row,
        }
    }
}

/// Shadows the sizes and operands of an elementwise loop by the sizes and operands of one long row, where all operands
/// allow it.
macro_rules! flatten {
    ($n:ident, $c:ident, $($x:ident),+) => {
        let ($n, $c, $($x),+) = if $n == 1 || $c == 0 {
            ($n, $c, $($x),+)
        } else if $c == 1 {
            (1, $n, $($x.exchanged()),+)
        } else if [$($x.is_run_of($c)),+].iter().all(|&run| run) {
            (1, $n * $c, $($x),+)
        } else {
            ($n, $c, $($x),+)
        };
    };
}
pub(crate) use flatten;
