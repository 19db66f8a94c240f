//! The derivative of attention: the scores are made again, a query at a time, from `q`, `k` and the row's
//! `lse`.

use lessen_base::{Error, Result};

use crate::array::{Array, for_each_index};
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op};
use crate::ops::attention::scores::{Attention, AttentionSizes};
use crate::philox::dropout_scale;
use crate::trace::Tensor;
use crate::types::Type;

/// Inputs: `q`, `k`, `v`, `o`, `lse` and `do` (the cotangent of `o`), then the mask and the dropout key as in
/// [`Attention`]. Outputs `dq`, `dk`, `dv`.
///
/// With `P_ij = e^(s_ij - lse_i)`, `dP_ij = drop(do_i · v_j)` and `delta_i = do_i · o_i`: `dS = P (dP -
/// delta)`, `dq_i = scale sum_j dS_ij k_j`, `dk_j = scale sum_i dS_ij q_i`, `dv_j = sum_i drop(P_ij) do_i`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttentionBackward {
    forward: Attention,
}

impl AttentionBackward {
    /// The derivative of this attention.
    pub fn of(forward: Attention) -> AttentionBackward {
        AttentionBackward { forward }
    }

    /// The attention whose derivative this is.
    pub fn forward(&self) -> Attention {
        self.forward
    }
}

impl Named for AttentionBackward {
    const NAME: &'static str = "attention_backward";

    fn to_attrs(&self) -> Attrs {
        self.forward.to_attrs()
    }

    fn from_attrs(attrs: &Attrs) -> Result<AttentionBackward> {
        Ok(AttentionBackward::of(Attention::from_attrs(attrs)?))
    }
}

impl Op for AttentionBackward {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attrs(&self) -> Attrs {
        self.to_attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let [o, lse] = self.forward.check(inputs, 3)?;
        if inputs[3] != o || inputs[4] != lse || inputs[5] != o {
            return Err(Error::user(format!(
                "o, lse and do must be {o}, {lse} and {o}, not {}, {} and {}",
                inputs[3], inputs[4], inputs[5]
            )));
        }
        Ok(inputs[..3].to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (q, k, v, o, lse, dy) = (inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5]);
        let n = AttentionSizes::of(&q.ty, &k.ty, &v.ty);
        let [mut dq, mut dk, mut dv] = [0, 1, 2].map(|i| Array::full(outputs[i].clone(), 0.0));
        let op = self.forward;
        for_each_index(&lse.ty.shape, |index| {
            let (b, h, i) = (index[0], index[1], index[2]);
            let (scores, keeps) = op.query_scores(inputs, b, h, i);
            let delta: f64 = (0..n.value).map(|d| dy.at(&[b, i, h, d]) * o.at(&[b, i, h, d])).sum();
            for j in (0..n.keys).filter(|&j| scores[j] != f64::NEG_INFINITY) {
                let weight = (scores[j] - lse.at(index)).exp();
                let drop = if keeps[j] { dropout_scale(op.p) } else { 0.0 };
                let mut dweight = 0.0;
                for d in 0..n.value {
                    dweight += drop * dy.at(&[b, i, h, d]) * v.at(&[b, j, h, d]);
                    let at = dv.offset(&[b, j, h, d]);
                    dv.data[at] += drop * weight * dy.at(&[b, i, h, d]);
                }
                let dscore = op.scale * weight * (dweight - delta);
                for d in 0..n.head {
                    let (to_q, to_k) = (dq.offset(&[b, i, h, d]), dk.offset(&[b, j, h, d]));
                    dq.data[to_q] += dscore * k.data[to_k];
                    dk.data[to_k] += dscore * q.data[to_q];
                }
            }
        });
        vec![dq, dk, dv]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let (op, dtype) = (self.forward, inputs[0].dtype());
        let [q, k, v, o, dy] = [0, 1, 2, 3, 5].map(|i| inputs[i].cast(dtype.accumulator()).transpose(1, 2));
        let (mask, key) = op.mask_and_key(&inputs[6..]);
        // Rows without a visible key have `lse = -inf`; with 0 in its place their weights are zeros, not NaN.
        let lse = inputs[4].finite_or_zero().unsqueeze(-1);
        let weights = (op.scores(q, k, mask) - lse).exp();
        let dweights = op.drop(dy.matmul_t(v), key);
        let dscores = weights * (dweights - (dy * o).sum_last()) * op.scale;
        let dropped = op.drop(weights, key);
        let gradients = [
            dscores.matmul(k),
            dscores.transpose(2, 3).matmul(q),
            dropped.transpose(2, 3).matmul(dy),
        ];
        Some(gradients.map(|g| g.transpose(1, 2).cast(dtype)).to_vec())
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let n = AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]);
        let scores = self.forward.share() * n.scores() as f64;
        // Five products, and about 20 operations for each exponential.
        Cost {
            product_flops: (2 * (3 * n.head + 2 * n.value)) as f64 * scores,
            ..Cost::vector(20.0 * scores, inputs, outputs)
        }
    }

    fn is_contraction(&self) -> bool {
        true
    }
}
