//! Scores of attention: what the operation and its derivative share, both of which compute them again from `q` and `k`.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::ops::rules::{arity, float, key, key_of, probability};
use crate::philox::{dropout_keeps, dropout_threshold};
use crate::trace::Tensor;
use crate::types::{DType, Type};

/// Inputs: `q[B, Tq, H, D]`, `k[B, Tk, H, D]`, `v[B, Tk, H, Dv]` (`Dv` may differ from `D`), then the mask
/// `bool[B, Tk]` if `masked` (true: the key may be attended to), then the key `u32[2]` of dropout if `p > 0`.
/// Outputs `o[B, Tq, H, Dv]` and `lse[B, H, Tq]` of the accumulator dtype of `q`.
///
/// With `s_ij = scale q_i · k_j` over the visible keys `j` of query `i`: `lse_i = log sum_j e^s_ij`, `o_i = sum_j
/// drop(e^(s_ij - lse_i)) v_j`. Causal: key `j` is visible to query `i` if `j <= i + Tk - Tq`. A query without a
/// visible key has `o = 0` and `lse = -inf`. Dropout is that of [`Dropout`](crate::ops::Dropout) with the flat index
/// `((b H + h) Tq + i) Tk + j`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attention {
    /// Whether a query sees no later key.
    pub causal: bool,
    /// What the scores are multiplied by.
    pub scale: f64,
    /// Probability that dropout makes an attention weight zero.
    pub p: f64,
    /// Stream of the dropout's random bits.
    pub stream: u32,
    /// Whether there is a mask among the inputs.
    pub masked: bool,
}

/// The extents of an attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttentionSizes {
    /// Sequences in the batch.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Queries per sequence.
    pub queries: usize,
    /// Keys per sequence.
    pub keys: usize,
    /// Extent of a head of `q` and `k`.
    pub head: usize,
    /// Extent of a head of `v`.
    pub value: usize,
}

impl AttentionSizes {
    /// From the types of `q`, `k` and `v`.
    pub fn of(q: &Type, k: &Type, v: &Type) -> AttentionSizes {
        AttentionSizes {
            batch: q.shape[0],
            heads: q.shape[2],
            queries: q.shape[1],
            keys: k.shape[1],
            head: q.shape[3],
            value: v.shape[3],
        }
    }

    /// Number of scores.
    pub fn scores(&self) -> usize {
        self.batch * self.heads * self.queries * self.keys
    }
}

named!("attention": Attention {
    causal,
    scale,
    p,
    stream,
    masked,
});

impl Attention {
    /// Checks `q`, `k`, `v` and, after `between` other inputs, the mask and the key; the types of `o` and
    /// `lse`.
    pub(super) fn check(&self, inputs: &[Type], between: usize) -> Result<[Type; 2]> {
        probability(self.p)?;
        arity(
            inputs,
            3 + between + usize::from(self.masked) + usize::from(self.p > 0.0),
        )?;
        let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
        float(q)?;
        let fits = [k, v].iter().all(|t| t.dtype == q.dtype && t.rank() == 4)
            && q.rank() == 4
            && (q.shape[0], q.shape[2], q.shape[3]) == (k.shape[0], k.shape[2], k.shape[3])
            && k.shape[..3] == v.shape[..3];
        if !fits {
            return Err(Error::user(format!(
                "q {q}, k {k} and v {v} are not [B,Tq,H,D], [B,Tk,H,D] and [B,Tk,H,Dv] of one dtype"
            )));
        }
        let n = AttentionSizes::of(q, k, v);
        let mut rest = inputs[3 + between..].iter();
        if self.masked {
            let (mask, expected) = (
                rest.next().expect("counted"),
                Type::new(DType::Bool, &[n.batch, n.keys]),
            );
            if *mask != expected {
                return Err(Error::user(format!("the mask must be {expected}, not {mask}")));
            }
        }
        if self.p > 0.0 {
            key(rest.next().expect("counted"))?;
        }
        Ok([
            Type::new(q.dtype, &[n.batch, n.queries, n.heads, n.value]),
            Type::new(q.dtype.accumulator(), &[n.batch, n.heads, n.queries]),
        ])
    }

    /// The scores of one query and whether each weight is kept; invisible keys score `-inf`. The inputs end
    /// with the mask and the key.
    pub(super) fn query_scores(&self, inputs: &[&Array], b: usize, h: usize, i: usize) -> (Vec<f64>, Vec<bool>) {
        let (q, k) = (inputs[0], inputs[1]);
        let n = AttentionSizes::of(&q.ty, &k.ty, &inputs[2].ty);
        let mut rest = inputs.iter().rev();
        let key = (self.p > 0.0).then(|| key_of(rest.next().expect("checked")));
        let mask = self.masked.then(|| *rest.next().expect("checked"));
        let threshold = dropout_threshold(self.p);
        let score = |j: usize| {
            let past = !self.causal || j + n.queries <= i + n.keys;
            if !past || mask.is_some_and(|m| m.at(&[b, j]) == 0.0) {
                return f64::NEG_INFINITY;
            }
            self.scale
                * (0..n.head)
                    .map(|d| q.at(&[b, i, h, d]) * k.at(&[b, j, h, d]))
                    .sum::<f64>()
        };
        let first = ((b * n.heads + h) * n.queries + i) * n.keys;
        let keeps = |j: usize| key.is_none_or(|key| dropout_keeps(key, self.stream, (first + j) as u64, threshold));
        ((0..n.keys).map(score).collect(), (0..n.keys).map(keeps).collect())
    }

    /// The scores `[B, H, Tq, Tk]` as a tensor, `-inf` where the key is invisible, from heads-first `q` and
    /// `k`.
    pub(super) fn scores<'g>(&self, q: Tensor<'g>, k: Tensor<'g>, mask: Option<Tensor<'g>>) -> Tensor<'g> {
        let scores = q.matmul_t(k) * self.scale;
        let (queries, keys) = (q.dim(2), k.dim(2));
        let past = self.causal.then(|| {
            let positions = |axis| q.trace().iota(DType::I32, &[queries, keys], axis);
            positions(1).le(positions(0) + (keys as f64 - queries as f64))
        });
        let mask = mask.map(|m| m.reshape(&[m.dim(0), 1, 1, keys]));
        let visible = match (past, mask) {
            (Some(past), Some(mask)) => Some(past.and(mask)),
            (past, mask) => past.or(mask),
        };
        visible.map_or(scores, |v| v.select(scores, scores.scalar_like(f64::NEG_INFINITY)))
    }

    /// Dropout of weights `[B, H, Tq, Tk]`.
    pub(super) fn drop<'g>(&self, weights: Tensor<'g>, key: Option<Tensor<'g>>) -> Tensor<'g> {
        key.map_or(weights, |key| weights.dropout_of(self.p, self.stream, key))
    }

    /// The mask and the key among the last inputs.
    pub(super) fn mask_and_key<'g>(&self, rest: &[Tensor<'g>]) -> (Option<Tensor<'g>>, Option<Tensor<'g>>) {
        let mask = self.masked.then(|| rest[0]);
        (mask, (self.p > 0.0).then(|| rest[usize::from(self.masked)]))
    }

    /// The share of the scores that has to be computed.
    pub(super) fn share(&self) -> f64 {
        if self.causal { 0.5 } else { 1.0 }
    }
}
