//! Scores and weights of attention as tensors, shared by the decompositions of the operation and of its derivative.

use crate::array::Array;
use crate::grad::vjp;
use crate::ops::attention::bias::{AttentionBias, Fire, FireMiddle, alibi_slope};
use crate::ops::attention::operation::{Attention, AttentionSizes, Extras};
use crate::ops::attention::weighting::{Divisor, Weighting};
use crate::ops::random::dropout::Dropout;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The parameters of FIRE with one hidden layer or two.
pub(super) type FireLayers = (Fire<Tensor>, Option<FireMiddle<Tensor>>);

/// Positions of queries and keys, as tensors of the scores' dtype.
struct Positions {
    /// `[Tq, 1]`, or `[B, Tq, 1]` where each sequence has an offset.
    queries: Tensor,
    /// `[Tq, Tk]`, or `[B, Tq, Tk]`.
    distances: Tensor,
    /// Which keys the positions allow, if not all: a shape that broadcasts to `[B, H, Tq, Tk]`.
    visible: Option<Tensor>,
}

/// The scores of attention, heads first, in the accumulator dtype.
pub struct AttentionScores {
    op: Attention,
    /// `[B, H, Tq, Tk]`; `-inf` where the query does not see the key.
    pub scores: Tensor,
    /// Which keys queries see, if not all: a shape that broadcasts to that of the scores.
    pub visible: Option<Tensor>,
    /// Position biases, `[H, Tq, Tk]`, or `[B, H, Tq, Tk]`.
    pub(super) biases: Option<Tensor>,
    weight: Option<Tensor>,
    key: Option<Tensor>,
}

impl Attention {
    /// The output of an attention with these inputs and, where the weights are a softmax, its `lse`, by simple
    /// operations; `rest` are the inputs after `v`.
    pub(super) fn unfused(&self, [q, k, v]: [Tensor; 3], rest: &[Tensor], deep: Option<FireLayers>) -> Vec<Tensor> {
        let n = AttentionSizes::of(&q.ty(), &k.ty(), &v.ty());
        let dtype = q.dtype();
        if n.keys == 0 {
            // No query has a visible key, and there is no maximum to take.
            let trace = q.trace();
            let o = trace.full(dtype, &[n.batch, n.queries, n.heads, n.value], 0.0);
            let rows = [n.batch, n.heads, n.queries];
            let lse = || trace.full(dtype.accumulator(), &rows, f64::NEG_INFINITY);
            return std::iter::once(o)
                .chain(self.weighting.is_softmax().then(lse))
                .collect();
        }
        let scores = self.scores(q, k, rest, deep);
        let (weights, lse) = scores.weights();
        let o = scores.drop(weights).matmul(heads_first(v, n.heads));
        let lse = lse.map(|lse| lse.reshape(&[n.batch, n.heads, n.queries]));
        std::iter::once(heads_last(o, n.heads, dtype)).chain(lse).collect()
    }

    /// The scores of an attention with these inputs, ready to become weights; `rest` are the inputs after `v`, and
    /// `deep` takes the place of the bias.
    pub(super) fn scores(&self, q: Tensor, k: Tensor, rest: &[Tensor], deep: Option<FireLayers>) -> AttentionScores {
        let extras = self.extras(rest);
        let dtype = q.dtype().accumulator();
        let n = AttentionSizes::of(&q.ty(), &k.ty(), &k.ty());
        let products = heads_first(q, n.heads).matmul_t(heads_first(k, n.heads)) * self.scale;
        let fire = deep.or(extras.fire.map(|fire| (fire, None)));
        let needs_positions = self.causal || self.segmented || self.bias != AttentionBias::None || fire.is_some();
        let positions = needs_positions.then(|| self.positions(&extras, n, dtype, q));
        let biases = self.biases(fire, n, positions.as_ref(), dtype);
        let biased = biases.map_or(products, |biases| products + biases);
        let mask = extras.mask.map(|m| m.reshape(&[n.batch, 1, 1, n.keys]));
        let visible = match (positions.and_then(|p| p.visible), mask) {
            (Some(past), Some(mask)) => Some(past.and(mask)),
            (past, mask) => past.or(mask),
        };
        AttentionScores {
            op: *self,
            scores: visible.map_or(biased, |v| v.select(biased, biased.scalar_like(f64::NEG_INFINITY))),
            visible,
            biases,
            weight: extras.weight.map(|weight| weight.cast(dtype).reshape(&[n.heads, 1, 1])),
            key: extras.key,
        }
    }

    fn positions(&self, extras: &Extras<Tensor>, n: AttentionSizes, dtype: DType, like: Tensor) -> Positions {
        let trace = like.trace();
        let grid = [n.queries, n.keys];
        let (rows, columns) = (trace.iota(dtype, &grid, 0), trace.iota(dtype, &grid, 1));
        if let Some(starts) = extras.starts {
            let tokens = trace.iota(DType::I32, &[n.keys, starts.dim(0)], 0);
            let begun = tokens.ge(starts).cast(dtype);
            let (index, start) = (begun.sum_last(), (begun * starts.cast(dtype)).max_last());
            let inside = index
                .gt(index.scalar_like(0.0))
                .and(index.lt(index.scalar_like(starts.dim(0) as f64)));
            let same = index.eq(index.transpose(0, 1)).and(inside);
            let visible = if self.causal { columns.le(rows).and(same) } else { same };
            let queries = trace.iota(dtype, &[n.queries, 1], 0) - start;
            return Positions {
                queries: inside.select(queries, queries.scalar_like(0.0)),
                distances: (rows - columns).abs(),
                visible: Some(visible),
            };
        }
        let offset = match extras.offset {
            Some(offset) if !offset.shape().is_empty() => offset.cast(dtype).reshape(&[n.batch, 1, 1]),
            Some(offset) => offset.cast(dtype),
            None => trace.full(dtype, &[], n.keys as f64 - n.queries as f64),
        };
        let positions = rows + offset;
        Positions {
            queries: trace.iota(dtype, &[n.queries, 1], 0) + offset,
            distances: (positions - columns).abs(),
            visible: self.causal.then(|| columns.le(positions).unsqueeze(-3)),
        }
    }

    /// Computes the position biases, `[H, Tq, Tk]`, or `[B, H, Tq, Tk]`.
    fn biases(
        &self,
        fire: Option<FireLayers>,
        n: AttentionSizes,
        positions: Option<&Positions>,
        dtype: DType,
    ) -> Option<Tensor> {
        let positions = positions?;
        match (self.bias, fire) {
            (_, Some((fire, middle))) => {
                let fire = Fire::from_array(fire.into_array().map(|parameter| parameter.cast(dtype)));
                let middle = middle.map(|FireMiddle { w, b }| FireMiddle {
                    w: w.cast(dtype),
                    b: b.cast(dtype),
                });
                Some(fire.biases(middle, positions.queries, positions.distances))
            }
            (AttentionBias::Alibi, _) => {
                let slopes = (0..n.heads).map(|h| -alibi_slope(h, n.heads)).collect();
                let slopes = Array::new(Type::new(dtype, &[n.heads, 1, 1]), slopes);
                let distances = positions.distances.unsqueeze(-3);
                Some(distances * distances.trace().constant(slopes))
            }
            _ => None,
        }
    }
}

impl AttentionScores {
    /// The number of keys that each query sees, at least 1.
    fn count(&self) -> Tensor {
        let one = self.scores.scalar_like(1.0);
        match self.visible {
            Some(visible) => visible.cast(self.scores.dtype()).sum_last().maximum(one),
            None => self.scores.scalar_like(self.scores.dim(-1).max(1) as f64),
        }
    }

    fn divisor(&self, by: Divisor) -> Tensor {
        match by {
            Divisor::One => self.scores.scalar_like(1.0),
            Divisor::Keys => self.count(),
            Divisor::Constant(c) => self.scores.scalar_like(c),
        }
    }

    /// The scores, 0 where a key is not seen.
    fn finite(&self) -> Tensor {
        let (scores, visible) = (self.scores, self.visible);
        visible.map_or(scores, |v| v.select(scores, scores.scalar_like(0.0)))
    }

    fn hidden(&self, x: Tensor) -> Tensor {
        let visible = self.visible;
        visible.map_or(x, |v| v.select(x, x.scalar_like(f64::NEG_INFINITY)))
    }

    /// Arguments of the softmax; `scores` are finite.
    fn exponents(&self, scores: Tensor) -> Tensor {
        match self.op.weighting.temperature() {
            Some(temperature) => {
                let normalized = temperature.normalize(scores, self.visible);
                self.hidden(self.weight.map_or(normalized, |weight| normalized * weight))
            }
            None => self.scores,
        }
    }

    /// The weights before dropout, and for a softmax its `lse`, `[B, H, Tq, 1]`.
    pub fn weights(&self) -> (Tensor, Option<Tensor>) {
        let scores = self.scores;
        match self.op.weighting {
            Weighting::Softmax | Weighting::Norm(_) => {
                let exponents = self.exponents(self.finite());
                let max = exponents.max_last().finite_or_zero();
                let powers = (exponents - max).exp();
                let sum = powers.sum_last();
                // A row without a visible key has sum 0 and lse -inf; its weights are zeros, not NaN.
                let empty = sum.eq(sum.scalar_like(0.0));
                let divisor = empty.select(sum.scalar_like(1.0), sum);
                (powers / divisor, Some(max + sum.log()))
            }
            Weighting::Relu(by) => (scores.relu() / self.divisor(by), None),
            Weighting::Sigmoid(by) => ((scores - self.divisor(by).log()).sigmoid(), None),
        }
    }

    /// The weights before dropout, and from `dweights`, their cotangents, the cotangents of the scores and of the
    /// learned weight; `softmax` holds `lse` and `delta`, `[B, H, Tq, 1]`.
    pub(super) fn cotangents(
        &self,
        softmax: Option<(Tensor, Tensor)>,
        dweights: Tensor,
    ) -> (Tensor, Tensor, Option<Tensor>) {
        let Some((lse, delta)) = softmax else {
            let weights = self.weights().0;
            let dscores = match self.op.weighting {
                Weighting::Relu(by) => {
                    let zero = weights.scalar_like(0.0);
                    weights.gt(zero).select(dweights / self.divisor(by), zero)
                }
                _ => weights * (1.0 - weights) * dweights,
            };
            return (weights, dscores, None);
        };
        if self.op.weighting == Weighting::Softmax {
            let weights = (self.scores - lse).exp();
            return (weights, weights * (dweights - delta), None);
        }
        // Copies, so that the derivative ends at the scores and at the weight.
        let scores = self.finite().identity();
        let own = AttentionScores {
            weight: self.weight.map(Tensor::identity),
            ..*self
        };
        let exponents = own.exponents(scores);
        let weights = (exponents - lse).exp();
        let dexponents = weights * (dweights - delta);
        let wrt: Vec<Tensor> = std::iter::once(scores).chain(own.weight).collect();
        let mut found = vjp(&[exponents], &[Some(dexponents)], &wrt).into_iter().zip(&wrt);
        let mut next = || found.next().map(|(found, x)| found.unwrap_or_else(|| x.full_like(0.0)));
        let dscores = next().unwrap_or(dexponents);
        (weights, dscores, next())
    }

    /// Dropout of weights `[B, H, Tq, Tk]`.
    pub(super) fn drop(&self, weights: Tensor) -> Tensor {
        let key = self.key;
        let Some(key) = key else { return weights };
        let op = Dropout {
            p: self.op.p,
            stream: self.op.stream,
            first: self.op.sequence * (weights.ty().numel() / weights.dim(0).max(1)),
        };
        weights.dropout_of(op, key)
    }
}

/// `[B, T, G, D]` as `[B, H, T, D]` in the accumulator dtype, every head of `G` repeated for its `H / G` queries.
pub(super) fn heads_first(x: Tensor, heads: usize) -> Tensor {
    let x = x.cast(x.dtype().accumulator()).transpose(1, 2);
    let [b, g, t, d] = [0, 1, 2, 3].map(|axis| x.dim(axis));
    if g == heads {
        return x;
    }
    let repeated = x.reshape(&[b, g, 1, t, d]).broadcast_to(&[b, g, heads / g, t, d]);
    repeated.reshape(&[b, heads, t, d])
}

/// The sum over the queries of each head of keys: the derivative of [`heads_first`].
pub(super) fn heads_last(x: Tensor, kv_heads: usize, dtype: DType) -> Tensor {
    let [b, h, t, d] = [0, 1, 2, 3].map(|axis| x.dim(axis));
    let summed = if h == kv_heads {
        x
    } else {
        x.reshape(&[b, kv_heads, h / kv_heads, t, d])
            .sum_axes(&[2])
            .reshape(&[b, kv_heads, t, d])
    };
    summed.transpose(1, 2).cast(dtype)
}
