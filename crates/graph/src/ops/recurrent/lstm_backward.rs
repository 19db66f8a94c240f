//! The derivative of long short-term memory.

use lessen_base::Result;

use super::steps::{
    MOST_WRITTEN_OUT, RecurrentSizes, at, before, begins, check_order, order, placed, product, sliced, stacked,
};
use crate::array::Array;
use crate::op::{Cost, OnSlices, Op};
use crate::ops::rules::{arity, arrays};
use crate::ops::shape::concat::concat;
use crate::tensor::Tensor;
use crate::types::Type;

/// The derivative of [`Lstm`](super::Lstm): inputs `weight`, `c0`, `c`, `gates` and the cotangents `dh`, `dc` of all
/// steps; outputs `dsums[B, T, 4 H]`, `dh0[B, H]`, `dc0[B, H]`.
///
/// Steps are taken the other way round. With `dh_t` and `dc_t` of a step, to which the later step has added its own:
/// `dc_t += dh_t o (1 - tanh²(c_t))`; `dsums_t` are `dc_t g i (1 - i)`, `dc_t c_(t-1) f (1 - f)`, `dc_t i (1 - g²)` and
/// `dh_t tanh(c_t) o (1 - o)`; the earlier step gets `dsums_t weight` and `dc_t f`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LstmBackward {
    /// That of the [`Lstm`](super::Lstm).
    pub reverse: bool,
    /// That of the [`Lstm`](super::Lstm).
    pub order: [usize; 4],
}

named!("lstm_backward": LstmBackward { reverse, order });

impl Op for LstmBackward {
    named!();

    facts! { in_place((3, 0)); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 6)?;
        check_order(self.order)?;
        let [weight, c0, c, gates, dh, dc] = inputs else {
            unreachable!("six inputs")
        };
        let sizes = RecurrentSizes::checked(gates, c0, 4)?;
        let RecurrentSizes { batch, steps, hidden } = sizes;
        sizes.check(weight, gates, &[gates.last(), hidden])?;
        sizes.check(c0, gates, &[batch, hidden])?;
        for ty in [c, dh, dc] {
            sizes.check(ty, gates, &[batch, steps, hidden])?;
        }
        Ok(vec![gates.clone(), c0.clone(), c0.clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let [weight, c0, c, gates, dh, dc] = [0, 1, 2, 3, 4, 5].map(|i| &inputs[i].data[..]);
        let RecurrentSizes {
            batch,
            steps,
            hidden: n,
        } = RecurrentSizes::of(&inputs[2].ty);
        let mut dsums = vec![0.0; batch * steps * 4 * n];
        let (mut dh0, mut dc0) = (Vec::new(), Vec::new());
        for sequence in 0..batch {
            let c = &c[sequence * steps * n..(sequence + 1) * steps * n];
            let c0 = &c0[sequence * n..(sequence + 1) * n];
            let (mut later_h, mut later_c) = (vec![0.0; n], vec![0.0; n]);
            for step in order(steps, self.reverse).rev() {
                let row = sequence * steps + step;
                let before = cell_before(c, c0, (steps, n), step, self.reverse);
                let to = &mut dsums[row * 4 * n..(row + 1) * 4 * n];
                for unit in 0..n {
                    let gate = |place: usize| gates[(row * 4 + place) * n + unit];
                    let cells = (c[step * n + unit], before[unit]);
                    let given = (dh[row * n + unit] + later_h[unit], dc[row * n + unit] + later_c[unit]);
                    let (sums, earlier) = derive(self.order.map(gate), cells, given);
                    later_c[unit] = earlier;
                    let sums = self.order.iter().zip(sums);
                    sums.for_each(|(place, x)| to[place * n + unit] = x);
                }
                later_h = product(to, weight, n);
            }
            dh0.extend(later_h);
            dc0.extend(later_c);
        }
        arrays(outputs, [dsums, dh0, dc0])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [weight, c0, c, gates, dh, dc] = *inputs else {
            return None;
        };
        let (steps, n) = (c.shape()[1], c.shape()[2]);
        if steps > MOST_WRITTEN_OUT {
            return None;
        }
        let cells_before = begins(c, c0, self.reverse);
        let mut later_h = c0.full_like(0.0);
        let mut later_c = later_h;
        let mut all = Vec::new();
        for step in order(steps, self.reverse).rev() {
            let gates = at(gates, step).split(-1, &[n; 4]);
            let [i, f, g, o] = self.order.map(|place| gates[place]);
            let t = at(c, step).tanh();
            let dh = at(dh, step) + later_h;
            let dc = at(dc, step) + later_c + dh * o * (1.0 - t * t);
            let sums = [
                dc * g * i * (1.0 - i),
                dc * at(cells_before, step) * f * (1.0 - f),
                dc * i * (1.0 - g * g),
                dh * t * o * (1.0 - o),
            ];
            let sums = concat(&placed(sums, self.order), -1);
            later_h = sums.matmul(weight);
            later_c = dc * f;
            all.push(sums);
        }
        Some(vec![stacked(all, !self.reverse), later_h, later_c])
    }

    fn on_slices(&self, _: (usize, usize), inputs: &[Type], outputs: &[Type]) -> OnSlices {
        sliced(*self, &[0], inputs.len(), outputs.len())
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        RecurrentSizes::of(&inputs[2]).cost(4, inputs, outputs)
    }
}

/// The parts of a step of the derivative of an LSTM: cotangents of the four sums and of the cell before, from those of
/// the hidden state and of the cell.
fn derive([i, f, g, o]: [f64; 4], (c, c_before): (f64, f64), (dh, dc): (f64, f64)) -> ([f64; 4], f64) {
    let t = c.tanh();
    let dc = dc + dh * o * (1.0 - t * t);
    let sums = [
        dc * g * i * (1.0 - i),
        dc * c_before * f * (1.0 - f),
        dc * i * (1.0 - g * g),
        dh * t * o * (1.0 - o),
    ];
    (sums, dc * f)
}

/// The cell before each step of a sequence, for evaluation.
fn cell_before<'a>(c: &'a [f64], c0: &'a [f64], (steps, n): (usize, usize), step: usize, reverse: bool) -> &'a [f64] {
    match before(step, steps, reverse) {
        Some(before) => &c[before * n..(before + 1) * n],
        None => c0,
    }
}
