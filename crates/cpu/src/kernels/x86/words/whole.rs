//! A product of two matrices, other than rows times one shared matrix, such as the gradient of a weight: block by block
//! of `k`, all threads pack both factors, and then compute.

use std::ops::Range;

pub(crate) use super::extents::Extents;
use super::extents::TASK;
use super::lines::Lines;
use super::number::Word;
use super::split::Split;
use super::terms::{Begins, Columns, Place};
use super::{MOST_SHARED, PANEL, VECTOR, WORD, width};
use crate::kernels::kernel::{Round, TaskFn};

/// The most numbers along `k` that are packed at a time, and the least words.
const NUMBERS: usize = 512;
const LEAST_WORDS: usize = 64;

/// Tasks that are enough for many threads.
const MANY_TASKS: usize = 16;

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

    /// Tasks of `side` rows and `side` columns each.
    fn tasks(&self, side: usize) -> usize {
        self.m.div_ceil(side) * self.n.div_ceil(side)
    }

    /// Rows and columns of a task: fewer where there would be too few tasks for many threads.
    fn side(&self) -> usize {
        if self.tasks(TASK) < MANY_TASKS { PANEL } else { TASK }
    }

    /// The parts of a product with too little to do for each block of `k`, if it is large enough.
    fn split<N: Word>(&self) -> Option<Split> {
        N::is_worth(self.m, self.k, self.n).then(|| Split::of(*self))?
    }

    /// Words of a block of `k`; none where even few take too much memory.
    fn block<N: Word>(&self) -> Option<usize> {
        if !N::is_worth(self.m, self.k, self.n) || self.tasks(self.side()) < N::FEWEST_TASKS {
            return None;
        }
        let most = (MOST_SHARED / self.word_bytes()).min(NUMBERS / N::NUMBERS);
        let words = self.k.div_ceil(N::NUMBERS);
        (most >= LEAST_WORDS).then(|| words.div_ceil(words.div_ceil(most)))
    }

    /// Bytes that all workers share, and bytes of each, on machines of every kind.
    pub(crate) fn scratch<N: Word>(&self) -> (usize, usize) {
        let packed = self.block::<N>().map_or(0, |words| words * self.word_bytes());
        let (shared, worker) = self.split::<N>().map_or((0, 0), |split| split.scratch::<N>());
        (packed.max(shared), worker)
    }

    /// The rounds of the product, where it is computed here; with `adds` it is added to the present elements of the
    /// result.
    pub(crate) fn rounds<N: Word>(self, a: Strides, b: Strides, adds: bool) -> Option<Vec<Round>> {
        if !N::packs_factors() {
            return None;
        }
        if let Some(split) = self.split::<N>().filter(|_| a.line == 1 && b.line == 1 && !adds) {
            return Some(split.rounds::<N>([a.k, b.k]));
        }
        let block = self.block::<N>()?;
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
        let side = self.extents.side();
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
        let wide = n.div_ceil(side);
        let compute: TaskFn = Box::new(move |w, task| {
            let corner = (task / wide * side, task % wide * side);
            // SAFETY: see `Work`; the round before has packed both factors, and tasks have rows and columns of their
            // own.
            unsafe { computed.compute::<N>(w.shared, corner, side, w.y(0)) };
        });
        [
            Round {
                tasks: rows + columns,
                run: pack,
            },
            Round {
                tasks: m.div_ceil(side) * wide,
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
    /// Both factors are packed, and nobody else accesses the elements.
    unsafe fn compute<N: Word>(&self, shared: *const u8, (i, j): (usize, usize), side: usize, y: *mut f32) {
        let Extents { m, n, .. } = self.extents;
        let words = self.words.len();
        let mut pointers = [std::ptr::null(); NUMBERS];
        for i in (i..m.min(i + side)).step_by(PANEL) {
            for (word, pointer) in pointers[..words].iter_mut().enumerate() {
                *pointer = shared.wrapping_add((i * words + word * PANEL) * WORD);
            }
            for j in (j..n.min(j + side)).step_by(PANEL) {
                let width = width(n - j);
                let terms = Columns {
                    words,
                    pointers: pointers.as_ptr(),
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
