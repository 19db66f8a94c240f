//! Scaled dot-product attention of several heads (Vaswani et al. 2017) and its relatives, computed as FlashAttention
//! does (Dao et al. 2022): scores and weights exist only inside the operation, which keeps at most one number per row
//! for the derivative.

use std::sync::Arc;

use lessen_base::Result;

use crate::array::{Array, for_each_index};
use crate::op::{Cost, IndexInput, OnSlices, Op, OutRole, Vjp};
use crate::ops::attention::backward::AttentionBackward;
use crate::ops::attention::bias::{AttentionBias, Fire, FireMiddle};
use crate::ops::attention::operation::{Attention, AttentionSizes};
use crate::ops::attention::query::Operands;
use crate::ops::attention::scores::{AttentionScores, FireLayers};
use crate::ops::attention::weighting::Weighting;
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::Type;

impl Op for Attention {
    named!();

    facts! { contraction; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        self.check(inputs, 0)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let operands = Operands::new(*self, inputs, 3);
        let n = operands.n;
        let mut o = Array::full(outputs[0].clone(), 0.0);
        let mut lses = Vec::new();
        for_each_index(&[n.batch, n.heads, n.queries], |index| {
            let (b, h, i) = (index[0], index[1], index[2]);
            let scores = operands.scores(b, h, i);
            let (weights, lse) = scores.weights(&self.weighting);
            lses.extend(lse);
            for j in (0..n.keys).filter(|&j| weights[j] * scores.factors[j] != 0.0) {
                for d in 0..n.value {
                    let at = o.offset(&[b, i, h, d]);
                    o.data[at] += weights[j] * scores.factors[j] * inputs[2].at(&[b, j, n.kv_head(h), d]);
                }
            }
        });
        let lse = outputs.get(1).map(|ty| Array::new(ty.clone(), lses));
        std::iter::once(o).chain(lse).collect()
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        // The derivative of `lse` is that of the decomposition.
        let Some(dy) = cx.cotangents[0].filter(|_| cx.cotangents[1..].iter().all(Option::is_none)) else {
            return Vec::new();
        };
        let outputs = if self.weighting.is_softmax() { cx.outputs } else { &[] };
        let inputs = [&cx.inputs[..3], outputs, &[dy], &cx.inputs[3..]].concat();
        let backward = AttentionBackward::of(*self);
        let mut found = dy.trace().apply(backward, &inputs).into_iter();
        let differentiable = backward.differentiable();
        differentiable
            .into_iter()
            .map(|has| if has { found.next() } else { None })
            .collect()
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let qkv = [inputs[0], inputs[1], inputs[2]];
        Some(self.unfused(qkv, &inputs[3..], None))
    }

    fn without_stream(&self) -> Option<Arc<dyn Op>> {
        Some(Arc::new(Attention::without_stream(self)))
    }

    fn on_slices(&self, slice: (usize, usize), inputs: &[Type], outputs: &[Type]) -> OnSlices {
        match Attention::on_slices(self, slice, inputs, 0) {
            Some((op, roles)) => OnSlices::Roles(Arc::new(op), roles, vec![OutRole::Rows; outputs.len()]),
            None => OnSlices::No,
        }
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let n = AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]);
        let scores = self.share(inputs, 3) * n.scores() as f64;
        // Two products, and about 20 operations for each exponential.
        Cost {
            product_flops: (2 * (n.head + n.value)) as f64 * scores,
            ..Cost::vector(20.0 * scores, inputs, outputs)
        }
    }

    /// All queries with all keys, also those that a query does not see.
    fn products(&self, inputs: &[Type], _: &[Type]) -> Vec<Products> {
        let n = AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]);
        let heads = n.batch * n.heads;
        let scores = Products::matrix([Some(0), Some(1)], n.queries, n.head, n.keys);
        let values = Products::matrix([None, Some(2)], n.queries, n.keys, n.value);
        vec![
            scores.called("scores").times(heads),
            values.called("values").times(heads),
        ]
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        self.starts_input(inputs, 3)
    }
}

/// A position bias with its parameters.
#[derive(Clone, Copy, Debug, Default)]
pub enum PositionBias {
    /// None.
    #[default]
    None,
    /// ALiBi.
    Alibi,
    /// FIRE with these parameters.
    Fire(Fire<Tensor>),
    /// FIRE with two hidden layers. No operation has it: scores and weights are values of the graph.
    DeepFire(Fire<Tensor>, FireMiddle<Tensor>),
}

/// Options of [`attention`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions {
    /// How scores become weights.
    pub weighting: Weighting,
    /// For a learned weighting the weights `[H]`.
    pub weight: Option<Tensor>,
    /// Position bias of the scores.
    pub bias: PositionBias,
    /// Whether a query sees no later key.
    pub causal: bool,
    /// Factor of the products of queries and keys; `1 / sqrt(D)` if not given, 1 for heads without elements.
    pub scale: Option<f64>,
    /// `bool[B, Tk]`: true where the key may be attended to.
    pub mask: Option<Tensor>,
    /// `i32[S + 1]`: the starts of sequences that follow each other, see [`Attention`].
    pub starts: Option<Tensor>,
    /// `i32[]`, or `i32[B]` with one for each sequence: the position of the first query among the keys.
    pub offset: Option<Tensor>,
    /// Probability that an attention weight becomes zero, and the key `u32[2]` of the random bits.
    pub dropout: Option<(f64, Tensor)>,
}

impl AttentionOptions {
    /// The scores of queries `[B, Tq, H, D]` for keys `[B, Tk, G, D]`, ready to become weights.
    #[track_caller]
    pub fn scores(&self, q: Tensor, k: Tensor) -> AttentionScores {
        let (op, rest) = self.operation(q);
        op.scores(q, k, &rest, self.deep_fire())
    }

    fn deep_fire(&self) -> Option<FireLayers> {
        match self.bias {
            PositionBias::DeepFire(fire, middle) => Some((fire, Some(middle))),
            _ => None,
        }
    }

    /// The operation with these options but for [`PositionBias::DeepFire`], and its inputs after `q`, `k` and `v`; `q`
    /// gives the default scale.
    #[track_caller]
    fn operation(&self, q: Tensor) -> (Attention, Vec<Tensor>) {
        let dropout = self.dropout.filter(|(p, _)| *p != 0.0);
        let (bias, fire) = match self.bias {
            PositionBias::None | PositionBias::DeepFire(..) => (AttentionBias::None, None),
            PositionBias::Alibi => (AttentionBias::Alibi, None),
            PositionBias::Fire(fire) => (AttentionBias::Fire, Some(fire.into_array())),
        };
        let op = Attention {
            weighting: self.weighting,
            bias,
            causal: self.causal,
            scale: self.scale.unwrap_or_else(|| 1.0 / (q.dim(-1).max(1) as f64).sqrt()),
            p: dropout.map_or(0.0, |(p, _)| p),
            stream: if dropout.is_some() { q.trace().new_stream() } else { 0 },
            masked: self.mask.is_some(),
            segmented: self.starts.is_some(),
            placed: self.offset.is_some(),
            sequence: 0,
        };
        let single = self.mask.into_iter().chain(self.starts).chain(self.offset);
        let rest = single.chain(fire.into_iter().flatten()).chain(self.weight);
        (op, rest.chain(dropout.map(|(_, key)| key)).collect())
    }
}

/// Attention of queries `[B, Tq, H, D]` to keys `[B, Tk, G, D]` and values `[B, Tk, G, Dv]`: `[B, Tq, H, Dv]`. See
/// [`Attention`].
#[track_caller]
pub fn attention(q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions) -> Tensor {
    let (op, rest) = options.operation(q);
    if let Some(deep) = options.deep_fire() {
        return op.unfused([q, k, v], &rest, Some(deep))[0];
    }
    q.trace().apply(op, &[&[q, k, v], &rest[..]].concat())[0]
}
