//! Scaled dot-product attention of several heads (Vaswani et al. 2017), in the form of FlashAttention (Dao et
//! al. 2022): the scores exist only inside the operation; what it leaves for the derivative is one number per
//! row.

use lessen_base::{Error, Result};

use super::dropout::{dropout_scale, probability};
use super::log_softmax::log_sum_exp;
use super::{Dropout, arity, attention_backward::AttentionBackward, float, key, key_of};
use crate::grad::vjp_of_decomposition;
use crate::philox::{dropout_keeps, dropout_threshold};
use crate::{Array, Attr, Attrs, Cost, DType, Op, Tensor, Type, Vjp};

/// Inputs: `q[B, Tq, H, D]`, `k[B, Tk, H, D]`, `v[B, Tk, H, Dv]` (`Dv` may differ from `D`), then the mask
/// `bool[B, Tk]` if `masked` (true: the key may be attended to), then the key `u32[2]` of dropout if `p > 0`.
/// Outputs `o[B, Tq, H, Dv]` and `lse[B, H, Tq]` of the accumulator dtype of `q`.
///
/// With `s_ij = scale q_i · k_j` over the visible keys `j` of query `i`: `lse_i = log sum_j e^s_ij`, `o_i =
/// sum_j drop(e^(s_ij - lse_i)) v_j`. Causal: key `j` is visible to query `i` if `j <= i + Tk - Tq`. A query
/// without a visible key has `o = 0` and `lse = -inf`. Dropout is that of [`Dropout`] with the flat index
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

impl Attention {
    pub(crate) fn attributes(&self) -> Attrs {
        Attrs::new()
            .with("causal", Attr::Bool(self.causal))
            .with("scale", Attr::Float(self.scale))
            .with("p", Attr::Float(self.p))
            .with("stream", Attr::Int(self.stream.into()))
            .with("masked", Attr::Bool(self.masked))
    }

    /// From [`Attention::attributes`].
    pub(crate) fn from_attrs(attrs: &Attrs) -> Result<Attention> {
        Ok(Attention {
            causal: attrs.bool("causal")?,
            scale: attrs.float("scale")?,
            p: attrs.float("p")?,
            stream: attrs.stream()?,
            masked: attrs.bool("masked")?,
        })
    }

    /// Checks `q`, `k`, `v` and, after `between` other inputs, the mask and the key; the types of `o` and
    /// `lse`.
    pub(crate) fn check(&self, inputs: &[Type], between: usize) -> Result<[Type; 2]> {
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
    pub(crate) fn query_scores(
        &self,
        inputs: &[&Array],
        b: usize,
        h: usize,
        i: usize,
    ) -> (Vec<f64>, Vec<bool>) {
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
        let keeps =
            |j: usize| key.is_none_or(|key| dropout_keeps(key, self.stream, (first + j) as u64, threshold));
        ((0..n.keys).map(score).collect(), (0..n.keys).map(keeps).collect())
    }

    /// The scores `[B, H, Tq, Tk]` as a tensor, `-inf` where the key is invisible, from heads-first `q` and
    /// `k`.
    pub(crate) fn scores<'g>(&self, q: Tensor<'g>, k: Tensor<'g>, mask: Option<Tensor<'g>>) -> Tensor<'g> {
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
        visible.map_or(scores, |v| {
            v.select(scores, scores.scalar_like(f64::NEG_INFINITY))
        })
    }

    /// Dropout of weights `[B, H, Tq, Tk]`.
    pub(crate) fn drop<'g>(&self, weights: Tensor<'g>, key: Option<Tensor<'g>>) -> Tensor<'g> {
        key.map_or(weights, |key| {
            weights.trace().apply1(
                Dropout {
                    p: self.p,
                    stream: self.stream,
                },
                &[weights, key],
            )
        })
    }

    /// The mask and the key among the last inputs.
    pub(crate) fn mask_and_key<'g>(&self, rest: &[Tensor<'g>]) -> (Option<Tensor<'g>>, Option<Tensor<'g>>) {
        let mask = self.masked.then(|| rest[0]);
        (mask, (self.p > 0.0).then(|| rest[usize::from(self.masked)]))
    }

    /// The share of the scores that has to be computed.
    pub(crate) fn share(&self) -> f64 {
        if self.causal { 0.5 } else { 1.0 }
    }
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn attrs(&self) -> Attrs {
        self.attributes()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(self.check(inputs, 0)?.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let n = AttentionSizes::of(&inputs[0].ty, &inputs[1].ty, &inputs[2].ty);
        let mut o = Array::full(outputs[0].clone(), 0.0);
        let mut lses = Vec::with_capacity(outputs[1].numel());
        crate::array::for_each_index(&outputs[1].shape, |index| {
            let (b, h, i) = (index[0], index[1], index[2]);
            let (scores, keeps) = self.query_scores(inputs, b, h, i);
            let lse = log_sum_exp(&scores);
            lses.push(lse);
            for j in (0..n.keys).filter(|&j| keeps[j] && scores[j] != f64::NEG_INFINITY) {
                let weight = (scores[j] - lse).exp() * dropout_scale(self.p);
                for d in 0..n.value {
                    let at = o.offset(&[b, i, h, d]);
                    o.data[at] += weight * inputs[2].at(&[b, j, h, d]);
                }
            }
        });
        vec![o, Array::new(outputs[1].clone(), lses)]
    }

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let [Some(dy), None] = cx.cotangents else {
            return vjp_of_decomposition(self.name(), |inputs| self.decompose(inputs), cx);
        };
        let inputs = [&cx.inputs[..3], cx.outputs, &[*dy], &cx.inputs[3..]].concat();
        let mut found: Vec<_> = dy
            .trace()
            .apply(AttentionBackward::of(*self), &inputs)
            .into_iter()
            .map(Some)
            .collect();
        found.resize(cx.inputs.len(), None);
        found
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let dtype = inputs[0].dtype();
        let [q, k, v] = [0, 1, 2].map(|i| inputs[i].cast(dtype.accumulator()).transpose(1, 2));
        let rows = [q.dim(0), q.dim(1), q.dim(2)];
        if k.dim(2) == 0 {
            // No query has a visible key, and there is no maximum to take.
            let o = [rows[0], rows[2], rows[1], v.dim(3)];
            let trace = q.trace();
            let lse = trace.full(q.dtype(), &rows, f64::NEG_INFINITY);
            return Some(vec![trace.full(dtype, &o, 0.0), lse]);
        }
        let (mask, key) = self.mask_and_key(&inputs[3..]);
        let scores = self.scores(q, k, mask);
        let max = scores.max_last().finite_or_zero();
        let powers = (scores - max).exp();
        let sum = powers.sum_last();
        let lse = max + sum.log();
        // A row without a visible key has sum 0 and lse -inf; its weights are zeros, not NaN.
        let empty = sum.eq(sum.scalar_like(0.0));
        let divisor = empty.select(sum.scalar_like(1.0), sum);
        let o = self
            .drop(powers / divisor, key)
            .matmul(v)
            .transpose(1, 2)
            .cast(dtype);
        Some(vec![o, lse.reshape(&rows)])
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let n = AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]);
        // Two products, and about 20 operations for each exponential.
        let per_score = (2 * (n.head + n.value) + 20) as f64;
        let bytes: usize = inputs.iter().chain(outputs).map(Type::bytes).sum();
        Cost {
            product_flops: self.share() * per_score * n.scores() as f64,
            bytes: bytes as f64,
            ..Cost::default()
        }
    }

    fn is_contraction(&self) -> bool {
        true
    }
}

/// What [`attention`] may be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'g> {
    /// Whether a query sees no later key.
    pub causal: bool,
    /// What the scores are multiplied by; `1 / sqrt(D)` if not given, 1 without any elements.
    pub scale: Option<f64>,
    /// `bool[B, Tk]`: true where the key may be attended to.
    pub mask: Option<Tensor<'g>>,
    /// Probability that an attention weight becomes zero, and the key `u32[2]` of the random bits.
    pub dropout: Option<(f64, Tensor<'g>)>,
}

/// Attention of queries `[B, Tq, H, D]` to keys `[B, Tk, H, D]` and values `[B, Tk, H, Dv]`: `[B, Tq, H,
/// Dv]`. See [`Attention`].
#[track_caller]
pub fn attention<'g>(
    q: Tensor<'g>,
    k: Tensor<'g>,
    v: Tensor<'g>,
    options: AttentionOptions<'g>,
) -> Tensor<'g> {
    let dropout = options.dropout.filter(|(p, _)| *p != 0.0);
    let mut inputs = vec![q, k, v];
    inputs.extend(options.mask);
    inputs.extend(dropout.map(|(_, key)| key));
    let op = Attention {
        causal: options.causal,
        scale: options
            .scale
            .unwrap_or_else(|| 1.0 / (q.dim(-1).max(1) as f64).sqrt()),
        p: dropout.map_or(0.0, |(p, _)| p),
        stream: if dropout.is_some() {
            q.trace().new_stream()
        } else {
            0
        },
        masked: options.mask.is_some(),
    };
    q.trace().apply(op, &inputs)[0]
}
