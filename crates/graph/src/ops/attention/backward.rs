//! The derivative of attention: the scores are made again, a query at a time, from the inputs and, for a softmax, the
//! row's `lse`.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::array::{Array, for_each_index};
use crate::attrs::Attrs;
use crate::grad::vjp;
use crate::named::Named;
use crate::op::{Cost, IndexInput, OnSlices, Op, OutRole};
use crate::ops::attention::bias::Fire;
use crate::ops::attention::operation::{Attention, AttentionSizes};
use crate::ops::attention::query::Operands;
use crate::ops::attention::scores::{heads_first, heads_last};
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs: `q`, `k`, `v`, for a softmax `o` and `lse`, then `do` (the cotangent of `o`), then the inputs that the
/// fields of [`Attention`] ask for. Outputs `dq`, `dk`, `dv`, with [`AttentionBias::Fire`](crate::ops::AttentionBias)
/// the derivatives of its parameters, and with a learned weight its derivative.
///
/// With the weights `P` and `dP_ij = drop(do_i · v_j)`, `dS` follows from the derivative of the weighting; for a
/// softmax of exponents `z` it begins with `dz = P (dP - delta)`, `delta_i = do_i · o_i`. Then `dq_i = scale sum_j
/// dS_ij k_j`, `dk_j = scale sum_i dS_ij q_i`, `dv_j = sum_i drop(P_ij) do_i`.
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

    /// Inputs between `v` and the inputs that the fields ask for: `o`, `lse` and `do`, or `do` alone.
    pub fn between(&self) -> usize {
        if self.forward.weighting.is_softmax() { 3 } else { 1 }
    }

    /// For each input of the forward operation whether its derivative is among the outputs, in order.
    pub(super) fn differentiable(&self) -> Vec<bool> {
        let op = self.forward;
        let one = |present: bool, differentiable: bool| present.then_some(differentiable);
        let singles = [one(op.masked, false), one(op.segmented, false), one(op.placed, false)];
        let fire = if op.has_fire() { Fire::<()>::COUNT } else { 0 };
        let mut all = vec![true; 3];
        all.extend(singles.into_iter().flatten());
        all.extend(vec![true; fire]);
        all.extend(
            [one(op.weighting.is_learned(), true), one(op.p > 0.0, false)]
                .into_iter()
                .flatten(),
        );
        all
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
    named!();

    facts! { contraction; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let between = self.between();
        let outputs = self.forward.check(inputs, between)?;
        let expected: Vec<&Type> = match between {
            1 => vec![&outputs[0]],
            _ => vec![&outputs[0], &outputs[1], &outputs[0]],
        };
        let found = &inputs[3..3 + between];
        if !found.iter().eq(expected.iter().copied()) {
            let list = |types: &[&Type]| types.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
            return Err(Error::user(format!(
                "the results of attention and the cotangent must be {}, not {}",
                list(&expected),
                list(&found.iter().collect::<Vec<_>>())
            )));
        }
        let forward = inputs[..3].iter().chain(&inputs[3 + between..]);
        let pairs = forward.zip(self.differentiable());
        Ok(pairs.filter(|(_, has)| *has).map(|(ty, _)| ty.clone()).collect())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (op, between) = (self.forward, self.between());
        let (q, k, v, dy) = (inputs[0], inputs[1], inputs[2], inputs[2 + between]);
        let operands = Operands::new(op, inputs, 3 + between);
        let n = operands.n;
        let mut all: Vec<Array> = outputs.iter().map(|ty| Array::full(ty.clone(), 0.0)).collect();
        for_each_index(&[n.batch, n.heads, n.queries], |index| {
            let (b, h, i) = (index[0], index[1], index[2]);
            let kv = n.kv_head(h);
            let scores = operands.scores(b, h, i);
            let seen = |j: &usize| scores.values[*j] != f64::NEG_INFINITY;
            let dweights: Vec<f64> = (0..n.keys)
                .map(|j| {
                    let product = |d| dy.at(&[b, i, h, d]) * v.at(&[b, j, kv, d]);
                    scores.factors[j] * (0..n.value).map(product).sum::<f64>()
                })
                .collect();
            let softmax = op.weighting.is_softmax().then(|| {
                let delta = (0..n.value)
                    .map(|d| dy.at(&[b, i, h, d]) * inputs[3].at(&[b, i, h, d]))
                    .sum();
                (inputs[4].at(index), delta)
            });
            let found = scores.cotangents(&op.weighting, softmax, &dweights);
            for j in (0..n.keys).filter(seen) {
                for d in 0..n.value {
                    let at = all[2].offset(&[b, j, kv, d]);
                    all[2].data[at] += scores.factors[j] * found.weights[j] * dy.at(&[b, i, h, d]);
                }
                for d in 0..n.head {
                    let (to_q, to_k) = (all[0].offset(&[b, i, h, d]), all[1].offset(&[b, j, kv, d]));
                    all[0].data[to_q] += op.scale * found.scores[j] * k.data[to_k];
                    all[1].data[to_k] += op.scale * found.scores[j] * q.data[to_q];
                }
            }
            let rest = &mut all[3..];
            operands.add_fire_derivatives((h, i), &scores, &found.scores, rest);
            if op.weighting.is_learned() {
                rest[rest.len() - 1].data[h] += found.weight;
            }
        });
        all
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (op, between) = (self.forward, self.between());
        let (q, k, v, dy) = (inputs[0], inputs[1], inputs[2], inputs[2 + between]);
        let n = AttentionSizes::of(&q.ty(), &k.ty(), &v.ty());
        // Copies, so that the derivative of the biases ends at the parameters of FIRE.
        let rest: Vec<Tensor> = inputs[3 + between..].iter().map(|x| x.identity()).collect();
        let all = op.scores(q, k, &rest, None);
        let (q4, k4, v4, dy4) = (
            heads_first(q, n.heads),
            heads_first(k, n.heads),
            heads_first(v, n.heads),
            heads_first(dy, n.heads),
        );
        let softmax = op.weighting.is_softmax().then(|| {
            // Rows without a visible key have `lse = -inf`; with 0 in its place their weights are zeros, not NaN.
            let lse = inputs[4].finite_or_zero().unsqueeze(-1);
            (lse, (dy4 * heads_first(inputs[3], n.heads)).sum_last())
        });
        let dweights = all.drop(dy4.matmul_t(v4));
        let (weights, dscores, dweight) = all.cotangents(softmax, dweights);
        let dproducts = dscores * op.scale;
        let mut found = vec![
            heads_last(dproducts.matmul(k4), n.heads, q.dtype()),
            heads_last(dproducts.transpose(2, 3).matmul(q4), n.kv_heads, q.dtype()),
            heads_last(all.drop(weights).transpose(2, 3).matmul(dy4), n.kv_heads, q.dtype()),
        ];
        if let (Some(biases), Some(fire)) = (all.biases, op.extras(&rest).fire) {
            let dbiases = match biases.shape().len() {
                3 => dscores.sum_axes(&[0]).reshape(&biases.shape()),
                _ => dscores,
            };
            let wrt = fire.into_array();
            let gradients = vjp(&[biases], &[Some(dbiases)], &wrt).into_iter().zip(wrt);
            found.extend(gradients.map(|(found, x)| found.unwrap_or_else(|| x.full_like(0.0))));
        }
        found.extend(dweight.map(|d| d.cast(q.dtype()).reshape(&[n.heads])));
        Some(found)
    }

    /// Derivatives of learned biases and weights are sums over all sequences, whose order slices would change.
    fn without_stream(&self) -> Option<Arc<dyn Op>> {
        Some(Arc::new(AttentionBackward::of(self.forward.without_stream())))
    }

    fn on_slices(&self, slice: (usize, usize), inputs: &[Type], outputs: &[Type]) -> OnSlices {
        match self.forward.on_slices(slice, inputs, self.between()) {
            Some((forward, roles)) if outputs.len() == 3 => {
                OnSlices::Roles(Arc::new(AttentionBackward { forward }), roles, vec![OutRole::Rows; 3])
            }
            _ => OnSlices::No,
        }
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let n = AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]);
        let scores = self.forward.share(inputs, 3 + self.between()) * n.scores() as f64;
        // Five products, and about 20 operations for each exponential.
        Cost {
            product_flops: (2 * (3 * n.head + 2 * n.value)) as f64 * scores,
            ..Cost::vector(20.0 * scores, inputs, outputs)
        }
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        self.forward.starts_input(inputs, 3 + self.between())
    }
}
