//! The position of the largest or the smallest number of each row.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Op, Row, RowKernel};
use crate::ops::reduction::ReduceKind;
use crate::ops::rules::{arity, indexable_rows, lead, number};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `y[i..] = the first position j` where `x[i.., j]` is the extremum of the last axis: the result is `i32` of the shape
/// without the last axis, which has elements. NaN is the extremum where there is one. `x` is of floats or `i32`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ArgReduce {
    /// The extremum: [`ReduceKind::Max`] or [`ReduceKind::Min`].
    pub kind: ReduceKind,
}

named!("arg_reduce": ArgReduce { kind as "f" });

impl Op for ArgReduce {
    named!();

    facts! {
        rows;
        no_derivative;
        flops(1.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        number(&inputs[0])?;
        indexable_rows(&inputs[0])?;
        if self.kind == ReduceKind::Sum {
            return Err(Error::user("a sum has no position; choose max or min"));
        }
        if inputs[0].last() == 0 {
            return Err(Error::user(format!("the position among no elements: {}", inputs[0])));
        }
        Ok(vec![Type::new(DType::I32, lead(&inputs[0]))])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let position = |row: &[f64]| {
            let extremum = match self.kind {
                ReduceKind::Min => row.iter().copied().fold(f64::INFINITY, f64::min),
                _ => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            };
            let nan = row.iter().position(|x| x.is_nan());
            let first = nan.or_else(|| row.iter().position(|x| *x == extremum));
            first.unwrap_or(0) as f64
        };
        // Without rows there is no position.
        let rows = inputs[0].rows().take(outputs[0].numel());
        vec![Array::new(outputs[0].clone(), rows.map(position).collect())]
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        let is_min = self.kind == ReduceKind::Min;
        Some(RowKernel::new(move |inputs, outputs| {
            let position = match (inputs[0], is_min) {
                (Row::F32(x), true) => first_of(x, |a, b| a < b),
                (Row::F32(x), false) => first_of(x, |a, b| a > b),
                (Row::I32(x), true) => first_of(x, |a, b| a < b),
                (Row::I32(x), false) => first_of(x, |a, b| a > b),
            };
            outputs[0].i32()[0] = position as i32;
        }))
    }
}

/// The first position of the number that is before all others; that of the first NaN, where there is one.
fn first_of<T: PartialOrd + Copy>(x: &[T], before: impl Fn(T, T) -> bool) -> usize {
    let mut first = 0;
    for (i, &own) in x.iter().enumerate() {
        if own.partial_cmp(&own).is_none() {
            return i;
        }
        if before(own, x[first]) {
            first = i;
        }
    }
    first
}

impl Tensor {
    #[track_caller]
    fn arg_reduce(self, kind: ReduceKind, axis: isize) -> Tensor {
        let x = self.axis_to_last(self.axis(axis));
        x.trace().apply1(ArgReduce { kind }, &[x])
    }

    /// The first position of the largest number along an axis, which vanishes: `i32`. NaN counts as the largest. The
    /// axis counts from the end when negative.
    #[track_caller]
    pub fn argmax(self, axis: isize) -> Tensor {
        self.arg_reduce(ReduceKind::Max, axis)
    }

    /// The first position of the smallest number along an axis, which vanishes: `i32`. NaN counts as the smallest. The
    /// axis counts from the end when negative.
    #[track_caller]
    pub fn argmin(self, axis: isize) -> Tensor {
        self.arg_reduce(ReduceKind::Min, axis)
    }
}
