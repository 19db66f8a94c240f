//! The table entry of the derivative of attention: tasks take blocks of queries of one head of keys and values, and
//! where there are few such heads, several tasks share one. Each of these adds to gradients of keys and values of its
//! own; a second phase adds them up in order, so that no bit depends on the number of threads.

use lessen_graph::ops::attention::AttentionSizes;
use lessen_graph::{Layout, ops};

use super::super::kernel::{Kernel, Phase, TaskFn, Types, WholeKernel, Work};
use super::super::rows::Rows;
use super::backward::{GROUP, Gradients, add_parts, backward, backward_scratch};
use super::forward_entry::is_supported;
use super::head::{BLOCK, Block};
use super::heads::{Heads, head_of, reading_heads};
use super::product::{Panel, wide};
use super::sequences::wide_and_narrow;

/// Tasks that there are at least, where there are as many blocks of queries.
const TASKS: usize = 8;

/// Keys whose parts of gradients one task adds up.
const ROWS: usize = 256;

/// How the gradients of keys and values are collected.
#[derive(Clone)]
struct Parts {
    /// Parts of the queries of each head of keys and values.
    count: usize,
    /// Heads of keys and values of all sequences.
    pairs: usize,
    keys: usize,
    /// Elements of a row of the gradients, and with zeros.
    sizes: [usize; 2],
    rows: [usize; 2],
    /// Whether the outputs themselves are added to.
    direct: bool,
}

impl Parts {
    fn new(sizes: &AttentionSizes) -> Parts {
        let pairs = sizes.batch * sizes.kv_heads;
        let blocks = sizes.queries.div_ceil(BLOCK) * (sizes.heads / sizes.kv_heads.max(1));
        let count = TASKS.div_ceil(pairs.max(1)).min(blocks / 2).max(1);
        let columns = [sizes.head, sizes.value];
        Parts {
            count,
            pairs,
            keys: sizes.keys,
            sizes: columns,
            rows: columns.map(wide),
            direct: count == 1 && columns.iter().all(|&c| c == wide(c)),
        }
    }

    /// Elements of the gradients of keys, or of values, of one part of a head.
    fn part(&self, which: usize) -> usize {
        self.keys * self.rows[which]
    }

    /// Elements of shared scratch.
    fn scratch(&self) -> usize {
        if self.direct {
            return 0;
        }
        self.pairs * self.count * (self.part(0) + self.part(1))
    }

    /// Where a part of a head adds gradients of keys (0) or values (1).
    fn panel(&self, w: &Work<'_>, which: usize, pair: usize, part: usize) -> Panel {
        let before = which * self.pairs * self.count * self.part(0);
        let at = before + (pair * self.count + part) * self.part(which);
        Panel {
            ptr: w.shared.cast::<f32>().wrapping_add(at),
            row: self.rows[which],
        }
    }
}

/// The kernel of [`ops::AttentionBackward`].
pub(in super::super) fn attention_backward_kernel(op: &ops::AttentionBackward, types: &Types<'_>) -> Option<Kernel> {
    if !types.floats_are_f32() || !is_supported(&op.forward()) {
        return None;
    }
    let between = op.between();
    let all = Heads::new(op.forward(), types, 3 + between);
    let parts = Parts::new(&all.sizes);
    let dense: Vec<Vec<usize>> = types.inputs[..3]
        .iter()
        .map(|ty| Layout::dense(&ty.shape).strides)
        .collect();
    let out = Layout::dense(&[all.sizes.batch, all.sizes.queries, all.sizes.heads, all.sizes.value]).strides;
    let scratch = backward_scratch(all.sizes.head, all.sizes.value) * size_of::<f32>();
    let shared = parts.scratch() * size_of::<f32>();
    let kernel = WholeKernel::phases(move |strides| {
        let task = Task {
            all: all.clone(),
            parts: parts.clone(),
            strides: strides[..3].to_vec(),
            dense: dense.clone(),
            out: out.clone(),
            between,
        };
        let mut phases = vec![Phase {
            tasks: parts.pairs * parts.count,
            run: Box::new(move |w, index| task.run(w, index)),
        }];
        if !parts.direct {
            phases.push(sum_phase(parts.clone(), dense.clone(), all.sizes.kv_heads));
        }
        phases
    });
    reading_heads(kernel.with_scratch(scratch).with_shared(shared)).into()
}

/// The first phase: each task takes the blocks of one part of the queries of a head of keys and values.
struct Task {
    all: Heads,
    parts: Parts,
    strides: Vec<Vec<usize>>,
    dense: Vec<Vec<usize>>,
    out: Vec<usize>,
    between: usize,
}

impl Task {
    fn run(&self, w: &Work<'_>, index: usize) {
        let AttentionSizes {
            heads,
            kv_heads,
            queries,
            ..
        } = self.all.sizes;
        let (pair, part) = (index / self.parts.count, index % self.parts.count);
        let (b, kv) = (pair / kv_heads, pair % kv_heads);
        let [dk, dv] = [0, 1].map(|which| self.zeros(w, which, pair, part));
        let d_o = w.inputs[2 + self.between];
        let softmax = self.between == 3;
        for h in kv * (heads / kv_heads)..(kv + 1) * (heads / kv_heads) {
            let at = |ptr: *mut u8| head_of(ptr, &self.out, (b, h));
            let dq = head_of(w.outputs[0], &self.dense[0], (b, h));
            let (o, lse) = match softmax {
                true => (at(w.inputs[3]), w.x(4).wrapping_add((b * heads + h) * queries)),
                false => (at(d_o), std::ptr::null()),
            };
            self.all.for_each_segment(w, &(0..queries), |segment, range| {
                let head = self.all.head(w, &self.strides, (b, h), &segment);
                let gradients = Gradients {
                    o: o.from(segment.start),
                    lse: lse.wrapping_add(segment.start),
                    d_o: at(d_o).from(segment.start),
                    dq: dq.from(segment.start),
                    dk: dk.at(segment.start),
                    dv: dv.at(segment.start),
                };
                for (range, wide) in wide_and_narrow(range) {
                    let mine = |first: &usize| ((segment.start + first) / BLOCK + h) % self.parts.count == part;
                    let block = |first: usize| Block {
                        first,
                        n: BLOCK.min(range.end - first),
                    };
                    let mut blocks = range.clone().step_by(BLOCK).filter(mine).map(block).peekable();
                    while blocks.peek().is_some() {
                        let mut group = [Block { first: 0, n: 0 }; GROUP];
                        let n = group.iter_mut().zip(&mut blocks).map(|(to, block)| *to = block).count();
                        // SAFETY: see `Work`; each task writes gradients of its own, and its worker has the scratch.
                        unsafe { backward(&head, &gradients, &group[..n], wide, w.scratch.cast()) };
                    }
                }
            });
            let gaps = if part == 0 { 0..queries } else { 0..0 };
            self.all.for_each_gap(w, &gaps, |token| {
                // SAFETY: as above.
                unsafe { dq.at(token).write_bytes(0, self.parts.sizes[0]) };
            });
        }
    }

    /// The gradients that a task adds to, all zeros.
    fn zeros(&self, w: &Work<'_>, which: usize, pair: usize, part: usize) -> Panel {
        let to = if self.parts.direct {
            let (b, kv) = (pair / self.all.sizes.kv_heads, pair % self.all.sizes.kv_heads);
            let rows = head_of(w.outputs[1 + which], &self.dense[1 + which], (b, kv));
            Panel {
                ptr: rows.ptr,
                row: rows.row,
            }
        } else {
            self.parts.panel(w, which, pair, part)
        };
        for key in 0..self.parts.keys {
            // SAFETY: see `Work`; the row is this task's own.
            unsafe { to.at(key).ptr.write_bytes(0, self.parts.rows[which]) };
        }
        to
    }
}

/// The second phase: the parts of gradients of keys and values are added up.
fn sum_phase(parts: Parts, dense: Vec<Vec<usize>>, kv_heads: usize) -> Phase {
    let chunks = parts.keys.div_ceil(ROWS);
    let tasks = 2 * parts.pairs * chunks;
    let run: TaskFn = Box::new(move |w, task| {
        let (which, task) = (task % 2, task / 2);
        let (pair, first) = (task / chunks, task % chunks * ROWS);
        let rows = first..parts.keys.min(first + ROWS);
        let from = parts.panel(w, which, pair, 0);
        let to: Rows<f32> = head_of(w.outputs[1 + which], &dense[1 + which], (pair / kv_heads, pair % kv_heads));
        // SAFETY: see `Work`; the parts have been written, and each task writes rows of its own.
        unsafe { add_parts(parts.count, parts.part(which), rows, parts.sizes[which], from, to) };
    });
    Phase { tasks, run }
}
