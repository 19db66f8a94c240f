//! Extents of recurrent networks, and the order of their steps.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::op::{Cost, OnSlices, Op, OutRole, Role};
use crate::ops::contraction::matmul::MatMul;
use crate::ops::rules::float;
use crate::ops::shape::concat::concat;
use crate::products::Products;
use crate::tensor::Tensor;
use crate::types::Type;

/// The extents of a recurrent network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecurrentSizes {
    /// Sequences in the batch.
    pub batch: usize,
    /// Steps of a sequence, at least one.
    pub steps: usize,
    /// Hidden units.
    pub hidden: usize,
}

impl RecurrentSizes {
    /// From the type of the hidden states of all steps, `[B, T, H]`.
    pub fn of(h: &Type) -> RecurrentSizes {
        RecurrentSizes {
            batch: h.shape[0],
            steps: h.shape[1],
            hidden: h.shape[2],
        }
    }

    /// From the types of sums `[B, T, gates H]` and of a state `[B, H]`.
    ///
    /// # Errors
    /// Types of other ranks, extents that do not fit, sequences without steps.
    pub(super) fn checked(sums: &Type, state: &Type, gates: usize) -> Result<RecurrentSizes> {
        float(sums)?;
        let (&[batch, steps, width], &[rows, hidden]) = (&sums.shape[..], &state.shape[..]) else {
            return Err(Error::user(format!(
                "needs sums [B, T, {gates} H] and a state [B, H], not {sums} and {state}"
            )));
        };
        if batch != rows || hidden.checked_mul(gates) != Some(width) {
            return Err(Error::user(format!(
                "sums {sums} and a state {state} do not fit: {gates} sums for each unit"
            )));
        }
        if steps == 0 {
            return Err(Error::user(format!("needs at least one step, not {sums}")));
        }
        Ok(RecurrentSizes { batch, steps, hidden })
    }

    /// Checks that a type has these extents, and the dtype of `sums`.
    pub(super) fn check(&self, ty: &Type, sums: &Type, shape: &[usize]) -> Result<()> {
        if ty.dtype == sums.dtype && ty.shape[..] == *shape {
            return Ok(());
        }
        let expected = Type::new(sums.dtype, shape);
        Err(Error::user(format!("needs {expected} beside sums {sums}, not {ty}")))
    }

    /// Products of the states with the recurrent weight, of this many sums for each unit.
    pub(super) fn products(&self, gates: usize) -> Products {
        Products::matrix([None, Some(1)], self.batch, self.hidden, gates * self.hidden).steps(self.steps)
    }

    /// Cost of a network with this many sums for each unit, and of its derivative.
    pub(super) fn cost(&self, gates: usize, inputs: &[Type], outputs: &[Type]) -> Cost {
        let states = self.batch as f64 * self.steps as f64 * self.hidden as f64;
        Cost {
            product_flops: 2.0 * states * (gates * self.hidden) as f64,
            ..Cost::vector(12.0 * gates as f64 * states, inputs, outputs)
        }
    }
}

/// The most steps that are written out: a device without a kernel evaluates longer sequences itself.
pub(super) const MOST_WRITTEN_OUT: usize = 256;

/// Checks that `order` has each place among the parts of a step's sums once.
pub(super) fn check_order<const N: usize>(order: [usize; N]) -> Result<()> {
    if (0..N).all(|place| order.contains(&place)) {
        Ok(())
    } else {
        Err(Error::user(format!(
            "the order {order:?} of {N} gates does not have each place once"
        )))
    }
}

/// [`check_order`] of a GRU, whose candidate is the last part, so that its products' cotangents follow those of the
/// gates.
pub(super) fn check_gru_order(order: [usize; 3]) -> Result<()> {
    check_order(order)?;
    if order[2] == 2 {
        Ok(())
    } else {
        Err(Error::user(format!(
            "the order {order:?} of a GRU does not have its candidate last"
        )))
    }
}

/// Gates in the places that `order` gives them.
pub(super) fn placed<T: Copy, const N: usize>(gates: [T; N], order: [usize; N]) -> [T; N] {
    let mut all = gates;
    order.iter().zip(gates).for_each(|(place, gate)| all[*place] = gate);
    all
}

/// The steps in the order in which a network takes them.
pub(super) fn order(steps: usize, reverse: bool) -> impl DoubleEndedIterator<Item = usize> {
    (0..steps).map(move |i| if reverse { steps - 1 - i } else { i })
}

/// The step that a network takes before another one; none before the first one.
pub(super) fn before(step: usize, steps: usize, reverse: bool) -> Option<usize> {
    let before = if reverse { step + 1 } else { step.wrapping_sub(1) };
    (before < steps).then_some(before)
}

/// The states that each step begins with, from those that each ends with.
pub(super) fn begins(states: Tensor, first: Tensor, reverse: bool) -> Tensor {
    let steps = states.shape()[1];
    let first = first.unsqueeze(1);
    if reverse {
        concat(&[states.slice(1, 1, steps - 1), first], 1)
    } else {
        concat(&[first, states.slice(1, 0, steps - 1)], 1)
    }
}

/// One step of values of all steps.
pub(super) fn at(all: Tensor, step: usize) -> Tensor {
    let shape = all.shape();
    all.slice(1, step, 1).reshape(&[shape[0], shape[2]])
}

/// Values of all steps from those of each, given in the order in which the network takes the steps.
pub(super) fn stacked(mut each: Vec<Tensor>, reverse: bool) -> Tensor {
    if reverse {
        each.reverse();
    }
    let each: Vec<Tensor> = each.into_iter().map(|value| value.unsqueeze(1)).collect();
    concat(&each, 1)
}

/// The sum over all steps and sequences of products of sums with a state's units: the cotangent of a weight.
pub(super) fn weight_cotangent(sums: Tensor, states: Tensor) -> Tensor {
    let product = MatMul {
        transpose_a: true,
        ..Default::default()
    };
    states
        .trace()
        .apply1(product, &[sums.flatten_rows(), states.flatten_rows()])
}

/// The rule for slices of an operation whose sequences do not depend on each other; `whole` marks the inputs that all
/// of them read.
pub(super) fn sliced(op: impl Op, whole: &[usize], inputs: usize, outputs: usize) -> OnSlices {
    let role = |input| {
        if whole.contains(&input) {
            Role::Whole
        } else {
            Role::Rows
        }
    };
    OnSlices::Roles(
        Arc::new(op),
        (0..inputs).map(role).collect(),
        vec![OutRole::Rows; outputs],
    )
}

/// The logistic function.
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `sums + state wᵀ` of one sequence and step.
pub(super) fn add_product(sums: &mut [f64], state: &[f64], w: &[f64]) {
    let rows = w.chunks_exact(state.len().max(1));
    for (sum, row) in sums.iter_mut().zip(rows) {
        *sum += row.iter().zip(state).map(|(w, x)| w * x).sum::<f64>();
    }
}

/// `sums w` of one sequence and step, for a weight whose columns belong to units.
pub(super) fn product(sums: &[f64], w: &[f64], units: usize) -> Vec<f64> {
    let mut all = vec![0.0; units];
    for (sum, row) in sums.iter().zip(w.chunks_exact(units.max(1))) {
        all.iter_mut().zip(row).for_each(|(x, w)| *x += sum * w);
    }
    all
}
