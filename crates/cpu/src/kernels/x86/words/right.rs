//! A right factor that is packed once and multiplied with many rows in their place, as a convolution's weight with the
//! pixels of its windows.

use std::ops::Range;

use super::lines::Lines;
use super::number::Word;
use super::terms::{Begins, Place, Runs};
use super::{CACHED, PANEL, VECTOR, WORD, width};

/// The words that are multiplied with all rows before the next ones, at most `cached` bytes of a panel of `words` words
/// and `panel_bytes` bytes: whole vectors of words, of about the same number each time.
pub(crate) fn words_at_once(words: usize, panel_bytes: usize, cached: usize) -> usize {
    let parts = panel_bytes.div_ceil(cached).max(1);
    words.div_ceil(parts).max(1).next_multiple_of(VECTOR)
}

/// A factor of `runs` runs of `k` numbers, `columns` columns each.
#[derive(Clone, Copy)]
pub(crate) struct Right {
    runs: usize,
    words: usize,
    columns: usize,
    /// Bytes of a panel that stay in a cache while all rows are multiplied with it.
    cached: usize,
}

impl Right {
    /// A factor of these extents, where `k` numbers `N` are whole words.
    pub(crate) fn new<N: Word>(runs: usize, k: usize, columns: usize) -> Option<Right> {
        k.is_multiple_of(N::NUMBERS).then_some(Right {
            runs,
            words: k / N::NUMBERS,
            columns,
            cached: CACHED,
        })
    }

    /// This factor, of whose panels `cached` bytes stay in a cache.
    pub(crate) fn with_cached(self, cached: usize) -> Right {
        Right { cached, ..self }
    }

    pub(crate) fn panels(&self) -> usize {
        self.columns.div_ceil(PANEL)
    }

    /// Bytes of a run.
    fn run_bytes(&self) -> usize {
        self.words * self.columns.next_multiple_of(VECTOR) * WORD
    }

    /// Bytes of the packed factor.
    pub(crate) fn bytes(&self) -> usize {
        self.runs * self.run_bytes()
    }

    /// The byte of a word of the first run for a column that begins a vector.
    pub(crate) fn at(&self, word: usize, column: usize) -> usize {
        let first = column / PANEL * PANEL;
        (self.words * first + word * width(self.columns - first) + column - first) * WORD
    }

    /// Packs some panels of a run, `count` of its numbers from `begin` on. They lie `k` elements apart along the run
    /// and `column` from column to column, and are whole words.
    ///
    /// # Safety
    /// [`Word::is_used`]; the numbers are readable, and `to` has [`Right::bytes`].
    pub(crate) unsafe fn pack<N: Word>(
        &self,
        (run, panels): (usize, Range<usize>),
        (begin, count): (usize, usize),
        from: *const N,
        (k, column): (usize, usize),
        to: *mut u8,
    ) {
        for panel in panels {
            let first = panel * PANEL;
            let width = width(self.columns - first);
            let at = run * self.run_bytes() + (self.words * first + begin / N::NUMBERS * width) * WORD;
            let to = to.wrapping_add(at);
            let lines = Lines {
                ptr: from.wrapping_add(first * column),
                line: column,
                k,
                lines: (self.columns - first).min(PANEL),
                depth: count,
            };
            // SAFETY: passed on; the panel lies within the run.
            unsafe { N::pack(lines, width, to, width * WORD) };
        }
    }

    /// `c = a b` or `c += a b` for some columns, which begin at a vector and end at one or at the last column, and for
    /// rows; `c` has a pointer for each row, to where the row begins in the result.
    ///
    /// # Safety
    /// [`Word::is_used`]; the rows' runs have their words, `packed` was written by [`Right::pack`], and nobody else
    /// accesses the elements of `c`.
    pub(crate) unsafe fn multiply<N: Word>(
        &self,
        left: Left,
        (packed, columns): (*const u8, Range<usize>),
        c: *const *mut f32,
        accumulate: bool,
    ) {
        let panel_bytes = self.words * width(self.columns) * WORD;
        let runs_at_once = (self.cached / panel_bytes.max(1)).max(1);
        let words_at_once = words_at_once(self.words, panel_bytes, self.cached);
        // SAFETY: passed on.
        let held = unsafe { N::hold(left.rows, words_at_once.min(self.words)) };
        for run in (0..self.runs).step_by(runs_at_once) {
            for word in (0..self.words).step_by(words_at_once) {
                for panel in columns.start / PANEL..columns.end.div_ceil(PANEL) {
                    let first = panel * PANEL;
                    let some = columns.start.max(first)..columns.end.min(first + PANEL);
                    let width = width(self.columns - first);
                    let begin = self.words * first + word * width + some.start - first;
                    let terms = Runs {
                        runs: runs_at_once.min(self.runs - run),
                        words: words_at_once.min(self.words - word),
                        pointers: left.pointers.wrapping_add(run * left.apart),
                        apart: left.apart,
                        offset: word * WORD,
                        zeros: left.zeros,
                        panel: packed.wrapping_add(run * self.run_bytes() + begin * WORD),
                        panel_apart: self.run_bytes(),
                        panel_row: width * WORD,
                    };
                    let to = Place::panel(Begins::Listed(c), some.start, some.end);
                    let width = some.len().next_multiple_of(VECTOR);
                    // SAFETY: passed on.
                    unsafe { N::rows(&held, left.rows, width, terms, to, accumulate || run + word > 0) };
                }
            }
        }
    }
}

/// The rows that are multiplied: run number `i` of a row begins at the pointer number `i * apart + row`.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub(crate) pointers: *const *const u8,
    /// Pointers from one run to the next.
    pub(crate) apart: usize,
    pub(crate) rows: usize,
    /// The pointer of runs that are zeros.
    pub(crate) zeros: *const u8,
}
