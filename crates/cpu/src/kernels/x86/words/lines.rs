//! The lines of a factor, which packing turns into rows of words.

/// Some rows or columns of a matrix along with some of its extent in `k`.
#[derive(Clone, Copy)]
pub(crate) struct Lines<T> {
    pub(crate) ptr: *const T,
    /// Elements from line to line, and from one `k` to the next.
    pub(crate) line: usize,
    pub(crate) k: usize,
    /// How many lines there are, and how many `k`.
    pub(crate) lines: usize,
    pub(crate) depth: usize,
}

impl<T> Lines<T> {
    /// The lines from number `line` on.
    #[inline]
    pub(crate) fn from(self, line: usize) -> Lines<T> {
        Lines {
            ptr: self.ptr.wrapping_add(line * self.line),
            lines: self.lines.saturating_sub(line),
            ..self
        }
    }

    /// The first lines, at most `most` of them.
    #[inline]
    pub(crate) fn at_most(self, most: usize) -> Lines<T> {
        Lines {
            lines: self.lines.min(most),
            ..self
        }
    }
}
