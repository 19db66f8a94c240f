//! The largest or the smallest numbers of each row, in order, with their positions; with all of them, a sort.

use std::cmp::Ordering;

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Op, OutRole, Role, Row, RowKernel, RowMut, RowWise, Vjp};
use crate::ops::rules::{arity, arrays, indexable_rows, lead, number, rows};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The first `k` numbers of each run along the last axis of `x[lead.., n]` in descending (`largest`) or ascending
/// order: values `[lead.., k]` and positions `i32[lead.., k]`. Equal numbers keep their order; NaN is larger than all
/// numbers. `x` is of floats or `i32`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TopK {
    /// How many, at most the extent of the last axis.
    pub k: usize,
    /// Whether the largest come first; the smallest otherwise.
    pub largest: bool,
}

named!("top_k": TopK { k, largest });

/// The order of numbers, NaN after all others.
fn ascending<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

impl TopK {
    /// Writes values and positions of a row.
    fn of_row<T: PartialOrd + Copy>(self, x: &[T], values: &mut [T], positions: &mut [i32]) {
        let by_value = |a: &(T, i32), b: &(T, i32)| {
            let order = ascending(&a.0, &b.0);
            let order = if self.largest { order.reverse() } else { order };
            order.then(a.1.cmp(&b.1))
        };
        let mut pairs: Vec<(T, i32)> = x.iter().copied().zip(0..).collect();
        if (1..pairs.len()).contains(&self.k) {
            pairs.select_nth_unstable_by(self.k - 1, by_value);
        }
        let first = &mut pairs[..self.k];
        first.sort_unstable_by(by_value);
        for (((value, position), to), at) in first.iter().zip(values).zip(positions) {
            (*to, *at) = (*value, *position);
        }
    }
}

impl Op for TopK {
    named!();

    facts! { flops(8.0); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        number(&inputs[0])?;
        indexable_rows(&inputs[0])?;
        if self.k > inputs[0].last() {
            return Err(Error::user(format!(
                "the rows of {} have fewer than {} elements; choose fewer",
                inputs[0], self.k
            )));
        }
        let shape = [lead(&inputs[0]), &[self.k]].concat();
        Ok(vec![Type::new(inputs[0].dtype, &shape), Type::new(DType::I32, &shape)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (mut values, mut positions) = (Vec::new(), Vec::new());
        for row in inputs[0].rows() {
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|&i, &j| match self.largest {
                true => ascending(&row[j], &row[i]),
                false => ascending(&row[i], &row[j]),
            });
            order.truncate(self.k);
            values.extend(order.iter().map(|&i| row[i]));
            positions.extend(order.iter().map(|&i| i as f64));
        }
        arrays(outputs, [values, positions])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let extent = cx.inputs[0].ty().last();
        vec![cx.cotangents[0].map(|dy| dy.sums_along(cx.outputs[1], extent))]
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        RowWise::by_rows(rows(&inputs[0]), &[Role::Rows], &[OutRole::Rows; 2])
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        let own = *self;
        Some(RowKernel::new(move |inputs, outputs| {
            let [values, RowMut::I32(positions)] = outputs else {
                unreachable!("positions are i32")
            };
            match inputs[0] {
                Row::F32(x) => own.of_row(x, values.f32(), positions),
                Row::I32(x) => own.of_row(x, values.i32(), positions),
            }
        }))
    }
}

impl Tensor {
    /// The `k` largest numbers along an axis in descending order, or the `k` smallest in ascending order: values and
    /// positions (`i32`), whose extent along the axis is `k`. Equal numbers keep their order; NaN is larger than all
    /// numbers. The axis counts from the end when negative. The derivative passes through the values.
    #[track_caller]
    pub fn topk(self, k: usize, axis: isize, largest: bool) -> (Tensor, Tensor) {
        let axis = self.axis(axis);
        let x = self.axis_to_last(axis);
        let both = x.trace().apply(TopK { k, largest }, &[x]);
        (both[0].last_to_axis(axis), both[1].last_to_axis(axis))
    }

    /// The numbers along an axis in ascending or descending order, and the positions that they had (`i32`); see
    /// [`Tensor::topk`].
    #[track_caller]
    pub fn sort(self, axis: isize, descending: bool) -> (Tensor, Tensor) {
        self.topk(self.dim(axis), axis, descending)
    }

    /// The positions that sort the numbers along an axis; see [`Tensor::sort`].
    #[track_caller]
    pub fn argsort(self, axis: isize, descending: bool) -> Tensor {
        self.sort(axis, descending).1
    }
}
