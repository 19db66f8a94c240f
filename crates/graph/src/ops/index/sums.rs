//! Sums of rows by their ids, shared by several operations: inputs are `ids`, `i32` of any shape, and `updates` of
//! `ids.shape + rest`.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::IndexInput;
use crate::ops::index::gather::row;
use crate::ops::rules::{arity, float, indexable};
use crate::types::{DType, Type};

/// The type `[rows, rest..]` of sums whose ids are below `limit`; `rows` gives their number from the type of the ids.
pub(super) fn infer(inputs: &[Type], limit: usize, rows: impl Fn(&Type) -> usize) -> Result<Vec<Type>> {
    arity(inputs, 2)?;
    indexable("rows", limit)?;
    let (ids, updates) = (&inputs[0], &inputs[1]);
    indexable("ids", ids.numel())?;
    float(updates)?;
    if ids.dtype != DType::I32 || !updates.shape.starts_with(&ids.shape) {
        return Err(Error::user(format!(
            "needs i32 ids and updates whose shape begins with theirs, not {ids} and {updates}"
        )));
    }
    let shape = [&[rows(ids)], &updates.shape[ids.rank()..]].concat();
    Ok(vec![Type::sized(updates.dtype, &shape)?])
}

/// Adds the updates in order of their positions: that at a position to the row that `target` gives for its id, which is
/// below `rows`, and the position.
///
/// # Panics
/// If an id is out of range.
pub(super) fn eval(
    op: &str,
    inputs: &[&Array],
    outputs: &[Type],
    rows: usize,
    mut target: impl FnMut(usize, usize) -> usize,
) -> Vec<Array> {
    let (ids, updates) = (inputs[0], inputs[1]);
    let width = updates.ty.numel() / ids.data.len().max(1);
    let mut sums = Array::full(outputs[0].clone(), 0.0);
    for (position, &id) in ids.data.iter().enumerate() {
        let to = target(row(op, id, position, rows), position) * width;
        for i in 0..width {
            sums.data[to + i] += updates.data[position * width + i];
        }
    }
    vec![sums]
}

/// The ids, which are below `rows`.
pub(super) fn ids_below(rows: usize) -> IndexInput {
    IndexInput {
        input: 0,
        limit: rows,
        ignored: None,
    }
}
