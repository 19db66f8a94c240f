//! Gated recurrent units (Cho et al. 2014) over whole sequences, with the reset gate after the product.

use lessen_base::Result;

use super::gru_backward::GruBackward;
use super::steps::{
    MOST_WRITTEN_OUT, RecurrentSizes, add_product, at, begins, check_gru_order, order, placed, sigmoid, sliced,
    stacked, weight_cotangent,
};
use crate::array::Array;
use crate::op::{Cost, OnSlices, Op, Vjp};
use crate::ops::rules::{arity, arrays};
use crate::ops::shape::concat::concat;
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `sums[B, T, 3 H]`, `weight[3 H, H]`, `bias[H]`, `h0[B, H]`; outputs `h[B, T, H]`, `gates[B, T, 3 H]` and
/// `m[B, T, H]`.
///
/// With `sums_t` and `h_(t-1) weightᵀ` cut into three parts of `H` each, `s_1, s_2, s_3` and `p_1, p_2, p_3`
/// by the numbers in `order`: `r` and `z`
/// are the logistic function of `s_1 + p_1` and `s_2 + p_2`, `m = p_3 + bias`, `n = tanh(s_3 + r m)` and
/// `h_t = (1 - z) n + z h_(t-1)`; `gates_t` are `r, z, n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gru {
    /// Whether the last step is taken first: step `t` follows step `t + 1`.
    pub reverse: bool,
    /// The places of the parts of `r, z, n`: 0, 1, 2 in PyTorch. That of `n` is the last one.
    pub order: [usize; 3],
}

named!("gru": Gru { reverse, order });

impl Op for Gru {
    named!();

    facts! { in_place((0, 1)); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        check_gru_order(self.order)?;
        let sums = &inputs[0];
        let sizes = RecurrentSizes::checked(sums, &inputs[3], 3)?;
        let RecurrentSizes { batch, steps, hidden } = sizes;
        sizes.check(&inputs[1], sums, &[sums.last(), hidden])?;
        sizes.check(&inputs[2], sums, &[hidden])?;
        sizes.check(&inputs[3], sums, &[batch, hidden])?;
        let h = Type::sized(sums.dtype, &[batch, steps, hidden])?;
        Ok(vec![h.clone(), sums.clone(), h])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let RecurrentSizes {
            batch,
            steps,
            hidden: n,
        } = RecurrentSizes::of(&outputs[0]);
        let (mut h, mut m) = (vec![0.0; batch * steps * n], vec![0.0; batch * steps * n]);
        let mut gates = inputs[0].data.clone();
        for sequence in 0..batch {
            let mut state = inputs[3].data[sequence * n..(sequence + 1) * n].to_vec();
            for step in order(steps, self.reverse) {
                let row = sequence * steps + step;
                let mut p = vec![0.0; 3 * n];
                add_product(&mut p, &state, &inputs[1].data);
                let s = &mut gates[row * 3 * n..(row + 1) * 3 * n];
                for unit in 0..n {
                    let [s_1, s_2, s_3] = self.order.map(|place| s[place * n + unit]);
                    let [p_1, p_2, p_3] = self.order.map(|place| p[place * n + unit]);
                    let (r, z) = (sigmoid(s_1 + p_1), sigmoid(s_2 + p_2));
                    let m_unit = p_3 + inputs[2].data[unit];
                    let candidate = (s_3 + r * m_unit).tanh();
                    state[unit] = (1.0 - z) * candidate + z * state[unit];
                    m[row * n + unit] = m_unit;
                    let gates = self.order.iter().zip([r, z, candidate]);
                    gates.for_each(|(place, x)| s[place * n + unit] = x);
                }
                h[row * n..(row + 1) * n].copy_from_slice(&state);
            }
        }
        arrays(outputs, [h, gates, m])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let [Some(dh), None, None] = cx.cotangents else {
            return Vec::new();
        };
        let ([_, weight, _, h0], [h, gates, m]) = (cx.inputs, cx.outputs) else {
            return Vec::new();
        };
        let op = GruBackward {
            reverse: self.reverse,
            order: self.order,
        };
        let found = dh.trace().apply(op, &[*weight, *h0, *h, *gates, *m, *dh]);
        let (dsums, dm) = (found[0], found[1]);
        let dweight = || {
            let n = dm.shape()[2];
            let products = concat(&[dsums.slice(-1, 0, 2 * n), dm], -1);
            weight_cotangent(products, begins(*h, *h0, self.reverse))
        };
        vec![
            Some(dsums),
            cx.wanted[1].then(dweight),
            cx.wanted[2].then(|| dm.sum_rows()),
            Some(found[2]),
        ]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [sums, weight, bias, mut h] = *inputs else {
            return None;
        };
        let (steps, n) = (sums.shape()[1], h.shape()[1]);
        if steps > MOST_WRITTEN_OUT {
            return None;
        }
        let (mut all_h, mut all_gates, mut all_m) = (Vec::new(), Vec::new(), Vec::new());
        for step in order(steps, self.reverse) {
            let s = at(sums, step).split(-1, &[n; 3]);
            let p = h.matmul_t(weight).split(-1, &[n; 3]);
            let ([s_1, s_2, s_3], [p_1, p_2, p_3]) = (self.order.map(|i| s[i]), self.order.map(|i| p[i]));
            let (r, z) = ((s_1 + p_1).sigmoid(), (s_2 + p_2).sigmoid());
            let m = p_3 + bias;
            let candidate = (s_3 + r * m).tanh();
            h = (1.0 - z) * candidate + z * h;
            all_h.push(h);
            all_gates.push(concat(&placed([r, z, candidate], self.order), -1));
            all_m.push(m);
        }
        Some(
            [all_h, all_gates, all_m]
                .map(|each| stacked(each, self.reverse))
                .to_vec(),
        )
    }

    fn on_slices(&self, _: (usize, usize), inputs: &[Type], outputs: &[Type]) -> OnSlices {
        sliced(*self, &[1, 2], inputs.len(), outputs.len())
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        RecurrentSizes::of(&outputs[0]).cost(3, inputs, outputs)
    }

    fn products(&self, _: &[Type], outputs: &[Type]) -> Vec<Products> {
        vec![RecurrentSizes::of(&outputs[0]).products(3)]
    }
}

impl Tensor {
    /// Gated recurrent units over sequences of sums `[B, T, 3 H]`, which hold what inputs and biases contribute, with
    /// the recurrent weight `[3 H, H]`, gates in PyTorch's order, the candidate's recurrent bias `[H]` and the first
    /// state `[B, H]`: hidden states of all steps, `[B, T, H]`. See [`Gru`].
    ///
    /// # Panics
    /// If extents do not fit, or there is no step.
    #[track_caller]
    pub fn gru(self, weight: Tensor, bias: Tensor, h0: Tensor, reverse: bool) -> Tensor {
        self.trace().apply(
            Gru {
                reverse,
                order: [0, 1, 2],
            },
            &[self, weight, bias, h0],
        )[0]
    }
}
