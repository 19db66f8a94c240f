//! Sums of the gradients of keys and values: by one task for each head of them, or, where there are few
//! heads, by several tasks that each add to a part of its own. A later round adds the parts up in order, so that no bit
//! depends on the number of threads.

use std::ops::Range;

use lessen_graph::ops::attention::AttentionSizes;

use super::super::kernel::{Round, TaskFn, Work};
use super::super::rows::Rows;
use super::heads::head_of;
use super::lanes::scale_row;
use super::product::{Panel, wide};
use super::query_block::BLOCK;
use crate::simd::{self, LANES, chunks, dispatch};

/// Least number of tasks, unless there are fewer blocks of queries.
const TASKS: usize = 8;

/// Keys whose parts of gradients one task adds up.
const ROWS: usize = 256;

/// The parts of the queries of each head of keys and values, and their gradients.
#[derive(Clone)]
pub(super) struct Parts {
    /// Parts of the queries of each head of keys and values.
    pub(super) count: usize,
    /// Heads of keys and values of all sequences.
    pub(super) pairs: usize,
    kv_heads: usize,
    keys: usize,
    /// Elements of a row of the gradients, and with zeros.
    sizes: [usize; 2],
    rows: [usize; 2],
    /// Whether the outputs themselves are added to.
    pub(super) direct: bool,
    /// Strides of the outputs.
    outputs: [Vec<usize>; 2],
}

impl Parts {
    pub(super) fn new(sizes: &AttentionSizes, outputs: [Vec<usize>; 2]) -> Parts {
        let pairs = sizes.batch * sizes.kv_heads;
        let blocks = sizes.queries.div_ceil(BLOCK) * (sizes.heads / sizes.kv_heads.max(1));
        let count = TASKS.div_ceil(pairs.max(1)).min(blocks / 2).max(1);
        let columns = [sizes.head, sizes.value];
        Parts {
            count,
            pairs,
            kv_heads: sizes.kv_heads,
            keys: sizes.keys,
            sizes: columns,
            rows: columns.map(wide),
            direct: count == 1 && columns.iter().all(|&c| c == wide(c)),
            outputs,
        }
    }

    /// Elements of the gradients of keys (0), or of values (1), of one part of a head.
    fn part(&self, which: usize) -> usize {
        self.keys * self.rows[which]
    }

    /// Elements of shared scratch.
    pub(super) fn scratch(&self) -> usize {
        if self.direct {
            return 0;
        }
        self.pairs * self.count * (self.part(0) + self.part(1))
    }

    /// A head of an output.
    pub(super) fn output(&self, w: &Work<'_>, which: usize, pair: usize) -> Rows<f32> {
        let at = (pair / self.kv_heads, pair % self.kv_heads);
        head_of(w.y(1 + which), &self.outputs[which], at)
    }

    /// Where a part of a head adds gradients of keys (0) or values (1).
    fn panel(&self, w: &Work<'_>, which: usize, pair: usize, part: usize) -> Panel {
        if self.direct {
            let Rows { ptr, row, .. } = self.output(w, which, pair);
            return Panel { ptr, row };
        }
        let before = which * self.pairs * self.count * self.part(0);
        let at = before + (pair * self.count + part) * self.part(which);
        Panel {
            ptr: w.shared.cast::<f32>().wrapping_add(at),
            row: self.rows[which],
        }
    }

    /// The gradients that a task adds to, all zeros.
    pub(super) fn zeros(&self, w: &Work<'_>, which: usize, pair: usize, part: usize) -> Panel {
        let to = self.panel(w, which, pair, part);
        for key in 0..self.keys {
            // SAFETY: see `Work`; the row is this task's own.
            unsafe { to.at(key).ptr.write_bytes(0, self.rows[which]) };
        }
        to
    }

    /// Writes the gradients of a head.
    pub(super) fn write(&self, w: &Work<'_>, pair: usize, from: [Panel; 2]) {
        for which in 0..2 {
            let to = self.output(w, which, pair);
            for r in 0..self.keys {
                // SAFETY: see `Work`; the rows of outputs are dense.
                unsafe { scale_row(self.sizes[which], 1.0, (from[which].at(r).ptr, 1), to.at(r)) };
            }
        }
    }

    /// The round that adds up the parts, if there are any.
    pub(super) fn sum_round(&self) -> Option<Round> {
        if self.direct {
            return None;
        }
        let parts = self.clone();
        let chunks = parts.keys.div_ceil(ROWS);
        let run: TaskFn = Box::new(move |w, task| {
            let (which, task) = (task % 2, task / 2);
            let (pair, first) = (task / chunks, task % chunks * ROWS);
            let rows = first..parts.keys.min(first + ROWS);
            let from = parts.panel(w, which, pair, 0);
            let to = parts.output(w, which, pair);
            let sum = Sum {
                parts: parts.count,
                part: parts.part(which),
                columns: parts.sizes[which],
            };
            // SAFETY: see `Work`; the parts have been written, and each task writes rows of its own.
            unsafe { add_parts(sum, rows, from, to) };
        });
        Some(Round {
            tasks: 2 * self.pairs * chunks,
            run,
        })
    }
}

/// A sum of parts that lie `part` elements apart.
#[derive(Clone, Copy)]
struct Sum {
    parts: usize,
    part: usize,
    columns: usize,
}

dispatch! {
    /// Writes some rows of the sum of parts, in order.
    ///
    /// # Safety
    /// The rows exist in all parts and in `to`, which overlaps nothing.
    unsafe fn add_parts(sum: Sum, rows: Range<usize>, from: Panel, to: Rows<f32>) = add_parts_body;
}

#[inline(always)]
unsafe fn add_parts_body<L: simd::Level>(sum: Sum, rows: Range<usize>, from: Panel, to: Rows<f32>) {
    for r in rows {
        chunks!(sum.columns, |j, len| {
            // SAFETY: the elements exist.
            unsafe {
                let first = from.at(r).ptr.add(j) as *const f32;
                let mut total = simd::load(first, 1, len, 0.0);
                for part in 1..sum.parts {
                    let x = simd::load(first.add(part * sum.part), 1, len, 0.0);
                    for i in 0..LANES {
                        total[i] += x[i];
                    }
                }
                simd::store(to.element(r, j), to.col, len, &total);
            }
        });
    }
}
