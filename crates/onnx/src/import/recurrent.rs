//! Recurrent networks of the usual form. Others, with clipped sums, peepholes, other activations, sequences of several
//! lengths or the reset gate in front of the product, are computed in memory.

use lessen_base::Result;
use lessen_graph::ops::{Gru, Lstm};
use lessen_graph::{DType, Tensor, concat};

use super::Value;
use super::call::{Call, Operators};

pub(crate) const OPERATORS: Operators = &[("GRU", gru), ("LSTM", lstm)];

fn lstm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let network = Network::of(call, &["sigmoid", "tanh", "tanh"])?;
    if call.int("input_forget", 0) != 0 || call.has(7) {
        return call.unknown("coupled gates, or peepholes, of a recurrent network");
    }
    network.run(call, 4, |call, network, direction, sums, recurrent, _| {
        let op = Lstm {
            reverse: direction.is_reverse,
            // Input, output, forget gate and candidate follow each other.
            order: [0, 2, 3, 1],
        };
        let (h0, c0) = (network.state(call, 5, direction)?, network.state(call, 6, direction)?);
        Ok(call.trace.apply(op, &[sums, recurrent, h0, c0])[..2].to_vec())
    })
}

fn gru(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let network = Network::of(call, &["sigmoid", "tanh"])?;
    if call.int("linear_before_reset", 0) == 0 {
        return call.unknown("a reset gate in front of the product");
    }
    network.run(call, 3, |call, network, direction, sums, recurrent, candidate_bias| {
        let op = Gru {
            reverse: direction.is_reverse,
            // Update gate, reset gate and candidate follow each other.
            order: [1, 0, 2],
        };
        let h0 = network.state(call, 5, direction)?;
        Ok(call.trace.apply(op, &[sums, recurrent, candidate_bias, h0])[..1].to_vec())
    })
}

/// One direction of a network.
#[derive(Clone, Copy)]
struct Direction {
    number: usize,
    is_reverse: bool,
}

/// The extents and the form of a network.
struct Network {
    steps: usize,
    batch: usize,
    hidden: usize,
    directions: Vec<Direction>,
    /// Whether batches come before steps and directions.
    is_batchwise: bool,
}

impl Network {
    /// The form of a node, if it is the usual one with these activations.
    fn of(call: &Call<'_>, activations: &[&str]) -> Result<Network> {
        let x = call.ty(0)?;
        let is_batchwise = call.int("layout", 0) == 1;
        let (&[first, second, _], &[count, _, hidden]) = (&x.shape[..], &call.ty(2)?.shape[..]) else {
            return call.unknown("a recurrent network of these extents");
        };
        let (steps, batch) = if is_batchwise { (second, first) } else { (first, second) };
        let reverse = match call.text("direction").as_deref() {
            None | Some("forward") => vec![false],
            Some("reverse") => vec![true],
            Some("bidirectional") => vec![false, true],
            Some(_) => return call.unknown("this direction"),
        };
        let names = call
            .node
            .attribute("activations")
            .map_or(&[][..], |named| &named.strings);
        let usual = activations.iter().cycle().take(activations.len() * reverse.len());
        let is_usual = |(name, usual): (&Vec<u8>, &&str)| name.eq_ignore_ascii_case(usual.as_bytes());
        let are_usual = names.is_empty()
            || (names.len() == activations.len() * reverse.len() && names.iter().zip(usual).all(is_usual));
        if !are_usual || call.float("clip", 0.0) > 0.0 || x.dtype != DType::F32 || steps == 0 || count != reverse.len()
        {
            return call.unknown("a recurrent network of this form");
        }
        if call.has(4) && call.integers(4)?.iter().any(|length| *length != steps as i64) {
            return call.unknown("a recurrent network over sequences of several lengths");
        }
        let directions = reverse.into_iter().enumerate();
        Ok(Network {
            steps,
            batch,
            hidden,
            directions: directions
                .map(|(number, is_reverse)| Direction { number, is_reverse })
                .collect(),
            is_batchwise,
        })
    }

    /// The first state of a direction, `[B, H]`.
    fn state(&self, call: &mut Call<'_>, input: usize, direction: Direction) -> Result<Tensor> {
        if !call.has(input) {
            return Ok(call.trace.full(DType::F32, &[self.batch, self.hidden], 0.0));
        }
        let axis = if self.is_batchwise { 1 } else { 0 };
        let own = call.tensor(input)?.slice(axis, direction.number, 1);
        Ok(own.reshape(&[self.batch, self.hidden]))
    }

    /// Runs each direction by `run`, which takes the sums of all steps, the recurrent weight and the recurrent bias of
    /// the last gate, and gives states of all steps, `[B, T, H]`. The outputs are the states of all steps, and the last
    /// ones of each kind of state.
    fn run(
        &self,
        call: &mut Call<'_>,
        gates: usize,
        run: impl Fn(&mut Call<'_>, &Network, Direction, Tensor, Tensor, Tensor) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Value>> {
        let n = self.hidden;
        let mut x = call.tensor(0)?;
        if !self.is_batchwise {
            x = x.permute(&[1, 0, 2]);
        }
        let mut all = Vec::with_capacity(self.directions.len());
        for &direction in &self.directions {
            let part = |all: Tensor| {
                let shape = all.shape();
                all.slice(0, direction.number, 1).reshape(&shape[1..])
            };
            let (weight, recurrent) = (part(call.tensor(1)?), part(call.tensor(2)?));
            let mut sums = x.matmul_t(weight);
            let mut last_bias = call.trace.full(DType::F32, &[n], 0.0);
            if call.has(3) {
                let both = part(call.tensor(3)?);
                let (input, recurrent) = (both.slice(0, 0, gates * n), both.slice(0, gates * n, gates * n));
                last_bias = recurrent.slice(0, (gates - 1) * n, n);
                // The recurrent bias of a GRU's candidate stays after the reset gate.
                let added = if gates == 3 {
                    recurrent.slice(0, 0, 2 * n).pad(0, 0, n, 0.0)
                } else {
                    recurrent
                };
                sums = sums + (input + added);
            }
            all.push((direction, run(call, self, direction, sums, recurrent, last_bias)?));
        }
        Ok(self.outputs(&all).into_iter().map(Value::Traced).collect())
    }

    fn outputs(&self, all: &[(Direction, Vec<Tensor>)]) -> Vec<Tensor> {
        let state_axis = if self.is_batchwise { 1 } else { 0 };
        let y: Vec<Tensor> = all
            .iter()
            .map(|(_, states)| match self.is_batchwise {
                true => states[0].unsqueeze(2),
                false => states[0].permute(&[1, 0, 2]).unsqueeze(1),
            })
            .collect();
        let mut outputs = vec![concat(&y, if self.is_batchwise { 2 } else { 1 })];
        for kind in 0..all.first().map_or(0, |(_, states)| states.len()) {
            let last = all.iter().map(|(direction, states)| {
                let step = if direction.is_reverse { 0 } else { self.steps - 1 };
                let own = states[kind].slice(1, step, 1).reshape(&[self.batch, self.hidden]);
                own.unsqueeze(state_axis)
            });
            outputs.push(concat(&last.collect::<Vec<_>>(), state_axis));
        }
        outputs
    }
}
