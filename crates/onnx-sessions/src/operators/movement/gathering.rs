//! Operators that pick elements by index.

use lessen_base::Result;

use super::extents::{bounded, place, product, steps};
use super::walk::Walk;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, moved, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Gather", gather),
    ("", "GatherElements", gather_elements),
    ("", "GatherND", gather_nd),
];

/// Blocks of `len` elements that begin at these places, one after another; `count` elements in all.
fn blocks(data: &Data, places: impl Iterator<Item = usize>, len: usize, count: usize) -> Data {
    moved!(data, v => {
        let mut out = Vec::with_capacity(count);
        if len == 1 {
            out.extend(places.map(|place| Clone::clone(&v[place])));
        } else {
            places.for_each(|place| out.extend_from_slice(&v[place..place + len]));
        }
        out
    })
}

fn gather(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axis = call.axis(call.int("axis", 0), data.rank())?;
    let indices = call.integers(1)?;
    let taken = taken(call, data, axis, &indices)?;
    let (outer, inner) = (&data.shape()[..axis], &data.shape()[axis + 1..]);
    let shape = [outer, call.tensor(1)?.shape(), inner].concat();
    one(taken.reshaped(&shape)?)
}

/// The parts of an array at these indices of an axis.
///
/// # Errors
/// An index that is not there.
pub(super) fn taken(call: &HostCall<'_>, data: &HostTensor, axis: usize, indices: &[i64]) -> Result<HostTensor> {
    let extent = data.shape()[axis];
    let chosen: Vec<usize> = indices
        .iter()
        .map(|index| place(call, *index, extent))
        .collect::<Result<_>>()?;
    let mut shape = data.shape().to_vec();
    shape[axis] = chosen.len();
    let count = bounded(call, &shape, data.data())?;
    let outer = if count == 0 { 0 } else { product(&shape[..axis]) };
    let len = product(&shape[axis + 1..]);
    let places = (0..outer).flat_map(|row| chosen.iter().map(move |index| (row * extent + index) * len));
    HostTensor::new(&shape, blocks(data.data(), places, len, count))
}

/// The place of each element that a node with an array of indices along an axis reads or writes.
///
/// # Errors
/// Indices that do not fit the array.
pub(super) fn element_places(call: &HostCall<'_>, data: &HostTensor, axis: i64) -> Result<Vec<usize>> {
    let axis = call.axis(axis, data.rank())?;
    let indices = call.tensor(1)?;
    let fits = indices.rank() == data.rank()
        && (0..data.rank()).all(|other| other == axis || indices.shape()[other] <= data.shape()[other]);
    if !fits {
        return call.refused(format!(
            "indices of extents {:?} do not fit elements of extents {:?} on axis {axis}",
            indices.shape(),
            data.shape()
        ));
    }
    let mut walk = Walk::over(data.shape());
    walk.shape.copy_from_slice(indices.shape());
    let step = std::mem::take(&mut walk.steps[axis]) as usize;
    let mut places = walk.places();
    for (at, index) in places.iter_mut().zip(call.integers(1)?) {
        *at += place(call, index, data.shape()[axis])? * step;
    }
    Ok(places)
}

fn gather_elements(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let places = element_places(call, data, call.int("axis", 0))?;
    let count = places.len();
    one(HostTensor::new(
        call.tensor(1)?.shape(),
        blocks(data.data(), places.into_iter(), 1, count),
    )?)
}

/// The place of each block that a node with tuples of indices reads or writes, and the extents of a block.
///
/// # Errors
/// Indices that do not fit the array.
pub(super) fn tuple_places<'d>(
    call: &HostCall<'_>,
    data: &'d HostTensor,
    batch_axes: usize,
) -> Result<(Vec<usize>, &'d [usize])> {
    let indices = call.tensor(1)?;
    let fits = |tuple: usize| {
        let rank = batch_axes.checked_add(tuple)?;
        let is_batched = indices.shape()[..indices.rank() - 1].get(..batch_axes)? == data.shape().get(..batch_axes)?;
        is_batched.then_some(data.shape().get(rank..)?)
    };
    let Some((tuple, inner)) = indices.shape().last().and_then(|tuple| Some((*tuple, fits(*tuple)?))) else {
        return call.refused(format!(
            "indices of extents {:?} do not fit elements of extents {:?}",
            indices.shape(),
            data.shape()
        ));
    };
    let count = product(&indices.shape()[..indices.rank() - 1]);
    if inner.contains(&0) {
        // Blocks without elements have no place, however many there are.
        return Ok((Vec::new(), inner));
    }
    bounded(call, &[count], &Data::I64(Vec::new()))?;
    bounded(
        call,
        &[&indices.shape()[..indices.rank() - 1], inner].concat(),
        data.data(),
    )?;
    let extents = &data.shape()[batch_axes..batch_axes + tuple];
    let steps = &steps(data.shape())[batch_axes..batch_axes + tuple];
    let batch_len = product(&data.shape()[batch_axes..]);
    let in_batch = product(&indices.shape()[batch_axes..indices.rank() - 1]);
    let numbers = call.integers(1)?;
    let mut places = Vec::with_capacity(count);
    for number in 0..count {
        let mut at = number.checked_div(in_batch).unwrap_or_default() * batch_len;
        let own = &numbers[number * tuple..][..tuple];
        for ((index, extent), step) in own.iter().zip(extents).zip(steps) {
            at += place(call, *index, *extent)? * step;
        }
        places.push(at);
    }
    Ok((places, inner))
}

fn gather_nd(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let Ok(batch_axes) = usize::try_from(call.int("batch_dims", 0)) else {
        return call.refused("its number of batch axes is negative");
    };
    let (places, inner) = tuple_places(call, data, batch_axes)?;
    let indices = call.tensor(1)?.shape();
    let shape = [&indices[..indices.len() - 1], inner].concat();
    let len = product(inner);
    let count = places.len() * len;
    one(HostTensor::new(
        &shape,
        blocks(data.data(), places.into_iter(), len, count),
    )?)
}
