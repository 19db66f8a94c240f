//! Recurrent networks: RNN, GRU and LSTM.

mod activation;
mod cells;
mod factor;

use lessen_base::Result;

use super::recurrent::activation::activations;
use super::recurrent::cells::{Cell, CellKind};
use super::recurrent::factor::Factor;
use crate::operators::products::kernel::transposed;
use crate::operators::products::sizes::{check_work, room};
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "RNN", rnn),
    ("", "GRU", gru),
    ("", "LSTM", lstm),
    ("com.microsoft", "DynamicQuantizeLSTM", quantized_lstm),
];

/// Where the scales and zero points of the weights of a quantized network stand, one after the other.
const SCALES: [usize; 2] = [8, 10];

fn rnn(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_reals!(call.tensor(0)?, recurrent(call, CellKind::Rnn, false))
}

fn gru(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_reals!(call.tensor(0)?, recurrent(call, CellKind::Gru, false))
}

fn lstm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_reals!(call.tensor(0)?, recurrent(call, CellKind::Lstm, false))
}

/// An LSTM whose weights are 8-bit integers, transposed. Inputs and hidden states are quantized by their ranges.
fn quantized_lstm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    if call.tensor(0)?.element() != Some(Element::F32) {
        return call.refused("its first input is not float32");
    }
    recurrent::<f32>(call, CellKind::Lstm, true)
}

/// Extents of a network.
struct Sizes {
    steps: usize,
    batch: usize,
    width: usize,
    hidden: usize,
    directions: usize,
    /// Whether batches come before steps and directions.
    is_batchwise: bool,
    /// Whether the weights are integers, transposed.
    has_integers: bool,
}

impl Sizes {
    fn of(call: &HostCall<'_>, kind: CellKind, has_integers: bool) -> Result<Sizes> {
        let is_batchwise = call.int("layout", 0) == 1;
        let &[first, second, width] = call.tensor(0)?.shape() else {
            return call.refused("its first input has not three axes");
        };
        let (steps, batch) = if is_batchwise { (second, first) } else { (first, second) };
        let directions = match call.text("direction").as_deref() {
            None | Some("forward" | "reverse") => 1,
            Some("bidirectional") => 2,
            Some(other) => return call.refused(format!("the direction {other} is not known")),
        };
        let &[_, second, third] = call.tensor(2)?.shape() else {
            return call.refused("its recurrent weights have not three axes");
        };
        let hidden = if has_integers { second } else { third };
        if hidden == 0 {
            return call.refused("it has no hidden units");
        }
        let said = call.attribute("hidden_size").map(|attribute| attribute.i);
        if said.is_some_and(|said| said != hidden as i64) {
            return call.refused("its hidden size is not that of its recurrent weights");
        }
        let sizes = Sizes {
            steps,
            batch,
            width,
            hidden,
            directions,
            is_batchwise,
            has_integers,
        };
        room(&sizes.result())?;
        let gates = kind.gates() * hidden;
        room(&[steps, batch, gates])?;
        check_work(&[
            directions,
            steps,
            batch,
            gates,
            width.saturating_add(hidden).saturating_add(1),
        ])?;
        let rows = hidden.saturating_mul(kind.gates());
        let weights = |width: usize| match has_integers {
            true => [directions, width, rows],
            false => [directions, rows, width],
        };
        for (input, shape) in [
            (1, &weights(width)[..]),
            (2, &weights(hidden)),
            (3, &[directions, rows.saturating_mul(2)]),
            (5, &sizes.state()),
            (6, &sizes.state()),
            (7, &[directions, hidden.saturating_mul(3)]),
        ] {
            let has = input < 6 || kind == CellKind::Lstm;
            if let Some(tensor) = call.optional(input)?.filter(|_| has)
                && tensor.shape() != shape
            {
                let found = tensor.shape();
                return call.refused(format!(
                    "its input {input} has the extents {found:?} where {shape:?} are right"
                ));
            }
        }
        Ok(sizes)
    }

    /// Extents of the hidden states of all steps.
    fn result(&self) -> [usize; 4] {
        let &Sizes {
            steps,
            batch,
            hidden,
            directions,
            ..
        } = self;
        if self.is_batchwise {
            [batch, steps, directions, hidden]
        } else {
            [steps, directions, batch, hidden]
        }
    }

    /// Extents of the first and the last state.
    fn state(&self) -> [usize; 3] {
        if self.is_batchwise {
            [self.batch, self.directions, self.hidden]
        } else {
            [self.directions, self.batch, self.hidden]
        }
    }

    /// Where a row of the first or the last state begins.
    fn state_at(&self, direction: usize, member: usize) -> usize {
        let row = if self.is_batchwise {
            member * self.directions + direction
        } else {
            direction * self.batch + member
        };
        row * self.hidden
    }

    /// Where the row of a step begins among hidden states of all steps.
    fn result_at(&self, step: usize, direction: usize, member: usize) -> usize {
        let row = if self.is_batchwise {
            (member * self.steps + step) * self.directions + direction
        } else {
            (step * self.directions + direction) * self.batch + member
        };
        row * self.hidden
    }
}

fn recurrent<R: Real>(call: &HostCall<'_>, kind: CellKind, has_integers: bool) -> Result<Vec<HostValue>> {
    let sizes = Sizes::of(call, kind, has_integers)?;
    let element = float_of(call.tensor(0)?)?;
    let lengths = lengths(call, &sizes)?;
    let state = |input: usize| -> Result<Vec<R>> {
        match call.optional(input)? {
            Some(tensor) => Ok(R::read(tensor)?.into_owned()),
            None => Ok(vec![R::ZERO; room(&sizes.state())?]),
        }
    };
    let is_lstm = kind == CellKind::Lstm;
    let mut all = States {
        y: vec![R::ZERO; room(&sizes.result())?],
        h: state(5)?,
        c: if is_lstm { state(6)? } else { Vec::new() },
    };
    for direction in 0..sizes.directions {
        let is_reverse = direction == 1 || call.text("direction").as_deref() == Some("reverse");
        run_direction(call, kind, &sizes, (direction, is_reverse), &lengths, &mut all)?;
    }
    let mut outputs: Vec<HostTensor> = vec![
        rounded(&sizes.result(), all.y, element)?,
        rounded(&sizes.state(), all.h, element)?,
    ];
    if is_lstm {
        outputs.push(rounded(&sizes.state(), all.c, element)?);
    }
    Ok(outputs.into_iter().map(HostValue::from).collect())
}

/// The steps of each member of the batch.
fn lengths(call: &HostCall<'_>, sizes: &Sizes) -> Result<Vec<usize>> {
    if !call.has(4) {
        return Ok(vec![sizes.steps; sizes.batch]);
    }
    let lengths = call.integers(4)?.into_iter().map(|length| usize::try_from(length).ok());
    let lengths: Option<Vec<usize>> = lengths.collect();
    match lengths.filter(|all| all.len() == sizes.batch && all.iter().all(|length| *length <= sizes.steps)) {
        Some(lengths) => Ok(lengths),
        None => call.refused("its lengths of sequences are not valid"),
    }
}

/// Hidden states of all steps, and the states that go from step to step.
struct States<R> {
    y: Vec<R>,
    h: Vec<R>,
    c: Vec<R>,
}

/// Runs one direction, from the first states to the last ones.
fn run_direction<R: Real>(
    call: &HostCall<'_>,
    kind: CellKind,
    sizes: &Sizes,
    (direction, is_reverse): (usize, bool),
    lengths: &[usize],
    all: &mut States<R>,
) -> Result<()> {
    let (batch, n, gates) = (sizes.batch, sizes.hidden, kind.gates() * sizes.hidden);
    let cell = cell(call, kind, sizes, direction)?;
    let sums = input_sums(call, &cell, sizes, direction)?;
    let mut h = Vec::with_capacity(batch * n);
    let mut c = Vec::new();
    for member in 0..batch {
        let at = sizes.state_at(direction, member);
        h.extend_from_slice(&all.h[at..at + n]);
        if kind == CellKind::Lstm {
            c.extend_from_slice(&all.c[at..at + n]);
        }
    }
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut row_sums = vec![R::ZERO; batch * gates];
    for i in 0..longest {
        // A sequence that is read backwards begins with its own last step.
        let step = |member: usize| if is_reverse { lengths[member] - 1 - i } else { i };
        let goes_on = |member: &usize| i < lengths[*member];
        for member in (0..batch).filter(goes_on) {
            let row = if sizes.is_batchwise {
                member * sizes.steps + step(member)
            } else {
                step(member) * batch + member
            };
            row_sums[member * gates..(member + 1) * gates].copy_from_slice(&sums[row * gates..(row + 1) * gates]);
        }
        let mut next_c = c.clone();
        let next = cell.step(&mut row_sums, &h, &mut next_c);
        for member in (0..batch).filter(goes_on) {
            let own = member * n..(member + 1) * n;
            let at = sizes.result_at(step(member), direction, member);
            all.y[at..at + n].copy_from_slice(&next[own.clone()]);
            h[own.clone()].copy_from_slice(&next[own.clone()]);
            if kind == CellKind::Lstm {
                c[own.clone()].copy_from_slice(&next_c[own]);
            }
        }
    }
    for member in 0..batch {
        let (at, own) = (sizes.state_at(direction, member), member * n..(member + 1) * n);
        all.h[at..at + n].copy_from_slice(&h[own.clone()]);
        if kind == CellKind::Lstm {
            all.c[at..at + n].copy_from_slice(&c[own]);
        }
    }
    Ok(())
}

/// A part of a parameter: what belongs to a direction.
fn part<R: Real>(call: &HostCall<'_>, input: usize, direction: usize, directions: usize) -> Result<Option<Vec<R>>> {
    let Some(tensor) = call.optional(input)? else {
        return Ok(None);
    };
    let all = R::read(tensor)?;
    let each = all.len() / directions;
    Ok(Some(all[direction * each..(direction + 1) * each].to_vec()))
}

/// The weights of a direction that are integers: those of the input (1) or the recurrent ones (2).
fn integers<R: Real>(call: &HostCall<'_>, input: usize, direction: usize) -> Result<Factor<R>> {
    let scale = SCALES[input - 1];
    Factor::of_integers(
        call.tensor(input)?,
        (call.tensor(scale)?, call.tensor(scale + 1)?),
        direction,
    )
}

/// The parameters of a direction.
fn cell<R: Real>(call: &HostCall<'_>, kind: CellKind, sizes: &Sizes, direction: usize) -> Result<Cell<R>> {
    let n = sizes.hidden;
    let (weights, candidate_weights) = if sizes.has_integers {
        (integers(call, 2, direction)?, Vec::new())
    } else {
        let recurrent: Vec<R> = part(call, 2, direction, sizes.directions)?.unwrap_or_default();
        let joint = if kind == CellKind::Gru { 2 } else { kind.gates() };
        let (weights, candidate) = recurrent.split_at(joint * n * n);
        let weights = Factor::Real(transposed(weights, joint * n, n));
        (weights, transposed(candidate, candidate.len() / n, n))
    };
    let bias: Option<Vec<R>> = part(call, 3, direction, sizes.directions)?;
    let candidate_bias = match bias.filter(|_| kind == CellKind::Gru) {
        Some(bias) => bias[5 * n..].to_vec(),
        None => vec![R::ZERO; n],
    };
    let activations = activations(call, sizes.directions, kind.activations())?;
    let each = kind.activations().len();
    Ok(Cell {
        kind,
        batch: sizes.batch,
        hidden: n,
        weights,
        candidate_weights,
        candidate_bias,
        peepholes: if kind == CellKind::Lstm {
            part(call, 7, direction, sizes.directions)?
        } else {
            None
        },
        activations: activations[direction * each..(direction + 1) * each].to_vec(),
        clip: call
            .attribute("clip")
            .map(|clip| R::of_f64(clip.f.into()))
            .filter(|clip| *clip > R::ZERO),
        has_coupled_gates: kind == CellKind::Lstm && call.int("input_forget", 0) != 0,
        resets_product: kind == CellKind::Gru && call.int("linear_before_reset", 0) != 0,
    })
}

/// The input's part of the sums of all steps, with the biases; the recurrent bias of a GRU's candidate is added later.
fn input_sums<R: Real>(call: &HostCall<'_>, cell: &Cell<R>, sizes: &Sizes, direction: usize) -> Result<Vec<R>> {
    let n = sizes.hidden;
    let gates = cell.kind.gates() * n;
    let weights = if sizes.has_integers {
        integers(call, 1, direction)?
    } else {
        let weights: Vec<R> = part(call, 1, direction, sizes.directions)?.unwrap_or_default();
        Factor::Real(transposed(&weights, gates, sizes.width))
    };
    let mut row = vec![R::ZERO; gates];
    if let Some(bias) = part::<R>(call, 3, direction, sizes.directions)? {
        row.copy_from_slice(&bias[..gates]);
        let added = if cell.kind == CellKind::Gru { 2 * n } else { gates };
        row.iter_mut()
            .zip(&bias[gates..gates + added])
            .for_each(|(x, bias)| *x += *bias);
    }
    let rows = sizes.steps * sizes.batch;
    let mut sums = row.repeat(rows);
    let x = R::read(call.tensor(0)?)?;
    weights.add_to(&mut sums, &x, [rows, sizes.width, gates]);
    Ok(sums)
}
