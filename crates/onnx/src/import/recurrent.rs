//! Recurrent networks of the usual form. Others, with clipped sums, peepholes, other activations, sequences of several
//! lengths or the reset gate in front of the product, are computed in memory.

use lessen_base::Result;
use lessen_graph::ops::{Gru, Lstm};
use lessen_graph::{DType, ScanOptions, Tensor, concat};

use super::Value;
use super::call::{Call, Operators};
use super::coded_inputs::Weight;
use super::quantized::{Zero, by_range, factors, integer_product};

pub(crate) const OPERATORS: Operators = &[("DynamicQuantizeLSTM", quantized_lstm), ("GRU", gru), ("LSTM", lstm)];

/// The activations of an LSTM where its node names none.
const OF_LSTM: [&str; 3] = ["sigmoid", "tanh", "tanh"];

fn lstm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let hidden = call.ty(2)?.last();
    let network = Network::of(call, hidden, &OF_LSTM)?;
    refuse_coupled_gates(call)?;
    network.run(call, |call, direction| {
        let (sums, recurrent, _) = network.sums(call, 4, direction)?;
        let op = Lstm {
            reverse: direction.is_reverse,
            // Input, output, forget gate and candidate follow each other.
            order: [0, 2, 3, 1],
        };
        let (h0, c0) = (network.state(call, 5, direction)?, network.state(call, 6, direction)?);
        Ok(call.trace.apply(op, &[sums, recurrent, h0, c0])[..2].to_vec())
    })
}

fn refuse_coupled_gates(call: &Call<'_>) -> Result<()> {
    if call.int("input_forget", 0) != 0 || call.has(7) {
        return call.unknown("coupled gates, or peepholes, of a recurrent network");
    }
    Ok(())
}

fn gru(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let hidden = call.ty(2)?.last();
    let network = Network::of(call, hidden, &["sigmoid", "tanh"])?;
    if call.int("linear_before_reset", 0) == 0 {
        return call.unknown("a reset gate in front of the product");
    }
    network.run(call, |call, direction| {
        let (sums, recurrent, candidate_bias) = network.sums(call, 3, direction)?;
        let op = Gru {
            reverse: direction.is_reverse,
            // Update gate, reset gate and candidate follow each other.
            order: [1, 0, 2],
        };
        let h0 = network.state(call, 5, direction)?;
        Ok(call.trace.apply(op, &[sums, recurrent, candidate_bias, h0])[..1].to_vec())
    })
}

/// `DynamicQuantizeLSTM(X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero_point, R_scale,
/// R_zero_point)`: inputs of all steps, and the hidden state of each step, are quantized by their ranges.
fn quantized_lstm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let hidden = call.ty(2)?.shape.get(1).copied().unwrap_or(0);
    let network = Network::of(call, hidden, &OF_LSTM)?;
    refuse_coupled_gates(call)?;
    let x = by_range(call)?;
    network.run(call, |call, direction| {
        let weight = call.weight_of_direction([1, 8, 9], direction.number)?;
        let recurrent = call.weight_of_direction([2, 10, 11], direction.number)?;
        if weight.scale.len() != 4 * hidden || recurrent.scale.len() != 4 * hidden {
            return call.unknown("weights of other extents");
        }
        let product = |call: &mut Call<'_>, [codes, scale, zero]: [Tensor; 3], weight: &Weight| {
            let sums = integer_product(call, codes, weight, Zero::Computed(zero)).cast(DType::F32);
            sums * (scale * factors(call, weight, |scale| scale))
        };
        let mut sums = product(call, x, &weight);
        if call.has(3) {
            let (input, recurrent) = network.biases(call, 4, direction)?;
            sums = (input + recurrent) + sums;
        }
        if network.is_batchwise {
            sums = sums.permute(&[1, 0, 2]);
        }
        let start = [network.state(call, 5, direction)?, network.state(call, 6, direction)?];
        let options = ScanOptions {
            reverse: direction.is_reverse,
            ..ScanOptions::from(network.steps)
        };
        let (_, states) = call.trace.scan(options, &start, &[sums], |states, sums| {
            let sums = sums[0] + product(call, states[0].quantize_by_range(), &recurrent);
            // Input, output, forget gate and candidate follow each other.
            let part = |gate: usize| sums.slice(1, gate * hidden, hidden);
            let [input, output, forget] = [0, 1, 2].map(|gate| part(gate).sigmoid());
            let c = forget * states[1] + input * part(3).tanh();
            let h = output * c.tanh();
            (vec![h, c], vec![h, c])
        });
        Ok(states.into_iter().map(|all| all.permute(&[1, 0, 2])).collect())
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
    /// The form of a node with this many hidden units, if it is the usual one with these activations.
    fn of(call: &Call<'_>, hidden: usize, activations: &[&str]) -> Result<Network> {
        let x = call.ty(0)?;
        let is_batchwise = call.int("layout", 0) == 1;
        let (&[first, second, _], &[count, ..]) = (&x.shape[..], &call.ty(2)?.shape[..]) else {
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

    /// The biases of a direction for the sums of the input, and for those of the state: `[gates H]` each.
    fn biases(&self, call: &mut Call<'_>, gates: usize, direction: Direction) -> Result<(Tensor, Tensor)> {
        let (both, each) = (part(call.tensor(3)?, direction), gates * self.hidden);
        Ok((both.slice(0, 0, each), both.slice(0, each, each)))
    }

    /// The sums of all steps of the input `[B, T, gates H]`, the recurrent weight, and the recurrent bias of the last
    /// gate.
    fn sums(&self, call: &mut Call<'_>, gates: usize, direction: Direction) -> Result<(Tensor, Tensor, Tensor)> {
        let n = self.hidden;
        let mut x = call.tensor(0)?;
        if !self.is_batchwise {
            x = x.permute(&[1, 0, 2]);
        }
        let (weight, recurrent) = (part(call.tensor(1)?, direction), part(call.tensor(2)?, direction));
        let mut sums = x.matmul_t(weight);
        let mut last_bias = call.trace.full(DType::F32, &[n], 0.0);
        if call.has(3) {
            let (input, recurrent) = self.biases(call, gates, direction)?;
            last_bias = recurrent.slice(0, (gates - 1) * n, n);
            // The recurrent bias of a GRU's candidate stays after the reset gate.
            let added = if gates == 3 {
                recurrent.slice(0, 0, 2 * n).pad(0, 0, n, 0.0)
            } else {
                recurrent
            };
            sums = sums + (input + added);
        }
        Ok((sums, recurrent, last_bias))
    }

    /// Runs each direction by `run`, which gives states of all steps, `[B, T, H]`. The outputs are the states of all
    /// steps, and the last ones of each kind of state.
    fn run(
        &self,
        call: &mut Call<'_>,
        mut run: impl FnMut(&mut Call<'_>, Direction) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Value>> {
        let mut all = Vec::with_capacity(self.directions.len());
        for &direction in &self.directions {
            all.push((direction, run(call, direction)?));
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

/// The part of a parameter that belongs to a direction.
fn part(all: Tensor, direction: Direction) -> Tensor {
    all.slice(0, direction.number, 1).reshape(&all.shape()[1..])
}
