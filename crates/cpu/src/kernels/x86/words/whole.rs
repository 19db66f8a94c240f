//! A product of two matrices, other than rows times one shared matrix, such as the gradient of a weight: block by block
//! of `k`, all threads pack both factors, and then compute.

use std::ops::Range;

pub(crate) use super::extents::Extents;
use super::extents::TASK;
use super::lines::Lines;
use super::number::Word;
use super::split::Split;
use super::terms::{Begins, Columns, Place};
use super::{MOST_SHARED, PANEL, VECTOR, WORD, is_worth, width};
use crate::kernels::kernel::{Round, TaskFn};

/// The most words along `k` that are packed at a time, and the least.
const WORDS: (usize, usize) = (256, 64);

/// Where the elements of a factor are: from line to line, and from one `k` to the next. A line is a row of the left
/// factor or a column of the right factor.
#[derive(Clone, Copy)]
pub(crate) struct Strides {
    pub(crate) line: usize,
    pub(crate) k: usize,
}

impl Extents {
    /// Bytes of one word along `k` of both factors.
    fn word_bytes(&self) -> usize {
        (self.m.next_multiple_of(PANEL) + self.n.next_multiple_of(VECTOR)) * WORD
    }

    /// Words of a block of `k`; none where even few take too much memory.
    fn block<N: Word>(&self) -> Option<usize> {
        if !is_worth(self.m, self.k, self.n) {
            return None;
        }
        let most = (MOST_SHARED / self.word_bytes()).min(WORDS.0);
        let words = self.k.div_ceil(N::NUMBERS);
        (most >= WORDS.1).then(|| words.div_ceil(words.div_ceil(most)))
    }

    /// Bytes that all workers share, and bytes of each, on machines of every kind.
    pub(crate) fn scratch<N: Word>(&self) -> (usize, usize) {
        let block = self.block::<N>();
        let bytes = |words: usize| (words * self.word_bytes(), words * size_of::<usize>());
        let split = block
            .and_then(|_| Split::of(*self))
            .map_or((0, 0), |split| split.scratch::<N>());
        let (shared, worker) = block.map_or((0, 0), bytes);
        (shared.max(split.0), worker.max(split.1))
    }

    /// The rounds of the product, where it is computed here; with `adds` it is added to the present elements of the
    /// result.
    pub(crate) fn rounds<N: Word>(self, a: Strides, b: Strides, adds: bool) -> Option<Vec<Round>> {
        let block = self.block::<N>().filter(|_| N::is_used())?;
        if let Some(split) = Split::of(self).filter(|_| a.line == 1 && b.line == 1 && !adds) {
            return Some(split.rounds::<N>([a.k, b.k]));
        }
        let words = self.k.div_ceil(N::NUMBERS);
        let blocks = (0..words).step_by(block).map(move |first| WordBlock {
            extents: self,
            words: first..words.min(first + block),
            factors: [a, b],
            adds,
        });
        Some(blocks.flat_map(WordBlock::rounds::<N>).collect())
    }
}

/// A block of `k` of a product.
#[derive(Clone)]
struct WordBlock {
    extents: Extents,
    words: Range<usize>,
    factors: [Strides; 2],
    /// Whether the result holds a sum before the first block.
    adds: bool,
}

impl WordBlock {
    fn rounds<N: Word>(self) -> [Round; 2] {
        let Extents { m, n, .. } = self.extents;
        let (rows, columns) = (m.div_ceil(PANEL), n.div_ceil(PANEL));
        let (packed, computed) = (self.clone(), self);
        let pack: TaskFn = Box::new(move |w, task| {
            // SAFETY: see `Work`; the plan gives the product its shared memory, and each task writes its own part of
            // it.
            unsafe {
                if task < rows {
                    packed.pack::<N>(0, (task, m), w.strided(0), w.shared);
                } else {
                    let to = w.shared.add(packed.left_bytes());
                    packed.pack::<N>(1, (task - rows, n), w.strided(1), to);
                }
            }
        });
        let wide = n.div_ceil(TASK);
        let compute: TaskFn = Box::new(move |w, task| {
            let corner = (task / wide * TASK, task % wide * TASK);
            // SAFETY: see `Work`; the round before has packed both factors, and tasks have rows and columns of their
            // own.
            unsafe { computed.compute::<N>(w.shared, corner, w.y(0), w.scratch.cast()) };
        });
        [
            Round {
                tasks: rows + columns,
                run: pack,
            },
            Round {
                tasks: m.div_ceil(TASK) * wide,
                run: compute,
            },
        ]
    }

    /// Bytes of the left factor, whose panels are all 64 wide.
    fn left_bytes(&self) -> usize {
        self.words.len() * self.extents.m.next_multiple_of(PANEL) * WORD
    }

    /// Packs a panel of one of the factors, which has `lines` lines.
    ///
    /// # Safety
    /// The factor is readable, and `to` has room for all its panels.
    unsafe fn pack<N: Word>(&self, factor: usize, (panel, lines): (usize, usize), from: *const N, to: *mut u8) {
        let Strides { line, k } = self.factors[factor];
        let (first, count) = (panel * PANEL, self.words.len());
        let width = if factor == 0 { PANEL } else { width(lines - first) };
        let from_k = self.words.start * N::NUMBERS;
        let to = to.wrapping_add(first * count * WORD);
        let lines = Lines {
            ptr: from.wrapping_add(first * line + from_k * k),
            line,
            k,
            lines: (lines - first).min(PANEL),
            depth: (count * N::NUMBERS).min(self.extents.k - from_k),
        };
        // SAFETY: passed on; vectors without lines read nothing.
        unsafe { N::pack(lines, width, to, width * WORD) };
    }

    /// Computes the rows and columns of a task.
    ///
    /// # Safety
    /// Both factors are packed, nobody else accesses the elements, and `pointers` has room for one for each word.
    unsafe fn compute<N: Word>(
        &self,
        shared: *const u8,
        (i, j): (usize, usize),
        y: *mut f32,
        pointers: *mut *const u8,
    ) {
        let Extents { m, n, .. } = self.extents;
        let words = self.words.len();
        for i in (i..m.min(i + TASK)).step_by(PANEL) {
            for word in 0..words {
                // SAFETY: passed on.
                unsafe { pointers.add(word).write(shared.add((i * words + word * PANEL) * WORD)) };
            }
            for j in (j..n.min(j + TASK)).step_by(PANEL) {
                let width = width(n - j);
                let terms = Columns {
                    words,
                    pointers,
                    offset: 0,
                    right: shared.wrapping_add(self.left_bytes() + j * words * WORD),
                    right_row: width * WORD,
                };
                let to = Place::panel(Begins::Apart(y.wrapping_add(i * n), n), j, n);
                // SAFETY: passed on.
                unsafe { N::columns((m - i).min(PANEL), width, terms, to, self.adds || self.words.start > 0) };
            }
        }
    }
}
