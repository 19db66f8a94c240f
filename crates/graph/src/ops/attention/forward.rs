//! Scaled dot-product attention of several heads (Vaswani et al. 2017), in the form of FlashAttention (Dao et
//! al. 2022): the scores exist only inside the operation; what it leaves for the derivative is one number per
//! row.

use lessen_base::Result;

use crate::array::{Array, for_each_index};
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, Vjp};
use crate::ops::attention::backward::AttentionBackward;
use crate::ops::attention::scores::{Attention, AttentionSizes};
use crate::ops::rules::log_sum_exp;
use crate::philox::dropout_scale;
use crate::trace::Tensor;
use crate::types::Type;

impl Op for Attention {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attrs(&self) -> Attrs {
        self.to_attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(self.check(inputs, 0)?.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let n = AttentionSizes::of(&inputs[0].ty, &inputs[1].ty, &inputs[2].ty);
        let mut o = Array::full(outputs[0].clone(), 0.0);
        let mut lses = Vec::with_capacity(outputs[1].numel());
        for_each_index(&outputs[1].shape, |index| {
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
            return Vec::new();
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
        let o = self.drop(powers / divisor, key).matmul(v).transpose(1, 2).cast(dtype);
        Some(vec![o, lse.reshape(&rows)])
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let n = AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]);
        let scores = self.share() * n.scores() as f64;
        // Two products, and about 20 operations for each exponential.
        Cost {
            product_flops: (2 * (n.head + n.value)) as f64 * scores,
            ..Cost::vector(20.0 * scores, inputs, outputs)
        }
    }

    fn is_contraction(&self) -> bool {
        true
    }
}

/// Options of [`attention`].
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
pub fn attention<'g>(q: Tensor<'g>, k: Tensor<'g>, v: Tensor<'g>, options: AttentionOptions<'g>) -> Tensor<'g> {
    let dropout = options.dropout.filter(|(p, _)| *p != 0.0);
    let mut inputs = vec![q, k, v];
    inputs.extend(options.mask);
    inputs.extend(dropout.map(|(_, key)| key));
    let op = Attention {
        causal: options.causal,
        scale: options.scale.unwrap_or_else(|| 1.0 / (q.dim(-1).max(1) as f64).sqrt()),
        p: dropout.map_or(0.0, |(p, _)| p),
        stream: if dropout.is_some() { q.trace().new_stream() } else { 0 },
        masked: options.mask.is_some(),
    };
    q.trace().apply(op, &inputs)[0]
}
