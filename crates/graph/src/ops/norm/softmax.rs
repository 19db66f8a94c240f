//! Softmax along the last axis, and its derivative.

use lessen_base::Result;

use crate::array::Array;
use crate::op::{Op, Vjp};
use crate::ops::rules::{arity, equal, float_rows};
use crate::tensor::Tensor;
use crate::types::Type;

/// `y[.., j] = e^x[.., j] / sum_k e^x[.., k]`. A row of nothing but `-inf` gives zeros.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Softmax;

/// The softmax of one row.
pub(crate) fn softmax_row(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY && row.iter().all(|x| !x.is_nan()) {
        return vec![0.0; row.len()];
    }
    let powers: Vec<f64> = row.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|e| e / sum).collect()
}

named!("softmax": Softmax {});

impl Op for Softmax {
    named!();

    facts! {
        rows;
        in_place((0, 0));
        flops(20.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        float_rows(&inputs[0])?;
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        vec![Array::new(
            outputs[0].clone(),
            inputs[0].rows().flat_map(softmax_row).collect(),
        )]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let y = cx.outputs[0];
        vec![cx.cotangents[0].map(|dy| y.trace().apply1(SoftmaxBackward, &[y, dy]))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let x = inputs[0];
        let powers = (x - x.max_last().finite_or_zero()).exp();
        let sum = powers.sum_last();
        let empty = sum.eq(sum.scalar_like(0.0));
        Some(vec![powers / empty.select(sum.scalar_like(1.0), sum)])
    }

    fn ignores_shift(&self, _: usize, axis: usize, inputs: &[Type]) -> bool {
        axis + 1 == inputs[0].rank()
    }
}

/// The derivative of softmax from its result: inputs `y`, `dy`; `dx = (dy - sum(dy * y)) * y`, the sum along
/// the last axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SoftmaxBackward;

named!("softmax_backward": SoftmaxBackward {});

impl Op for SoftmaxBackward {
    named!();

    facts! {
        rows;
        flops(4.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        float_rows(&inputs[0])?;
        equal(&inputs[0], &inputs[1])?;
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut data = Vec::with_capacity(outputs[0].numel());
        for (y, dy) in inputs[0].rows().zip(inputs[1].rows()) {
            let dot: f64 = y.iter().zip(dy).map(|(y, dy)| y * dy).sum();
            data.extend(y.iter().zip(dy).map(|(y, dy)| (dy - dot) * y));
        }
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (y, dy) = (inputs[0], inputs[1]);
        Some(vec![(dy - (dy * y).sum_last()) * y])
    }
}

impl Tensor {
    /// Softmax along the last axis; a row of nothing but `-inf` gives zeros.
    #[track_caller]
    pub fn softmax(self) -> Tensor {
        self.trace().apply1(Softmax, &[self])
    }

    /// [`Tensor::softmax`] along any axis, which counts from the end when negative.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn softmax_along(self, axis: isize) -> Tensor {
        self.with_axis_last(axis).softmax().with_axis_last(axis)
    }

    /// The axis and the last one exchanged; nothing where they are one.
    #[track_caller]
    pub(crate) fn with_axis_last(self, axis: isize) -> Tensor {
        if self.axis(axis) == self.axis(-1) {
            return self;
        }
        self.transpose(axis, -1)
    }

    /// 0 in place of `-inf`: the maximum of no admissible element, ready to be subtracted.
    pub(crate) fn finite_or_zero(self) -> Tensor {
        let none = self.eq(self.scalar_like(f64::NEG_INFINITY));
        none.select(self.scalar_like(0.0), self)
    }
}
