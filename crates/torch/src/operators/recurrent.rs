//! Recurrent networks over whole sequences.

use lessen_base::Result;
use lessen_graph::{Tensor, concat};

use crate::call::{Call, Operators, several};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("gru", gru),
    ("lstm", lstm),
    ("rnn_relu", |call| rnn(call, Tensor::relu)),
    ("rnn_tanh", |call| rnn(call, Tensor::tanh)),
];

/// The form of a network, and its parameters in PyTorch's order.
struct Network {
    params: Vec<Tensor>,
    has_biases: bool,
    layers: usize,
    directions: usize,
    dropout: f64,
    is_batch_first: bool,
}

/// The parameters of one direction of a layer.
struct Direction {
    weight: Tensor,
    recurrent: Tensor,
    biases: Option<[Tensor; 2]>,
    is_reverse: bool,
}

impl Network {
    fn of(call: &mut Call<'_, '_>) -> Result<Network> {
        if !call.has("input") || call.has("batch_sizes") {
            return call.lacks("packed sequences; give padded ones and mask what comes after their ends");
        }
        Ok(Network {
            params: call.tensors("params")?,
            has_biases: call.truth("has_biases"),
            layers: call.size("num_layers", 1)?,
            directions: if call.truth("bidirectional") { 2 } else { 1 },
            dropout: if call.truth("train") && call.cx().training() {
                call.float("dropout", 0.0)?
            } else {
                0.0
            },
            is_batch_first: call.truth("batch_first"),
        })
    }

    fn direction(&self, layer: usize, number: usize) -> Direction {
        let each = if self.has_biases { 4 } else { 2 };
        let own = &self.params[(layer * self.directions + number) * each..];
        Direction {
            weight: own[0],
            recurrent: own[1],
            biases: self.has_biases.then(|| [own[2], own[3]]),
            is_reverse: number == 1,
        }
    }

    /// Runs each layer and direction by `run`, which gives states of all steps, `[B, T, H]`. The results are the states
    /// of the last layer, and the last ones of each kind of state.
    fn run(&self, call: &mut Call<'_, '_>, run: impl Fn(&Direction, Tensor, usize) -> Vec<Tensor>) -> Result<Value> {
        let mut x = call.tensor("input")?;
        if x.rank() != 3 {
            return call.lacks("recurrent networks over single sequences; add the axis of the batch");
        }
        if !self.is_batch_first {
            x = x.permute(&[1, 0, 2]);
        }
        let (batch, steps) = (x.shape()[0], x.shape()[1]);
        let mut last: Vec<Vec<Tensor>> = Vec::new();
        for layer in 0..self.layers {
            let mut outputs = Vec::with_capacity(self.directions);
            for number in 0..self.directions {
                let direction = self.direction(layer, number);
                let states = run(&direction, x, layer * self.directions + number);
                let step = if direction.is_reverse { 0 } else { steps - 1 };
                last.resize(states.len(), Vec::new());
                for (all, state) in last.iter_mut().zip(&states) {
                    all.push(state.slice(1, step, 1).reshape(&[1, batch, state.dim(-1)]));
                }
                outputs.push(states[0]);
            }
            x = if outputs.len() == 1 {
                outputs[0]
            } else {
                concat(&outputs, -1)
            };
            if layer + 1 < self.layers && self.dropout > 0.0 {
                x = call.cx().dropout(x, self.dropout);
            }
        }
        let y = if self.is_batch_first { x } else { x.permute(&[1, 0, 2]) };
        let last = last
            .into_iter()
            .map(|all| if all.len() == 1 { all[0] } else { concat(&all, 0) });
        several(std::iter::once(y).chain(last))
    }
}

/// The first state of a layer and direction, `[B, H]`, of `[layers directions, B, H]`.
fn first(all: Tensor, number: usize) -> Tensor {
    let shape = all.shape();
    all.slice(0, number, 1).reshape(&shape[1..])
}

fn lstm(call: &mut Call<'_, '_>) -> Result<Value> {
    let network = Network::of(call)?;
    let [h, c] = call.tensors("hx")?[..] else {
        return call.lacks("an LSTM without its first states");
    };
    if h.dim(-1) != c.dim(-1) {
        return call.lacks("an LSTM with projections; set proj_size=0");
    }
    network.run(call, |direction, x, number| {
        let sums = x.matmul_t(direction.weight);
        let sums = direction.biases.map_or(sums, |[a, b]| sums + (a + b));
        let states = (first(h, number), first(c, number));
        let (h, c) = sums.lstm(direction.recurrent, states, direction.is_reverse);
        vec![h, c]
    })
}

fn gru(call: &mut Call<'_, '_>) -> Result<Value> {
    let network = Network::of(call)?;
    let h = call.tensor("hx")?;
    network.run(call, |direction, x, number| {
        let hidden = h.dim(-1);
        let sums = x.matmul_t(direction.weight);
        let (sums, last) = match direction.biases {
            Some([a, b]) => {
                // The recurrent bias of the candidate stays after the reset gate.
                let gates = b.slice(0, 0, 2 * hidden).pad(0, 0, hidden, 0.0);
                (sums + (a + gates), b.slice(0, 2 * hidden, hidden))
            }
            None => (sums, x.trace().full(x.dtype(), &[hidden], 0.0)),
        };
        vec![sums.gru(direction.recurrent, last, first(h, number), direction.is_reverse)]
    })
}

/// A network of single sums, whose steps follow each other in the graph.
fn rnn(call: &mut Call<'_, '_>, f: fn(Tensor) -> Tensor) -> Result<Value> {
    let network = Network::of(call)?;
    let h = call.tensor("hx")?;
    network.run(call, |direction, x, number| {
        let sums = x.matmul_t(direction.weight);
        let sums = direction.biases.map_or(sums, |[a, b]| sums + (a + b));
        let (steps, mut state) = (sums.dim(1), first(h, number));
        let mut states = vec![state; steps];
        for at in 0..steps {
            let step = if direction.is_reverse { steps - 1 - at } else { at };
            let own = sums.slice(1, step, 1).reshape(&state.shape());
            state = f(own + state.matmul_t(direction.recurrent));
            states[step] = state;
        }
        vec![lessen_graph::stack(&states, 1)]
    })
}
