//! The table entry of attention.

use lessen_graph::ops::Weighting;
use lessen_graph::ops::attention::AttentionSizes;
use lessen_graph::{Layout, ops};

use super::super::kernel::{Kernel, Round, Types, WholeKernel};
use super::copies::Copies;
use super::fire_parts::FireParts;
use super::forward::{forward, forward_scratch};
use super::heads::{Heads, head_of, reading_heads};
use super::norm_forward::{norm_forward, norm_scratch};
use super::one_query::{is_one_query, one_query};
use super::query_block::BLOCK;
use super::relu_forward::relu_forward;
use super::sequences::{lanes, wide_and_narrow};
use crate::tile_counts::TileCounts;

/// Keys from which on copies of the rows of a head save more than they take.
const COPIED: usize = 1024;

/// The kernel of [`ops::Attention`].
pub(in super::super) fn attention_kernel(op: &ops::Attention, types: &Types<'_>) -> Option<Kernel> {
    let mut all = Heads::new(*op, types, 3);
    if !all.are_countable() {
        return None;
    }
    let AttentionSizes {
        batch,
        heads,
        queries,
        keys,
        head,
        value,
        ..
    } = all.sizes;
    let out = Layout::dense(&[batch, queries, heads, value]).strides;
    all.place(0);
    let normalized = op.weighting.temperature().is_some();
    // Normalized rows are taken a few blocks at a time, so that keys and values are read often.
    let copies = if normalized && keys >= COPIED {
        Copies::new(&all.sizes, all.scratch_end())
    } else {
        None
    };
    let shared = all.scratch_end() + copies.as_ref().map_or(0, Copies::scratch);
    let (blocks, softmax) = (all.group(), op.weighting.is_softmax());
    let relu = matches!(op.weighting, Weighting::Relu(_));
    let lanes = if normalized { lanes(1, keys) } else { BLOCK };
    let is_one = is_one_query(op, &all.sizes);
    let kernel = WholeKernel::rounds(move |strides| {
        let (strides, out, all, copies) = (strides[..3].to_vec(), out.clone(), all.clone(), copies.clone());
        let size = all.group() * BLOCK;
        let groups = queries.div_ceil(size);
        let mut rounds: Vec<Round> = all.fire.iter().flat_map(FireParts::table_rounds).collect();
        rounds.extend(all.norm_round(&strides));
        rounds.extend(copies.as_ref().map(|copies| copies.round(&strides)));
        rounds.push(Round {
            tasks: batch * heads * groups,
            run: Box::new(move |w, task| {
                let (pair, group) = (task / groups, task % groups);
                let (b, h) = (pair / heads, pair % heads);
                // Later queries see more keys: they come first, so that no task is long at the end.
                let first = (groups - 1 - group) * size;
                let tokens = first..queries.min(first + size);
                let o = head_of(w.y(0), &out, (b, h));
                let lse = if softmax {
                    w.y(1).wrapping_add(pair * queries)
                } else {
                    std::ptr::null_mut()
                };
                let mut counts = TileCounts::default();
                all.for_each_segment(w, &tokens, |segment, range| {
                    let mut head = all.head(w, &strides, (b, h), &segment);
                    if let Some(copies) = &copies {
                        let [k, v] = copies.of(w, (b, all.sizes.kv_head(h)));
                        (head.k, head.v) = (k.from(segment.start), v.from(segment.start));
                    }
                    let (o, lse) = (o.from(segment.start), lse.wrapping_add(segment.start));
                    let scratch = w.scratch.cast();
                    if is_one {
                        // SAFETY: as below.
                        return unsafe { one_query(&head, o, lse, scratch) };
                    }
                    for (range, wide) in wide_and_narrow(range, lanes)
                        .into_iter()
                        .filter(|(range, _)| !range.is_empty())
                    {
                        // SAFETY: see `Work`; each task writes rows of its own, and its worker has the scratch.
                        unsafe {
                            match all.norm(w, h) {
                                Some(norm) => norm_forward(wide, &head, norm, range, o, lse, scratch),
                                None if relu => relu_forward(wide, &head, range, o, scratch, &mut counts),
                                None => forward(wide, &head, range, o, lse, scratch),
                            }
                        }
                    }
                });
                w.clock.count(&counts);
                all.for_each_gap(w, &tokens, |token| {
                    // SAFETY: as above.
                    unsafe {
                        o.at(token).write_bytes(0, value);
                        if softmax {
                            *lse.add(token) = f32::NEG_INFINITY;
                        }
                    }
                });
            }),
        });
        rounds
    });
    let scratch = if is_one {
        keys
    } else if normalized {
        norm_scratch(blocks * BLOCK / lanes, lanes, keys, head, value)
    } else {
        forward_scratch(blocks, head, value)
    };
    let bytes = |elements: usize| elements * size_of::<f32>();
    reading_heads(kernel.with_scratch(bytes(scratch)).with_shared(bytes(shared))).into()
}
