//! Combine rows: the rows of a [`ScatterAdd`](super::scatter_add::ScatterAdd) that are not zeros, without the others.

use std::collections::HashMap;

use lessen_base::Result;

use crate::array::Array;
use crate::op::{IndexInput, Op, Vjp};
use crate::ops::index::sums;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y[i, :] = sum of updates[j.., :] with ids[j] = ids[i]`, in the order of `j`, where `i` is the first position of its
/// number, and zeros where it is a later one. Inputs are `ids`, `i32` of any shape, and `updates` of `ids.shape +
/// rest`; the result is `[number of ids, rest..]`. Ids must be in `0..rows`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CombineRows {
    /// Bound of the ids, exclusive; at most 2^31.
    pub rows: usize,
}

named!("combine_rows": CombineRows { rows });

impl Op for CombineRows {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        sums::infer(inputs, self.rows, Type::numel)
    }

    /// # Panics
    /// If an id is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut first = HashMap::new();
        let first_of = |row: usize, position| *first.entry(row).or_insert(position);
        sums::eval(self.name(), inputs, outputs, self.rows, first_of)
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (ids, updates) = (cx.inputs[0], cx.inputs[1]);
        // Every update gets the cotangent of the first row of its number.
        let rule = |dy: Tensor| {
            let flat = ids.reshape(&dy.shape()[..1]);
            let table = first_rows(dy, ids, self.rows).scatter_add(flat, self.rows);
            table.gather(flat).reshape(&updates.shape())
        };
        vec![None, cx.cotangents[0].map(rule)]
    }

    fn index_input(&self, _: &[Type]) -> Option<IndexInput> {
        Some(sums::ids_below(self.rows))
    }
}

/// The rows of `x` that are the first of their number, zeros in place of the others.
pub(crate) fn first_rows(x: Tensor, ids: Tensor, rows: usize) -> Tensor {
    let ones = x.full_like(1.0);
    let flat = ids.reshape(&x.shape()[..1]);
    let counts = x.trace().apply1(CombineRows { rows }, &[flat, ones]);
    let is_first = counts.gt(x.full_like(0.0));
    is_first.select(x, x.full_like(0.0))
}
