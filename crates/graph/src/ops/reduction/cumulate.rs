//! Cumulative sums and products along each row.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Op, Row, RowKernel, RowMut, Vjp};
use crate::ops::rules::{arity, number};
use crate::tensor::Tensor;
use crate::types::Type;

/// The numbers that are cumulated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CumulateKind {
    /// The sum.
    Sum,
    /// The product.
    Product,
}

impl CumulateKind {
    /// All of them.
    pub const ALL: [CumulateKind; 2] = [CumulateKind::Sum, CumulateKind::Product];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            CumulateKind::Sum => "sum",
            CumulateKind::Product => "product",
        }
    }

    /// The sum or the product of no numbers.
    fn neutral(self) -> f64 {
        match self {
            CumulateKind::Sum => 0.0,
            CumulateKind::Product => 1.0,
        }
    }

    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            CumulateKind::Sum => a + b,
            CumulateKind::Product => a * b,
        }
    }
}

function_names!(CumulateKind);

/// `y[i.., j] = x[i.., 0] + .. + x[i.., j]`, or the product, along the last axis of floats or `i32`. Of `i32`, results
/// saturate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cumulate {
    /// Sum or product.
    pub kind: CumulateKind,
    /// Whether element `j` is left out of result `j`, so that the first result is 0 or 1.
    pub exclusive: bool,
    /// Whether it begins at the end of the axis: `y[i.., j] = x[i.., j] + .. + x[i.., n - 1]`.
    pub reverse: bool,
}

named!("cumulate": Cumulate { kind as "f", exclusive, reverse });

impl Cumulate {
    /// Gives the result at each position of a row of `n` elements, in the order in which they follow.
    fn of_row(self, n: usize, x: impl Fn(usize) -> f64, mut put: impl FnMut(usize, f64)) {
        let mut total = self.kind.neutral();
        for step in 0..n {
            let at = if self.reverse { n - 1 - step } else { step };
            let with_own = self.kind.of(total, x(at));
            put(at, if self.exclusive { total } else { with_own });
            total = with_own;
        }
    }

    /// The rows moved `by` positions on, from the end where it begins at the end; 0 or 1 in front of them.
    fn moved(self, x: Tensor, by: usize) -> Tensor {
        let (rest, neutral) = (x.dim(-1) - by, self.kind.neutral());
        if self.reverse {
            x.slice(-1, by, rest).pad(-1, 0, by, neutral)
        } else {
            x.slice(-1, 0, rest).pad(-1, by, 0, neutral)
        }
    }
}

impl Op for Cumulate {
    named!();

    facts! {
        rows;
        flops(1.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        number(&inputs[0])?;
        if inputs[0].rank() == 0 {
            return Err(Error::user(format!("needs a tensor with an axis, not {}", inputs[0])));
        }
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let n = outputs[0].last().max(1);
        let mut data = vec![0.0; outputs[0].numel()];
        for (x, y) in inputs[0].data.chunks(n).zip(data.chunks_mut(n)) {
            self.of_row(n, |at| x[at], |at, total| y[at] = total);
        }
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        match self.kind {
            CumulateKind::Sum => {
                let reverse = !self.reverse;
                let back = Cumulate { reverse, ..*self };
                vec![cx.cotangents[0].map(|dy| dy.trace().apply1(back, &[dy]))]
            }
            // That of the decomposition, which divides by no element.
            CumulateKind::Product => Vec::new(),
        }
    }

    /// Runs of 1, 2, 4.. elements are combined, so that each step doubles them.
    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let x = inputs[0];
        let n = x.dim(-1);
        let mut y = if self.exclusive { self.moved(x, n.min(1)) } else { x };
        let runs = std::iter::successors(Some(1usize), |run| run.checked_mul(2));
        for run in runs.take_while(|run| *run < n) {
            let before = self.moved(y, run);
            y = match self.kind {
                CumulateKind::Sum => y + before,
                CumulateKind::Product => y * before,
            };
        }
        Some(vec![y])
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        let own = *self;
        Some(RowKernel::new(move |inputs, outputs| {
            match (inputs[0], &mut outputs[0]) {
                (Row::F32(x), RowMut::F32(y)) => {
                    own.of_row(x.len(), |at| x[at].into(), |at, total| y[at] = total as f32)
                }
                (Row::I32(x), RowMut::I32(y)) => {
                    own.of_row(x.len(), |at| x[at].into(), |at, total| y[at] = total as i32)
                }
                _ => unreachable!("the result has the dtype of the input"),
            }
        }))
    }
}

impl Tensor {
    /// Cumulative sums or products along an axis, which counts from the end when negative; see [`Cumulate`].
    ///
    /// ```
    /// use lessen_graph::ops::{Cumulate, CumulateKind};
    /// use lessen_graph::{DType, Trace};
    ///
    /// let trace = Trace::new();
    /// let x = trace.input("x", DType::F32, &[2, 3]);
    /// let what_follows = Cumulate { kind: CumulateKind::Sum, exclusive: true, reverse: true };
    /// assert_eq!(x.cumulate(what_follows, 0).shape(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn cumulate(self, op: Cumulate, axis: isize) -> Tensor {
        let axis = self.axis(axis);
        self.trace().apply1(op, &[self.axis_to_last(axis)]).last_to_axis(axis)
    }

    #[track_caller]
    fn cumulate_from_start(self, kind: CumulateKind, axis: isize) -> Tensor {
        let op = Cumulate {
            kind,
            exclusive: false,
            reverse: false,
        };
        self.cumulate(op, axis)
    }

    /// The sum of the elements up to each one along an axis, which counts from the end when negative.
    #[track_caller]
    pub fn cumsum(self, axis: isize) -> Tensor {
        self.cumulate_from_start(CumulateKind::Sum, axis)
    }

    /// The product of the elements up to each one along an axis, which counts from the end when negative.
    #[track_caller]
    pub fn cumprod(self, axis: isize) -> Tensor {
        self.cumulate_from_start(CumulateKind::Product, axis)
    }
}
