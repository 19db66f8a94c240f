//! Combine rows: the rows of a [`ScatterAdd`](super::scatter_add::ScatterAdd) that are not zeros, without the others.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{IndexInput, Op, Vjp};
use crate::ops::index::gather::row;
use crate::ops::rules::{arity, float};
use crate::trace::Tensor;
use crate::types::{DType, Type};

/// `y[i, :] = sum of updates[j.., :] with ids[j] = ids[i]`, in the order of `j`, where `i` is the first position of its
/// number, and zeros where it is a later one. Inputs are `ids`, `i32` of any shape, and `updates` of `ids.shape +
/// rest`; the result is `[number of ids, rest..]`. Ids must be in `0..rows`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CombineRows {
    /// What ids are below.
    pub rows: usize,
}

named!("combine_rows": CombineRows { rows });

impl Op for CombineRows {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attrs(&self) -> Attrs {
        self.to_attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let (ids, updates) = (&inputs[0], &inputs[1]);
        float(updates)?;
        if ids.dtype != DType::I32 || !updates.shape.starts_with(&ids.shape) {
            return Err(Error::user(format!(
                "needs i32 ids and updates whose shape begins with theirs, not {ids} and {updates}"
            )));
        }
        let shape = [&[ids.numel()], &updates.shape[ids.rank()..]].concat();
        Ok(vec![Type::new(updates.dtype, &shape)])
    }

    /// # Panics
    /// If an id is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (ids, updates) = (inputs[0], inputs[1]);
        let width = updates.ty.numel() / ids.data.len().max(1);
        let mut first = vec![None; self.rows];
        let mut sums = Array::full(outputs[0].clone(), 0.0);
        for (position, &id) in ids.data.iter().enumerate() {
            let to = *first[row(self.name(), id, position, self.rows)].get_or_insert(position) * width;
            for i in 0..width {
                sums.data[to + i] += updates.data[position * width + i];
            }
        }
        vec![sums]
    }

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let (ids, updates) = (cx.inputs[0], cx.inputs[1]);
        // Every update gets the cotangent of the first row of its number.
        let rule = |dy: Tensor<'g>| {
            let flat = ids.reshape(&dy.shape()[..1]);
            let table = first_rows(dy, ids, self.rows).scatter_add(flat, self.rows);
            table.gather(flat).reshape(&updates.shape())
        };
        vec![None, cx.cotangents[0].map(rule)]
    }

    fn index_input(&self, _: &[Type]) -> Option<IndexInput> {
        Some(IndexInput {
            input: 0,
            limit: self.rows,
            ignored: None,
        })
    }
}

/// The rows of `x` that are the first of their number, zeros in place of the others.
pub(crate) fn first_rows<'g>(x: Tensor<'g>, ids: Tensor<'g>, rows: usize) -> Tensor<'g> {
    let ones = x.full_like(1.0);
    let flat = ids.reshape(&x.shape()[..1]);
    let counts = x.trace().apply1(CombineRows { rows }, &[flat, ones]);
    let is_first = counts.gt(x.full_like(0.0));
    is_first.select(x, x.full_like(0.0))
}
