//! The source of a tile: some lines of a matrix along some of its `k`.

use super::{STEP, STRIP};

/// Some rows or columns of a matrix along with some of its extent in `k`.
#[derive(Clone, Copy)]
pub(crate) struct Source<T> {
    pub(crate) ptr: *const T,
    /// Elements from one row (of a left factor) or column (of a right one) to the next.
    pub(crate) line: usize,
    /// Elements from one `k` to the next.
    pub(crate) k: usize,
    /// How many lines there are, at most 16, and how many `k`, at most 32; the rest of a tile is zeros.
    pub(crate) lines: usize,
    pub(crate) depth: usize,
}

/// How the numbers of a tile follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// A row for each line, with its 32 `k`: a tile of a left factor.
    Lines,
    /// A row for each two `k`, with both numbers of each line: a tile of a right factor.
    Pairs,
}

impl<T: Copy> Source<T> {
    /// The source in other memory, where its `k` follow each other.
    ///
    /// # Safety
    /// Its elements are readable.
    pub(crate) unsafe fn dense(self, copy: &mut [T; STRIP * STEP]) -> Source<T> {
        for i in 0..self.lines {
            for k in 0..self.depth {
                // SAFETY: the element is one of the source.
                copy[i * STEP + k] = unsafe { *self.ptr.add(i * self.line + k * self.k) };
            }
        }
        Source {
            ptr: copy.as_ptr(),
            line: STEP,
            k: 1,
            ..self
        }
    }
}
