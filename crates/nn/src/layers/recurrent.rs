//! Recurrent layers over whole sequences, with the parameters of PyTorch's `nn.LSTM` and `nn.GRU`.

use lessen_graph::{Tensor, Type, concat};

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

    /// First states of zeros for sequences `x`.
    #[track_caller]
    fn zeros(&self, x: Tensor) -> Vec<Tensor> {
        let zeros = x.trace().full(x.dtype(), &[x.dim(0), self.hidden], 0.0);
        vec![zeros; self.layers * self.directions()]
    }

    /// Refuses first states that are not one for each layer and direction of the type that sequences `x` need.
    #[track_caller]
    fn check_first(&self, what: &str, x: Tensor, first: &[Tensor]) {
        let (count, wanted) = (
            self.layers * self.directions(),
            Type::new(x.dtype(), &[x.dim(0), self.hidden]),
        );
        let found = first.iter().map(|state| state.ty()).find(|ty| *ty != wanted);
        if first.len() != count || found.is_some() {
            let of = found.map_or(String::new(), |ty| format!(" of {ty}"));
            let sentence = format!(
                "{} first {what}{of} are given to a recurrent network; give {count} of {wanted}, one for each layer and direction",
                first.len()
            );
            x.trace().fail(sentence);
        }
    }
}

/// What a recurrent network gives. [`lstm_from`] and [`gru_from`] take `h` and `c` as first states.
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
    let zeros = form.zeros(x);
    lstm_from(cx, name, x, form, (&zeros, &zeros))
}

/// [`lstm`] from these first states `h` and cells `c`: one of each layer and direction, `[B, H]` each, in the order of
/// [`RecurrentStates`]. With the last ones of a part of sequences it continues them.
///
/// # Panics
/// If their number or types are others.
#[track_caller]
pub fn lstm_from(
    cx: Cx,
    name: &str,
    x: Tensor,
    form: Recurrent,
    (h, first_cells): (&[Tensor], &[Tensor]),
) -> RecurrentStates {
    form.check_first("states", x, h);
    form.check_first("cells", x, first_cells);
    let mut c = Vec::new();
    let run = |x: Tensor, p: Parameters, reverse: bool| {
        let sums = x.matmul_t(p.weight) + (p.biases[0] + p.biases[1]);
        let first = (h[c.len()], first_cells[c.len()]);
        let (states, cells) = sums.lstm(p.recurrent, first, reverse);
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
    gru_from(cx, name, x, form, &form.zeros(x))
}

/// [`gru`] from these first states: one of each layer and direction, `[B, H]` each, in the order of
/// [`RecurrentStates`]. With the last ones of a part of sequences it continues them.
///
/// # Panics
/// If their number or types are others.
#[track_caller]
pub fn gru_from(cx: Cx, name: &str, x: Tensor, form: Recurrent, h: &[Tensor]) -> RecurrentStates {
    form.check_first("states", x, h);
    let (n, mut firsts) = (form.hidden, h.iter());
    let run = |x: Tensor, p: Parameters, reverse: bool| {
        // The candidate's recurrent bias is after the reset gate.
        let [input, recurrent] = p.biases;
        let bias = input + recurrent.slice(0, 0, 2 * n).pad(0, 0, n, 0.0);
        let sums = x.matmul_t(p.weight) + bias;
        let first = *firsts.next().expect("one for each layer and direction");
        sums.gru(p.recurrent, recurrent.slice(0, 2 * n, n), first, reverse)
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
