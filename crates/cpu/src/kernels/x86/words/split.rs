//! Products of few rows and columns over a long `k`, such as the gradient of the weight of a pixelwise convolution: in
//! parts of `k`. One task adds up each part, and the parts are added up at the end.

use super::WORD;
use super::extents::{Extents, TASK};
use super::number::Word;
use super::outer::{Cotangents, Outer};
use crate::kernels::kernel::{Round, TaskFn};

/// The most parts of `k`, the least `k` of a part, and the fewest parts that are worth it.
const PARTS: usize = 16;
const LEAST: usize = 1024;
const FEWEST: usize = 4;

/// The most elements of all parts.
const MOST: usize = 1 << 20;

/// How far along `k` both factors are packed at a time.
const BLOCK: usize = 256;

/// Elements of the product that a task gathers.
const GATHERED: usize = 1 << 10;

/// A product in parts, which depend on its extents alone.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    extents: Extents,
    parts: usize,
}

impl Split {
    /// That of a product with so little to do for each block of `k` that threads would wait for each other.
    pub(crate) fn of(extents: Extents) -> Option<Split> {
        let Extents { m, k, n } = extents;
        let tasks = m.div_ceil(TASK) * n.div_ceil(TASK);
        let parts = PARTS.min(k / LEAST).min(MOST / (m * n).max(1));
        (tasks < FEWEST && parts >= FEWEST).then_some(Split { extents, parts })
    }

    fn outer(&self, pixels: usize) -> Outer {
        Outer {
            pixels,
            inputs: self.extents.m,
            outputs: self.extents.n,
        }
    }

    /// Bytes that all workers share, and bytes of each.
    pub(crate) fn scratch<N: Word>(&self) -> (usize, usize) {
        let Extents { m, n, .. } = self.extents;
        let pointers = BLOCK * size_of::<usize>();
        (self.parts * m * n * WORD, pointers + self.outer(BLOCK).scratch::<N>())
    }

    /// The rounds, for factors whose elements for one `k` are side by side; `a_row` and `b_row` are the elements from
    /// each `k` to the next.
    pub(crate) fn rounds<N: Word>(self, [a_row, b_row]: [usize; 2]) -> Vec<Round> {
        let Extents { m, k, n } = self.extents;
        let Split { parts, .. } = self;
        let add: TaskFn = Box::new(move |w, part| {
            let (begin, end) = (part * k / parts, (part + 1) * k / parts);
            for from in (begin..end).step_by(BLOCK) {
                let len = BLOCK.min(end - from);
                // SAFETY: see `Work`; the shared scratch has room for each part, that of the worker for the pointers
                // and words of a block.
                unsafe {
                    let (a, b) = (w.strided::<N>(0), w.strided::<N>(1));
                    let read = w.scratch.cast::<*const N>();
                    (0..len).for_each(|i| read.add(i).write(a.add((from + i) * a_row)));
                    let words = w.scratch.add(BLOCK * size_of::<usize>());
                    let right = Cotangents::new(self.outer(len), b.add(from * b_row), b_row, words);
                    let sums = w.shared.cast::<f32>().add(part * m * n);
                    right.add(std::slice::from_raw_parts(read, len), sums, from > begin);
                }
            }
        });
        let gather: TaskFn = Box::new(move |w, task| {
            let some = task * GATHERED..(m * n).min((task + 1) * GATHERED);
            // SAFETY: see `Work`; the round before has written all parts, and tasks have elements of their own.
            unsafe {
                let sums = w.shared.cast::<f32>();
                for i in some {
                    *w.y(0).add(i) = (0..parts).map(|part| *sums.add(part * m * n + i)).sum();
                }
            }
        });
        let round = |tasks, run| Round { tasks, run };
        vec![round(parts, add), round((m * n).div_ceil(GATHERED), gather)]
    }
}
