//! The table entry of the derivative of attention: tasks take blocks of queries of one head of keys and values.

use std::ops::Range;

use lessen_graph::ops::attention::AttentionSizes;
use lessen_graph::ops::{AttentionBias, Weighting};
use lessen_graph::{Layout, ops};

use super::super::kernel::{Kernel, Round, Types, WholeKernel, Work};
use super::super::rows::Rows;
use super::backward::{Gradients, backward, backward_scratch};
use super::copies::copy_rows;
use super::fire_parts::FireParts;
use super::fire_rows::fire_lanes_scratch;
use super::head::Head;
use super::heads::{Heads, head_of, reading_heads};
use super::moments::{RowMemory, RowNumber};
use super::moments_backward::{moments_backward, moments_backward_scratch};
use super::moments_rounds::{FEW, KeyMoments, MOMENTS};
use super::norm_backward::{KeptRows, norm_backward, norm_backward_scratch};
use super::parts::Parts;
use super::product::{Panel, wide};
use super::query_block::{BLOCK, QueryBlock};
use super::relu_backward::relu_backward;
use super::row_moments::moments_scratch;
use super::sequences::{BACKWARD_GROUP, wide_and_narrow};
use crate::kernels::sums::pairwise::sum_of;

/// The kernel of [`ops::AttentionBackward`].
pub(in super::super) fn attention_backward_kernel(op: &ops::AttentionBackward, types: &Types<'_>) -> Option<Kernel> {
    let backward = Backward::new(op, types)?;
    let (scratch, shared, parts) = (backward.scratch(), backward.shared(), backward.parts.count);
    let kernel = WholeKernel::rounds(move |strides| {
        let strides = strides[..3].to_vec();
        let (first, sums) = (backward.clone(), backward.parts.sum_round());
        let norms = backward.all.norm_round(&strides);
        let moments = backward.moments;
        let moments = moments.map(|moments| moments.rounds(&backward.all, &backward.parts, &strides));
        let [numbers, keys] = moments.map_or([None, None], |rounds| rounds.map(Some));
        let fire = backward.all.fire.iter();
        let mut rounds: Vec<Round> = fire.clone().flat_map(FireParts::table_rounds).collect();
        rounds.extend(norms);
        rounds.extend(numbers);
        rounds.push(Round {
            tasks: first.parts.pairs * first.parts.count,
            run: Box::new(move |w, index| first.run(w, &strides, index)),
        });
        rounds.extend(sums);
        rounds.extend(keys);
        rounds.extend(backward.weight_round());
        rounds.extend(fire.flat_map(|fire| fire.derivative_rounds(backward.all.sizes.batch)));
        rounds
    });
    let bytes = |elements: usize| elements * size_of::<f32>();
    let kernel = kernel.with_scratch(bytes(scratch)).with_shared(bytes(shared));
    reading_heads(kernel.cut_by(parts)).into()
}

/// A worker's copies of a head of keys and values, and its gradients, in rows that follow each other.
#[derive(Clone, Copy)]
struct OwnHead {
    ptr: *mut f32,
    keys: usize,
    /// Elements of rows of keys and of values.
    rows: [usize; 2],
}

impl OwnHead {
    /// Copies the head.
    unsafe fn copies(
        &self,
        w: &Work<'_>,
        strides: &[Vec<usize>],
        at: (usize, usize),
        sizes: &AttentionSizes,
    ) -> [Rows<f32>; 2] {
        let columns = [sizes.head, sizes.value];
        [0, 1].map(|which| {
            let from = head_of(w.dense_along(1 + which), &strides[1 + which], at);
            let to = Rows::dense(
                self.ptr.wrapping_add(which * self.keys * self.rows[0]),
                self.rows[which],
            );
            // SAFETY: see `Work`; the rows of keys and values are dense.
            unsafe { copy_rows(self.keys, columns[which], from, to) };
            to
        })
    }

    /// The gradients of keys or values, all zeros.
    fn zeros(&self, which: usize) -> Panel {
        let before = self.keys * (self.rows[0] + self.rows[1]) + which * self.keys * self.rows[0];
        let ptr = self.ptr.wrapping_add(before);
        // SAFETY: the worker's memory has these rows.
        unsafe { ptr.write_bytes(0, self.keys * self.rows[which]) };
        Panel {
            ptr,
            row: self.rows[which],
        }
    }
}

/// The derivative of an attention.
#[derive(Clone)]
struct Backward {
    all: Heads,
    parts: Parts,
    /// Strides of `dq`, and of operands of the shape of the result.
    dq: Vec<usize>,
    out: Vec<usize>,
    /// Number of inputs between `v` and the inputs that the fields ask for.
    between: usize,
    /// The moments of keys, where the temperatures come from them.
    moments: Option<KeyMoments>,
    /// The output that is the derivative of the learned weights.
    dweight: Option<usize>,
}

impl Backward {
    fn new(op: &ops::AttentionBackward, types: &Types<'_>) -> Option<Backward> {
        let (forward, between) = (op.forward(), op.between());
        let mut all = Heads::new(forward, types, 3 + between);
        if !all.are_countable() {
            return None;
        }
        let dense = |i: usize| Layout::dense(&types.inputs[i].shape).strides;
        let parts = Parts::new(&all.sizes, [dense(1), dense(2)]);
        let weights = all.sizes.batch * all.sizes.heads * parts.count;
        if let Some(fire) = &mut all.fire {
            fire.parts = parts.count;
        }
        let weights = if forward.weighting.is_learned() { weights } else { 0 };
        let first = parts.scratch() + weights;
        let normalized = forward.weighting.temperature().is_some();
        let moments = normalized && forward.bias == AttentionBias::None && !forward.segmented;
        let least = if forward.causal { 3 * MOMENTS } else { MOMENTS };
        let moments = (moments && all.sizes.keys >= least).then_some(KeyMoments { first });
        let AttentionSizes {
            batch,
            heads,
            queries,
            head,
            ..
        } = all.sizes;
        let numbers = moments.map_or(0, |_| batch * heads * RowMemory::scratch(queries, head));
        all.place(first + numbers);
        Some(Backward {
            parts,
            dq: dense(0),
            out: dense(2 + between),
            between,
            moments,
            dweight: forward.weighting.is_learned().then(|| types.outputs.len() - 1),
            all,
        })
    }

    /// Elements of each worker's scratch: that of the loops, and that of the sums of FIRE.
    fn scratch(&self) -> usize {
        let AttentionSizes {
            keys,
            head,
            value,
            kv_heads,
            ..
        } = self.all.sizes;
        let own = if kv_heads > 1 {
            2 * keys * (wide(head) + wide(value))
        } else {
            0
        };
        self.loop_scratch() + self.fire_scratch() + own
    }

    fn fire_scratch(&self) -> usize {
        let fire = self.all.fire.as_ref();
        fire.map_or(0, |fire| BACKWARD_GROUP * fire_lanes_scratch(fire.sizes.width))
    }

    fn loop_scratch(&self) -> usize {
        let AttentionSizes { keys, head, value, .. } = self.all.sizes;
        match self.all.op.weighting.temperature() {
            Some(_) if self.moments.is_some() => {
                let few = norm_backward_scratch(FEW, head, value);
                moments_backward_scratch(head, value)
                    .max(moments_scratch(head))
                    .max(few)
            }
            Some(_) => norm_backward_scratch(keys, head, value),
            None => backward_scratch(head, value),
        }
    }

    /// Elements of shared scratch: the parts of the gradients of keys and values, and of the learned weights; the
    /// tables and sums of FIRE.
    fn shared(&self) -> usize {
        let fire = self.all.fire.as_ref();
        self.all.scratch_end() + fire.map_or(0, |fire| fire.sums_scratch(self.all.sizes.batch))
    }

    /// A part of the derivative of a head's learned weight.
    fn weight(&self, w: &Work<'_>, (b, h): (usize, usize), part: usize) -> *mut f32 {
        let at = (b * self.all.sizes.heads + h) * self.parts.count + part;
        w.shared.cast::<f32>().wrapping_add(self.parts.scratch() + at)
    }

    /// Takes the blocks of one part of the queries of a head of keys and values.
    fn run(&self, w: &Work<'_>, strides: &[Vec<usize>], index: usize) {
        let AttentionSizes {
            heads,
            kv_heads,
            queries,
            head: d,
            ..
        } = self.all.sizes;
        let (pair, part) = (index / self.parts.count, index % self.parts.count);
        let (b, kv) = (pair / kv_heads, pair % kv_heads);
        let own = self.own(w);
        // SAFETY: see `Work`; the copies are this worker's own.
        let kv_rows = unsafe { own.map(|own| own.copies(w, strides, (b, kv), &self.all.sizes)) };
        let [dk, dv] = [0, 1].map(|which| match own {
            Some(own) if self.parts.direct => own.zeros(which),
            _ => self.parts.zeros(w, which, pair, part),
        });
        let d_o = w.x(2 + self.between);
        for h in kv * (heads / kv_heads)..(kv + 1) * (heads / kv_heads) {
            let at = |ptr: *const f32| head_of(ptr, &self.out, (b, h));
            let dq = head_of(w.y(0), &self.dq, (b, h));
            let (o, lse) = match self.between {
                3 => (at(w.x(3)), w.x(4).wrapping_add((b * heads + h) * queries)),
                _ => (at(d_o), std::ptr::null()),
            };
            let mut dweight = 0.0;
            let lanes = w.scratch.cast::<f32>().wrapping_add(self.loop_scratch());
            let fire = self.all.fire.as_ref();
            let fire = fire.map(|fire| fire.sums(w, self.all.sizes.batch, (b, h), part, lanes));
            self.all.for_each_segment(w, &(0..queries), |segment, range| {
                let mut head = self.all.head(w, strides, (b, h), &segment);
                if let Some([k, v]) = kv_rows {
                    (head.k, head.v) = (k.from(segment.start), v.from(segment.start));
                }
                let gradients = Gradients {
                    o: o.from(segment.start),
                    lse: lse.wrapping_add(segment.start),
                    d_o: at(d_o).from(segment.start),
                    dq: dq.from(segment.start),
                    dk: dk.at(segment.start),
                    dv: dv.at(segment.start),
                    fire,
                };
                let mine = |first: usize| ((segment.start + first) / BLOCK + h) % self.parts.count == part;
                for (range, wide) in wide_and_narrow(range, BLOCK) {
                    self.run_blocks(w, (b, h), &head, &gradients, (range, wide), mine, &mut dweight);
                }
            });
            if self.dweight.is_some() {
                // SAFETY: see `Work`; the sum is this task's own.
                unsafe { *self.weight(w, (b, h), part) = dweight as f32 };
            }
            let gaps = if part == 0 { 0..queries } else { 0..0 };
            self.all.for_each_gap(w, &gaps, |token| {
                // SAFETY: as above.
                unsafe { dq.at(token).write_bytes(0, d) };
            });
        }
        if let (Some(_), true) = (own, self.parts.direct) {
            self.parts.write(w, pair, [dk, dv]);
        }
    }

    /// The worker's own memory for a head of keys and values.
    fn own(&self, w: &Work<'_>) -> Option<OwnHead> {
        let AttentionSizes {
            keys,
            head,
            value,
            kv_heads,
            ..
        } = self.all.sizes;
        let first = self.loop_scratch() + self.fire_scratch();
        (kv_heads > 1).then(|| OwnHead {
            ptr: w.scratch.cast::<f32>().wrapping_add(first),
            keys,
            rows: [wide(head), wide(value)],
        })
    }

    /// Takes the blocks of some queries whose first query is `mine`.
    fn run_blocks(
        &self,
        w: &Work<'_>,
        (b, h): (usize, usize),
        head: &Head,
        gradients: &Gradients,
        (queries, wide): (Range<usize>, bool),
        mine: impl Fn(usize) -> bool,
        dweight: &mut f64,
    ) {
        let lanes = if wide { BLOCK } else { BLOCK / 2 };
        let block = |first: usize| QueryBlock {
            first,
            n: lanes.min(queries.end - first),
        };
        let blocks = || queries.clone().step_by(lanes).filter(|&first| mine(first)).map(block);
        let scratch = w.scratch.cast();
        let (norm, rows) = (
            self.all.norm(w, h),
            self.moments.map(|moments| moments.rows(&self.all, w, (b, h))),
        );
        let is_kept = |block: QueryBlock| match rows {
            Some(_) => head.shown(0..head.visible_to(block)) <= FEW,
            None => norm.is_some(),
        };
        for (norm, block) in norm.iter().flat_map(|norm| blocks().map(move |block| (*norm, block))) {
            if is_kept(block) {
                let keys = if rows.is_some() { FEW } else { head.keys };
                // SAFETY: see `Work`; each task writes gradients of its own, and its worker has the scratch.
                unsafe {
                    norm_backward(wide, head, KeptRows { norm, keys }, gradients, block, dweight, scratch);
                    if let Some(rows) = rows {
                        rows.store(RowNumber::Along, block, &[0.0; BLOCK]);
                    }
                }
            }
        }
        let mut blocks = blocks().filter(|&block| !is_kept(block)).peekable();
        while blocks.peek().is_some() {
            let mut group = [QueryBlock { first: 0, n: 0 }; BACKWARD_GROUP];
            let n = group.iter_mut().zip(&mut blocks).map(|(to, block)| *to = block).count();
            // SAFETY: see `Work`; each task writes gradients of its own, and its worker has the scratch.
            unsafe {
                match (head.weighting, rows) {
                    (_, Some(rows)) => moments_backward(wide, head, rows, gradients, &group[..n], dweight, scratch),
                    (Weighting::Relu(_), _) => relu_backward(wide, head, gradients, &group[..n], scratch),
                    _ => backward(wide, head, gradients, &group[..n], scratch),
                }
            }
        }
    }

    /// The round that adds up the parts of the derivatives of learned weights, if there are any.
    fn weight_round(&self) -> Option<Round> {
        let (this, output) = (self.clone(), self.dweight?);
        let (batch, heads, parts) = (this.all.sizes.batch, this.all.sizes.heads, this.parts.count);
        Some(Round {
            tasks: 1,
            run: Box::new(move |w, _| {
                for h in 0..heads {
                    let all = (0..batch).flat_map(|b| (0..parts).map(move |part| (b, part)));
                    // SAFETY: see `Work`; the parts have been written.
                    unsafe { *w.y(output).add(h) = sum_of(all.map(|(b, part)| *this.weight(w, (b, h), part))) };
                }
            }),
        })
    }
}
