//! Common part of the table entries of attention: heads, sequences and segments, and where they lie.

use std::ops::Range;

use lessen_graph::ops;
use lessen_graph::ops::attention::{AttentionSizes, Extras, alibi_slope};
use lessen_graph::ops::{AttentionBias, Weighting};

use super::super::kernel::{Reads, Round, TaskFn, Types, WholeKernel, Work};
use super::super::rows::Rows;
use super::bound::row_norms;
use super::fire::FireSizes;
use super::fire_parts::FireParts;
use super::head::{Bias, Head, WeightDropout};
use super::norm_forward::Norm;
use super::product::wide;
use super::query_block::BLOCK;
use super::sequences::{group, queries_among, segments, strips};

/// Keys whose norms one task computes.
const NORMS: usize = 256;

/// Common part of forward and backward: the operation's fields and the extents.
#[derive(Clone)]
pub(super) struct Heads {
    pub(super) op: ops::Attention,
    pub(super) sizes: AttentionSizes,
    /// Where the inputs that the fields ask for are.
    extras: Extras<usize>,
    /// Number of starts of segments.
    starts: usize,
    /// Number of positions of first queries: one, or one for each sequence.
    offsets: usize,
    pub(super) fire: Option<FireParts>,
    /// The element of shared scratch where the norms of keys begin.
    norms: usize,
}

impl Heads {
    /// From the types of inputs; the first `before` of them are not asked for by fields.
    pub(super) fn new(op: ops::Attention, types: &Types<'_>, before: usize) -> Heads {
        let places: Vec<usize> = (before..types.inputs.len()).collect();
        let extras = op.extras(&places);
        let sizes = AttentionSizes::of(&types.inputs[0], &types.inputs[1], &types.inputs[2]);
        let fire = extras.fire.map(|inputs| {
            let width = types.inputs[inputs.w1].numel();
            let AttentionSizes {
                heads, queries, keys, ..
            } = sizes;
            FireParts {
                sizes: FireSizes::new(heads, width, queries, keys, op.causal, op.placed),
                inputs,
                tables: 0,
                parts: 1,
                output: 3,
            }
        });
        Heads {
            op,
            sizes,
            fire,
            norms: 0,
            starts: extras.starts.map_or(0, |input| types.inputs[input].numel()),
            offsets: extras.offset.map_or(0, |input| types.inputs[input].numel()),
            extras,
        }
    }

    /// Whether sizes of scratch can be computed: no kernel takes more bytes than this product.
    pub(super) fn are_countable(&self) -> bool {
        let AttentionSizes {
            batch,
            heads,
            queries,
            keys,
            head,
            value,
            ..
        } = self.sizes;
        let width = self.fire.as_ref().map_or(0, |fire| fire.sizes.width);
        let factors = [
            batch,
            heads,
            queries + keys + 2 * BLOCK,
            wide(head) + wide(value),
            width + 4,
            1 << 10,
        ];
        let product = factors
            .iter()
            .try_fold(1usize, |n, &factor| n.checked_mul(factor.max(1)));
        product.is_some_and(|bytes| isize::try_from(bytes).is_ok())
    }

    /// Places norms and tables, which all heads share, in shared scratch from this element on.
    pub(super) fn place(&mut self, first: usize) {
        self.norms = first;
        let norms = self.norms_scratch();
        if let Some(fire) = &mut self.fire {
            fire.tables = first + norms;
        }
    }

    /// The element of shared scratch after norms and tables.
    pub(super) fn scratch_end(&self) -> usize {
        let tables = self.fire.as_ref().map_or(0, |fire| fire.sizes.scratch());
        self.norms + self.norms_scratch() + tables
    }

    /// Elements of the norms of keys, which bound the scores where that can show weights to be zeros.
    fn norms_scratch(&self) -> usize {
        let bounded = matches!(self.op.weighting, Weighting::Relu(_)) && self.op.bias != AttentionBias::None;
        let AttentionSizes {
            batch, kv_heads, keys, ..
        } = self.sizes;
        if bounded { batch * kv_heads * keys } else { 0 }
    }

    /// The round that computes the norms of keys, if they are needed.
    pub(super) fn norm_round(&self, strides: &[Vec<usize>]) -> Option<Round> {
        if self.norms_scratch() == 0 {
            return None;
        }
        let (this, strides) = (self.clone(), strides[1].clone());
        let AttentionSizes {
            batch,
            kv_heads,
            keys,
            head,
            ..
        } = self.sizes;
        let chunks = keys.div_ceil(NORMS);
        let run: TaskFn = Box::new(move |w, task| {
            let (pair, first) = (task / chunks, task % chunks * NORMS);
            let rows = first..keys.min(first + NORMS);
            let k = head_of(w.dense_along(1), &strides, (pair / kv_heads, pair % kv_heads));
            let to = w.shared.cast::<f32>().wrapping_add(this.norms + pair * keys);
            // SAFETY: see `Work`; each task writes norms of its own.
            unsafe { row_norms(rows, head, k, to) };
        });
        Some(Round {
            tasks: batch * kv_heads * chunks,
            run,
        })
    }

    /// Blocks of queries of one task of the forward pass.
    pub(super) fn group(&self) -> usize {
        let group = group(self.sizes.batch * self.sizes.heads, self.sizes.queries);
        match self.op.weighting {
            Weighting::Norm(_) => group.min(strips(self.sizes.keys)),
            _ => group,
        }
    }

    /// A head of a sequence, or of a segment, with `operands` of `[B, T, H, D]` at these strides.
    pub(super) fn head(
        &self,
        w: &Work<'_>,
        strides: &[Vec<usize>],
        (b, h): (usize, usize),
        segment: &Range<usize>,
    ) -> Head {
        let AttentionSizes {
            heads,
            kv_heads,
            queries,
            keys,
            head,
            value,
            ..
        } = self.sizes;
        let kv = self.sizes.kv_head(h);
        let [q, k, v] =
            [(0, h), (1, kv), (2, kv)].map(|(i, h)| head_of(w.dense_along(i), &strides[i], (b, h)).from(segment.start));
        let mask = self.extras.mask.map_or(std::ptr::null(), |input| {
            w.dense::<u8>(input).wrapping_add(b * keys + segment.start)
        });
        let dropout = self.extras.key.map(|input| WeightDropout {
            p: self.op.p,
            stream: self.op.stream,
            key: w.key(input),
            first: self.first_weight((b, h), segment.start),
            row: keys as u64,
        });
        let all_keys = keys;
        let (queries, keys) = if self.op.segmented {
            (segment.len(), segment.len())
        } else {
            (queries, keys)
        };
        // SAFETY: see `Work`; there is one offset or one for each sequence.
        let offset = |input: usize| i64::from(unsafe { *w.dense::<i32>(input).add(b.min(self.offsets - 1)) });
        Head {
            keys,
            d: head,
            dv: value,
            q,
            k,
            v,
            scale: self.op.scale as f32,
            weighting: self.op.weighting,
            bias: match (self.op.bias, &self.fire) {
                (AttentionBias::Alibi, _) => Bias::Alibi {
                    slope: alibi_slope(h, heads) as f32,
                },
                (_, Some(fire)) => Bias::Fire(fire.tables(w).head(fire.parameters(w), h)),
                (_, None) => Bias::None,
            },
            causal: self.op.causal,
            first: self.extras.offset.map_or(keys as i64 - queries as i64, offset),
            key_norms: match self.norms_scratch() {
                0 => std::ptr::null(),
                _ => w
                    .shared
                    .cast::<f32>()
                    .wrapping_add(self.norms + (b * kv_heads + kv) * all_keys + segment.start),
            },
            mask,
            dropout,
        }
    }

    /// The number of the weight of query `token` and key `token` among the weights of all heads of all sequences.
    fn first_weight(&self, (b, h): (usize, usize), token: usize) -> u64 {
        let AttentionSizes {
            heads, queries, keys, ..
        } = self.sizes;
        let sequence = (self.op.sequence as u64).wrapping_add(b as u64);
        let head = sequence.wrapping_mul(heads as u64).wrapping_add(h as u64);
        let query = head.wrapping_mul(queries as u64).wrapping_add(token as u64);
        query.wrapping_mul(keys as u64).wrapping_add(token as u64)
    }

    /// How a head is normalized, if it is.
    pub(super) fn norm(&self, w: &Work<'_>, h: usize) -> Option<Norm> {
        let temperature = self.op.weighting.temperature()?;
        // SAFETY: see `Work`; there is a weight for each head.
        let weight = self.extras.weight.map_or(1.0, |input| unsafe { *w.x(input).add(h) });
        Some(Norm { temperature, weight })
    }

    /// Calls `run` with each segment, or the one sequence, and the queries of its blocks that begin among `tokens`.
    pub(super) fn for_each_segment(
        &self,
        w: &Work<'_>,
        tokens: &Range<usize>,
        mut run: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let Some(input) = self.extras.starts else {
            return run(0..self.sizes.queries, tokens.clone());
        };
        // SAFETY: see `Work`; the starts are dense.
        let starts = unsafe { std::slice::from_raw_parts(w.dense::<i32>(input), self.starts) };
        w.index_errors.check(starts, self.sizes.keys + 1);
        for segment in segments(starts, self.sizes.keys) {
            let queries = queries_among(&segment, tokens);
            if !queries.is_empty() {
                run(segment, queries);
            }
        }
    }

    /// Calls `run` with the tokens of a range that are in no segment.
    pub(super) fn for_each_gap(&self, w: &Work<'_>, tokens: &Range<usize>, mut run: impl FnMut(usize)) {
        let Some(input) = self.extras.starts else { return };
        // SAFETY: see `Work`; the starts are dense.
        let starts = unsafe { std::slice::from_raw_parts(w.dense::<i32>(input), self.starts) };
        let mut from = tokens.start;
        for segment in segments(starts, self.sizes.keys).chain(std::iter::once(tokens.end..tokens.end)) {
            (from..segment.start.min(tokens.end)).for_each(&mut run);
            from = from.max(segment.end);
        }
    }
}

/// A head of a tensor `[B, T, H, D]` with these strides.
pub(super) fn head_of(ptr: *const f32, strides: &[usize], (b, h): (usize, usize)) -> Rows<f32> {
    Rows {
        ptr: ptr.wrapping_add(b * strides[0] + h * strides[2]).cast_mut(),
        row: strides[1],
        col: strides[3],
    }
}

/// Queries, keys and values are read in any layout in which a head's rows are dense.
pub(super) fn reading_heads(kernel: WholeKernel) -> WholeKernel {
    (0..3).fold(kernel, |kernel, input| kernel.reading(input, Reads::DenseLastAxis))
}
