//! Long short-term memory (Hochreiter, Schmidhuber 1997; Gers et al. 2000) over whole sequences.

use lessen_base::Result;

use super::lstm_backward::LstmBackward;
use super::steps::{
    MOST_WRITTEN_OUT, RecurrentSizes, add_product, at, begins, check_order, order, placed, sigmoid, sliced, stacked,
    weight_cotangent,
};
use crate::array::Array;
use crate::op::{Cost, OnSlices, Op, Vjp};
use crate::ops::rules::{arity, arrays};
use crate::ops::shape::concat::concat;
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `sums[B, T, 4 H]`, `weight[4 H, H]`, `h0[B, H]`, `c0[B, H]`; outputs `h[B, T, H]`, `c[B, T, H]` and
/// `gates[B, T, 4 H]`.
///
/// With `a_t = sums_t + h_(t-1) weightᵀ`, cut into four parts of `H` each, of which `i, f, g, o` are those that
/// `order` numbers: `i, f, o` become their logistic function and
/// `g` its hyperbolic tangent, which are `gates_t`; `c_t = f c_(t-1) + i g` and `h_t = o tanh(c_t)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lstm {
    /// Whether the last step is taken first: step `t` follows step `t + 1`.
    pub reverse: bool,
    /// The places of `i, f, g, o` among the parts: 0, 1, 2, 3 in PyTorch.
    pub order: [usize; 4],
}

named!("lstm": Lstm { reverse, order });

impl Op for Lstm {
    named!();

    facts! { in_place((0, 2)); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        check_order(self.order)?;
        let sums = &inputs[0];
        let sizes = RecurrentSizes::checked(sums, &inputs[2], 4)?;
        let RecurrentSizes { batch, steps, hidden } = sizes;
        sizes.check(&inputs[1], sums, &[sums.last(), hidden])?;
        sizes.check(&inputs[2], sums, &[batch, hidden])?;
        sizes.check(&inputs[3], sums, &[batch, hidden])?;
        let h = Type::sized(sums.dtype, &[batch, steps, hidden])?;
        Ok(vec![h.clone(), h, sums.clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let RecurrentSizes {
            batch,
            steps,
            hidden: n,
        } = RecurrentSizes::of(&outputs[0]);
        let (mut h, mut c) = (vec![0.0; batch * steps * n], vec![0.0; batch * steps * n]);
        let mut gates = inputs[0].data.clone();
        for sequence in 0..batch {
            let first = sequence * n..(sequence + 1) * n;
            let mut state = inputs[2].data[first.clone()].to_vec();
            let mut cell = inputs[3].data[first].to_vec();
            for step in order(steps, self.reverse) {
                let row = sequence * steps + step;
                let a = &mut gates[row * 4 * n..(row + 1) * 4 * n];
                add_product(a, &state, &inputs[1].data);
                for unit in 0..n {
                    let sums = self.order.map(|place| a[place * n + unit]);
                    let [i, f, o] = [0, 1, 3].map(|gate| sigmoid(sums[gate]));
                    let g = sums[2].tanh();
                    cell[unit] = f * cell[unit] + i * g;
                    state[unit] = o * cell[unit].tanh();
                    let gates = self.order.iter().zip([i, f, g, o]);
                    gates.for_each(|(place, x)| a[place * n + unit] = x);
                }
                h[row * n..(row + 1) * n].copy_from_slice(&state);
                c[row * n..(row + 1) * n].copy_from_slice(&cell);
            }
        }
        arrays(outputs, [h, c, gates])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let [dh, dc, None] = cx.cotangents else {
            return Vec::new();
        };
        let ([_, weight, h0, c0], [h, c, gates]) = (cx.inputs, cx.outputs) else {
            return Vec::new();
        };
        let dh = dh.unwrap_or_else(|| h.full_like(0.0));
        let dc = dc.unwrap_or_else(|| c.full_like(0.0));
        let op = LstmBackward {
            reverse: self.reverse,
            order: self.order,
        };
        let found = h.trace().apply(op, &[*weight, *c0, *c, *gates, dh, dc]);
        let dweight = || weight_cotangent(found[0], begins(*h, *h0, self.reverse));
        vec![
            Some(found[0]),
            cx.wanted[1].then(dweight),
            Some(found[1]),
            Some(found[2]),
        ]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [sums, weight, mut h, mut c] = *inputs else {
            return None;
        };
        let (steps, n) = (sums.shape()[1], h.shape()[1]);
        if steps > MOST_WRITTEN_OUT {
            return None;
        }
        let (mut all_h, mut all_c, mut all_gates) = (Vec::new(), Vec::new(), Vec::new());
        for step in order(steps, self.reverse) {
            let a = (at(sums, step) + h.matmul_t(weight)).split(-1, &[n; 4]);
            let [i, f, g, o] = self.order.map(|place| a[place]);
            let (i, f, g, o) = (i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid());
            c = f * c + i * g;
            h = o * c.tanh();
            all_h.push(h);
            all_c.push(c);
            all_gates.push(concat(&placed([i, f, g, o], self.order), -1));
        }
        Some(
            [all_h, all_c, all_gates]
                .map(|each| stacked(each, self.reverse))
                .to_vec(),
        )
    }

    fn on_slices(&self, _: (usize, usize), inputs: &[Type], outputs: &[Type]) -> OnSlices {
        sliced(*self, &[1], inputs.len(), outputs.len())
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        RecurrentSizes::of(&outputs[0]).cost(4, inputs, outputs)
    }

    fn products(&self, _: &[Type], outputs: &[Type]) -> Vec<Products> {
        vec![RecurrentSizes::of(&outputs[0]).products(4)]
    }
}

impl Tensor {
    /// An LSTM over sequences of sums `[B, T, 4 H]`, which hold what inputs and biases contribute, with the recurrent
    /// weight `[4 H, H]`, gates in PyTorch's order, and the first states `[B, H]`: hidden states and cells of all
    /// steps, `[B, T, H]` each. See [`Lstm`].
    ///
    /// # Panics
    /// If extents do not fit, or there is no step.
    #[track_caller]
    pub fn lstm(self, weight: Tensor, (h0, c0): (Tensor, Tensor), reverse: bool) -> (Tensor, Tensor) {
        let found = self.trace().apply(
            Lstm {
                reverse,
                order: [0, 1, 2, 3],
            },
            &[self, weight, h0, c0],
        );
        (found[0], found[1])
    }
}
