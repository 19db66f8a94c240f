//! The derivative of gated recurrent units.

use lessen_base::Result;

use super::steps::{
    MOST_WRITTEN_OUT, RecurrentSizes, at, before, begins, check_gru_order, order, placed, product, sliced, stacked,
};
use crate::array::Array;
use crate::op::{Cost, OnSlices, Op};
use crate::ops::rules::{arity, arrays};
use crate::ops::shape::concat::concat;
use crate::tensor::Tensor;
use crate::types::Type;

/// The derivative of [`Gru`](super::Gru): inputs `weight`, `h0`, `h`, `gates`, `m` and the cotangent `dh` of all steps;
/// outputs `dsums[B, T, 3 H]`, `dm[B, T, H]`, `dh0[B, H]`.
///
/// Steps are taken the other way round. With `dh_t` of a step, to which the later step has added its own, `dsums_t` are
/// `dn m r (1 - r)`, `dh_t (h_(t-1) - n) z (1 - z)` and `dn = dh_t (1 - z) (1 - n²)`; `dm_t = dn r`; the earlier step
/// gets `dh_t z` and the product of the first two of `dsums_t` and `dm_t` with `weight`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GruBackward {
    /// That of the [`Gru`](super::Gru).
    pub reverse: bool,
    /// That of the [`Gru`](super::Gru).
    pub order: [usize; 3],
}

named!("gru_backward": GruBackward { reverse, order });

impl Op for GruBackward {
    named!();

    facts! { in_place((3, 0) | (4, 1)); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 6)?;
        check_gru_order(self.order)?;
        let [weight, h0, h, gates, m, dh] = inputs else {
            unreachable!("six inputs")
        };
        let sizes = RecurrentSizes::checked(gates, h0, 3)?;
        let RecurrentSizes { batch, steps, hidden } = sizes;
        sizes.check(weight, gates, &[gates.last(), hidden])?;
        sizes.check(h0, gates, &[batch, hidden])?;
        for ty in [h, m, dh] {
            sizes.check(ty, gates, &[batch, steps, hidden])?;
        }
        Ok(vec![gates.clone(), m.clone(), h0.clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let [weight, h0, h, gates, m, dh] = [0, 1, 2, 3, 4, 5].map(|i| &inputs[i].data[..]);
        let RecurrentSizes {
            batch,
            steps,
            hidden: n,
        } = RecurrentSizes::of(&inputs[2].ty);
        let (mut dsums, mut dm) = (vec![0.0; batch * steps * 3 * n], vec![0.0; batch * steps * n]);
        let mut dh0 = Vec::new();
        for sequence in 0..batch {
            let mut later = vec![0.0; n];
            for step in order(steps, self.reverse).rev() {
                let row = sequence * steps + step;
                let state = match before(step, steps, self.reverse) {
                    Some(before) => &h[(sequence * steps + before) * n..][..n],
                    None => &h0[sequence * n..(sequence + 1) * n],
                };
                let mut products = vec![0.0; 3 * n];
                for unit in 0..n {
                    let [r, z, candidate] = self.order.map(|place| gates[(row * 3 + place) * n + unit]);
                    let dh = dh[row * n + unit] + later[unit];
                    let dn = dh * (1.0 - z) * (1.0 - candidate * candidate);
                    let dr = dn * m[row * n + unit] * r * (1.0 - r);
                    let dz = dh * (state[unit] - candidate) * z * (1.0 - z);
                    later[unit] = dh * z;
                    dm[row * n + unit] = dn * r;
                    for (place, x) in self.order.iter().zip([dr, dz, dn]) {
                        dsums[(row * 3 + place) * n + unit] = x;
                    }
                    for (place, x) in self.order.iter().zip([dr, dz, dn * r]) {
                        products[place * n + unit] = x;
                    }
                }
                let earlier = product(&products, weight, n);
                later.iter_mut().zip(earlier).for_each(|(later, x)| *later += x);
            }
            dh0.extend(later);
        }
        arrays(outputs, [dsums, dm, dh0])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [weight, h0, h, gates, m, dh] = *inputs else {
            return None;
        };
        let (steps, n) = (h.shape()[1], h.shape()[2]);
        if steps > MOST_WRITTEN_OUT {
            return None;
        }
        let states = begins(h, h0, self.reverse);
        let mut later = h0.full_like(0.0);
        let (mut all, mut all_m) = (Vec::new(), Vec::new());
        for step in order(steps, self.reverse).rev() {
            let gates = at(gates, step).split(-1, &[n; 3]);
            let [r, z, candidate] = self.order.map(|place| gates[place]);
            let dh = at(dh, step) + later;
            let dn = dh * (1.0 - z) * (1.0 - candidate * candidate);
            let dr = dn * at(m, step) * r * (1.0 - r);
            let dz = dh * (at(states, step) - candidate) * z * (1.0 - z);
            let dm = dn * r;
            later = dh * z + concat(&placed([dr, dz, dm], self.order), -1).matmul(weight);
            all.push(concat(&placed([dr, dz, dn], self.order), -1));
            all_m.push(dm);
        }
        Some(vec![stacked(all, !self.reverse), stacked(all_m, !self.reverse), later])
    }

    fn on_slices(&self, _: (usize, usize), inputs: &[Type], outputs: &[Type]) -> OnSlices {
        sliced(*self, &[0], inputs.len(), outputs.len())
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        RecurrentSizes::of(&inputs[2]).cost(3, inputs, outputs)
    }
}
