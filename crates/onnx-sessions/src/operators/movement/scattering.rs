//! Operators that write elements at indices.

use lessen_base::Result;

use super::elements::{alike, cells, same};
use super::extents::{extent, product};
use super::gathering::{element_places, tuple_places};
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, moved, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Scatter", scatter_elements),
    ("", "ScatterElements", scatter_elements),
    ("", "ScatterND", scatter_nd),
    ("", "TensorScatter", tensor_scatter),
];

/// What becomes of an element and the update that is written there.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    Replace,
    Add,
    Multiply,
    Most,
    Least,
}

impl Reduction {
    fn of(call: &HostCall<'_>) -> Result<Reduction> {
        Ok(match call.text("reduction").as_deref() {
            None | Some("none") => Reduction::Replace,
            Some("add") => Reduction::Add,
            Some("mul") => Reduction::Multiply,
            Some("max") => Reduction::Most,
            Some("min") => Reduction::Least,
            Some(other) => return call.refused(format!("the reduction {other} is not known")),
        })
    }

    fn of_numbers<T: Number>(self, old: T, new: T) -> T {
        let is_better = |is_greater: bool| old.is_nan() || (!new.is_nan() && is_greater);
        match self {
            Reduction::Replace => new,
            Reduction::Add => old.plus(new),
            Reduction::Multiply => old.times(new),
            Reduction::Most if is_better(old > new) => old,
            Reduction::Least if is_better(old < new) => old,
            Reduction::Most | Reduction::Least => new,
        }
    }
}

/// The elements with updates at these places, one after another; a place begins a block of `len` elements.
fn scattered(
    call: &HostCall<'_>,
    data: &HostTensor,
    updates: &HostTensor,
    (places, len): (&[usize], usize),
    reduction: Reduction,
) -> Result<Vec<HostValue>> {
    let written: Data = if reduction == Reduction::Replace {
        let updates = alike(call, data, updates)?;
        moved!(data.data(), v => {
            let updates = cells(v, updates.data());
            let mut out = v.to_vec();
            for (number, &place) in places.iter().enumerate() {
                out[place..place + len].clone_from_slice(&updates[number * len..][..len]);
            }
            out
        })
    } else {
        each_number!(data.data(), v => {
            let updates = same(call, v, updates)?;
            let mut out = v.clone();
            for (number, &place) in places.iter().enumerate() {
                let block = &mut out[place..place + len];
                for (old, new) in block.iter_mut().zip(&updates[number * len..][..len]) {
                    *old = reduction.of_numbers(*old, *new);
                }
            }
            out.into()
        }, else return call.refused("truth values and texts are not reduced"))
    };
    one(HostTensor::new(data.shape(), written)?)
}

fn scatter_elements(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (data, updates) = (call.tensor(0)?, call.tensor(2)?);
    let places = element_places(call, data, call.int("axis", 0))?;
    if updates.shape() != call.tensor(1)?.shape() {
        return call.refused("its updates and indices have different extents");
    }
    scattered(call, data, updates, (&places, 1), Reduction::of(call)?)
}

fn scatter_nd(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (data, updates) = (call.tensor(0)?, call.tensor(2)?);
    let (places, inner) = tuple_places(call, data, 0)?;
    let indices = call.tensor(1)?.shape();
    if updates.shape() != [&indices[..indices.len() - 1], inner].concat() {
        return call.refused(format!(
            "its updates have extents {:?}, but its indices {indices:?}",
            updates.shape()
        ));
    }
    scattered(call, data, updates, (&places, product(inner)), Reduction::of(call)?)
}

fn tensor_scatter(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (past, update) = (call.tensor(0)?, call.tensor(1)?);
    let axis = call.axis(call.int("axis", -2), past.rank())?;
    let is_circular = match call.text("mode").as_deref() {
        None | Some("linear") => false,
        Some("circular") => true,
        Some(mode) => return call.refused(format!("the mode {mode} is not known")),
    };
    let fits = axis > 0
        && update.rank() == past.rank()
        && (0..past.rank()).all(|other| other == axis || past.shape()[other] == update.shape()[other]);
    let (most, len) = (past.shape()[axis], *update.shape().get(axis).unwrap_or(&0));
    if !fits || len > most {
        return call.refused(format!(
            "an update of extents {:?} does not fit a cache of extents {:?} on axis {axis}",
            update.shape(),
            past.shape()
        ));
    }
    let batch = past.shape()[0];
    let first = match call.optional(2)? {
        Some(_) => call.integers(2)?,
        None => vec![0; batch],
    };
    if first.len() != batch {
        return call.refused(format!("it has {} first indices for a batch of {batch}", first.len()));
    }
    if update.is_empty() {
        return one(HostTensor::clone(past));
    }
    let rows_in_batch = product(&past.shape()[1..axis]);
    let inner = product(&past.shape()[axis + 1..]);
    let mut places = Vec::with_capacity(batch * rows_in_batch * len);
    for row in 0..batch * rows_in_batch {
        let first = extent(call, first[row / rows_in_batch])?;
        for index in 0..len {
            let at = match first.saturating_add(index) {
                at if is_circular => at % most,
                at if at < most => at,
                at => return call.refused(format!("there is no index {at} in a cache of {most}")),
            };
            places.push((row * most + at) * inner);
        }
    }
    scattered(call, past, update, (&places, inner), Reduction::Replace)
}
