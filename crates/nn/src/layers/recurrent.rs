//! Recurrent layers over whole sequences, with the parameters of PyTorch's `nn.LSTM` and `nn.GRU`.

use lessen_graph::{Tensor, concat};

use crate::context::Cx;
use crate::init::Init;

/// The form of a recurrent network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Recurrent {
    /// Hidden units of each direction.
    pub hidden: usize,
    /// Layers; each but the first one reads the states of the one before it.
    pub layers: usize,
    /// Whether each layer has a second direction, from the last step to the first one.
    pub is_bidirectional: bool,
    /// Probability of dropout between layers.
    pub dropout: f64,
}

impl Recurrent {
    /// One layer of this many hidden units, in one direction.
    pub fn of(hidden: usize) -> Recurrent {
        Recurrent {
            hidden,
            layers: 1,
            is_bidirectional: false,
            dropout: 0.0,
        }
    }

    fn directions(&self) -> usize {
        if self.is_bidirectional { 2 } else { 1 }
    }
}

/// What a recurrent network gives.
#[derive(Clone, Debug)]
pub struct RecurrentStates {
    /// The last layer's states of all steps, `[B, T, H]`, or `[B, T, 2 H]` where there are two directions.
    pub y: Tensor,
    /// The state after the last step of each layer and direction, `[B, H]` each, directions of a layer side by side.
    pub h: Vec<Tensor>,
    /// The same of the cells; none where there are no cells.
    pub c: Vec<Tensor>,
}

/// Parameters of one direction of a layer.
struct Parameters {
    weight: Tensor,
    recurrent: Tensor,
    biases: [Tensor; 2],
}

impl Parameters {
    /// Declares `weight_ih_lN`, `weight_hh_lN`, `bias_ih_lN` and `bias_hh_lN`, uniform within `1 / sqrt(H)`.
    #[track_caller]
    fn of(cx: Cx, (layer, reverse): (usize, bool), width: usize, gates: usize, hidden: usize) -> Self {
        let suffix = format!("l{layer}{}", if reverse { "_reverse" } else { "" });
        let bound = 1.0 / (hidden as f64).sqrt();
        let param = |name: &str, shape: &[usize]| cx.param(&format!("{name}_{suffix}"), shape, Init::Uniform { bound });
        let rows = gates * hidden;
        Parameters {
            weight: param("weight_ih", &[rows, width]),
            recurrent: param("weight_hh", &[rows, hidden]),
            biases: [param("bias_ih", &[rows]), param("bias_hh", &[rows])],
        }
    }
}

/// Long short-term memory (Hochreiter, Schmidhuber 1997) over sequences `x[B, T, width]`, from states of zeros, with
/// `NAME.weight_ih_lN` of shape `[4 H, width]`, `NAME.weight_hh_lN` of shape `[4 H, H]`, `NAME.bias_ih_lN` and
/// `NAME.bias_hh_lN`, and those of the second direction with the suffix `_reverse`. See
/// [`Lstm`](lessen_graph::ops::Lstm).
#[track_caller]
pub fn lstm(cx: Cx, name: &str, x: Tensor, form: Recurrent) -> RecurrentStates {
    let mut c = Vec::new();
    let run = |x: Tensor, p: Parameters, reverse: bool| {
        let zeros = zeros(x, form.hidden);
        let sums = x.matmul_t(p.weight) + (p.biases[0] + p.biases[1]);
        let (states, cells) = sums.lstm(p.recurrent, (zeros, zeros), reverse);
        c.push(last(cells, reverse));
        states
    };
    let (y, h) = network(cx, name, x, (4, form), run);
    RecurrentStates { y, h, c }
}

/// Gated recurrent units (Cho et al. 2014) over sequences `x[B, T, width]`, as [`lstm`] with `3 H` rows in place of
/// `4 H`. See [`Gru`](lessen_graph::ops::Gru).
#[track_caller]
pub fn gru(cx: Cx, name: &str, x: Tensor, form: Recurrent) -> RecurrentStates {
    let n = form.hidden;
    let run = |x: Tensor, p: Parameters, reverse: bool| {
        // The candidate's recurrent bias is after the reset gate.
        let [input, recurrent] = p.biases;
        let bias = input + recurrent.slice(0, 0, 2 * n).pad(0, 0, n, 0.0);
        let sums = x.matmul_t(p.weight) + bias;
        sums.gru(p.recurrent, recurrent.slice(0, 2 * n, n), zeros(x, n), reverse)
    };
    let (y, h) = network(cx, name, x, (3, form), run);
    RecurrentStates { y, h, c: Vec::new() }
}

/// The last layer's states of all steps, and the last state of each layer and direction.
#[track_caller]
fn network(
    cx: Cx,
    name: &str,
    mut x: Tensor,
    (gates, form): (usize, Recurrent),
    mut run: impl FnMut(Tensor, Parameters, bool) -> Tensor,
) -> (Tensor, Vec<Tensor>) {
    let cx = cx.enter(name);
    if x.rank() != 3 || form.layers == 0 {
        let sentence = format!(
            "a recurrent network of {} layers takes sequences [B, T, width], not {}",
            form.layers,
            x.ty()
        );
        cx.trace().fail(sentence);
    }
    let mut h = Vec::new();
    for layer in 0..form.layers {
        if layer > 0 {
            x = cx.dropout(x, form.dropout);
        }
        let mut both = Vec::with_capacity(form.directions());
        for reverse in [false, true].into_iter().take(form.directions()) {
            let parameters = Parameters::of(*cx, (layer, reverse), x.dim(-1), gates, form.hidden);
            let states = run(x, parameters, reverse);
            h.push(last(states, reverse));
            both.push(states);
        }
        x = concat(&both, -1);
    }
    (x, h)
}

/// The state after the last step that a network takes.
fn last(states: Tensor, reverse: bool) -> Tensor {
    let &[batch, steps, hidden] = &states.shape()[..] else {
        unreachable!("the operation gives three axes")
    };
    states
        .slice(1, if reverse { 0 } else { steps - 1 }, 1)
        .reshape(&[batch, hidden])
}

/// A first state.
fn zeros(x: Tensor, hidden: usize) -> Tensor {
    x.trace().full(x.dtype(), &[x.dim(0), hidden], 0.0)
}
