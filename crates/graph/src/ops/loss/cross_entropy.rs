//! Cross entropy of class logits, with an ignored label and label smoothing (Szegedy et al. 2016), and its
//! derivative.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{IndexInput, Op, Vjp};
use crate::ops::rules::{arity, arrays, float_rows, indexable, lead, log_sum_exp};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs: logits `z` of `[.., V]`, labels `i32[..]`. Outputs: `loss[..]` and `lse[..] = log(sum_j e^z_j)`,
/// with `loss = (1 - s) (lse - z_label) + s (lse - mean_j z_j)`, and 0 where the label is the ignored one.
/// Every other label must be in `0..V`. Both outputs are of the accumulator dtype of `z`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CrossEntropy {
    /// The label of rows without a loss; within `i32`, which need not be a class.
    pub ignore: i64,
    /// Label smoothing `s`, in `0..=1`.
    pub smoothing: f64,
}

/// The derivative of [`CrossEntropy`]: inputs logits, lse, labels, `dloss[..]`; the output is the logits'
/// cotangent `dz_j = dloss (e^(z_j - lse) - (1 - s) [j = label] - s / V)`, and 0 in ignored rows. It may be
/// written over the logits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CrossEntropyBackward {
    /// The label of rows without a loss; within `i32`, which need not be a class.
    pub ignore: i64,
    /// Label smoothing `s`, in `0..=1`.
    pub smoothing: f64,
}

/// Checks logits, labels, smoothing and the ignored label; the type with one element for each row.
fn row_type(logits: &Type, labels: &Type, ignore: i64, smoothing: f64) -> Result<Type> {
    float_rows(logits)?;
    if labels.dtype != DType::I32 || labels.shape[..] != *lead(logits) {
        return Err(Error::user(format!(
            "the labels of logits {logits} must be {}, not {labels}",
            Type::new(DType::I32, lead(logits))
        )));
    }
    indexable("classes", logits.last())?;
    if !(0.0..=1.0).contains(&smoothing) {
        return Err(Error::user(format!("label smoothing {smoothing} is not in 0..=1")));
    }
    if i32::try_from(ignore).is_err() {
        return Err(Error::user(format!("the ignored label {ignore} is beyond i32")));
    }
    Ok(Type::new(logits.dtype.accumulator(), lead(logits)))
}

/// The label of a row; none if ignored.
///
/// # Panics
/// If it is out of range.
fn label_of(label: f64, row: usize, classes: usize, ignore: i64) -> Option<usize> {
    if label == ignore as f64 {
        return None;
    }
    let inside = label >= 0.0 && label < classes as f64;
    assert!(
        inside,
        "cross_entropy: the label {label} of row {row} is neither in 0..{classes} nor the ignored {ignore}"
    );
    Some(label as usize)
}

/// Whether each label counts, and whether each class is its label.
fn label_masks(logits: Tensor, labels: Tensor, ignore: i64) -> (Tensor, Tensor) {
    let shape = logits.shape();
    let classes = logits.trace().iota(DType::I32, &shape, shape.len() - 1);
    (
        labels.ne(labels.scalar_like(ignore as f64)),
        classes.eq(labels.unsqueeze(-1)),
    )
}

named!("cross_entropy": CrossEntropy { ignore, smoothing });

impl Op for CrossEntropy {
    named!();

    facts! {
        rows;
        flops(18.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        Ok(vec![row_type(&inputs[0], &inputs[1], self.ignore, self.smoothing)?; 2])
    }

    /// # Panics
    /// If a label is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (mut losses, mut lses) = (Vec::new(), Vec::new());
        let s = self.smoothing;
        for (i, (z, &label)) in inputs[0].rows().zip(&inputs[1].data).enumerate() {
            let lse = log_sum_exp(z);
            let loss = label_of(label, i, z.len(), self.ignore).map_or(0.0, |label| {
                let smooth = if s == 0.0 {
                    0.0
                } else {
                    s * (lse - z.iter().sum::<f64>() / z.len() as f64)
                };
                (1.0 - s) * (lse - z[label]) + smooth
            });
            losses.push(loss);
            lses.push(lse);
        }
        arrays(outputs, [losses, lses])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (Some(dloss), None) = (cx.cotangents[0], cx.cotangents[1]) else {
            return Vec::new();
        };
        let (logits, labels, lse) = (cx.inputs[0], cx.inputs[1], cx.outputs[1]);
        let backward = CrossEntropyBackward {
            ignore: self.ignore,
            smoothing: self.smoothing,
        };
        vec![
            Some(logits.trace().apply1(backward, &[logits, lse, labels, dloss])),
            None,
        ]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let z = inputs[0].cast(inputs[0].dtype().accumulator());
        let (counts, is_label) = label_masks(z, inputs[1], self.ignore);
        let rows = counts.shape();
        let max = z.max_last();
        let lse = (max + (z - max).exp().sum_last().log()).reshape(&rows);
        let of_label = is_label.select(z, z.scalar_like(0.0)).sum_last().reshape(&rows);
        let mut loss = (lse - of_label) * (1.0 - self.smoothing);
        if self.smoothing != 0.0 {
            loss = loss + (lse - z.mean_last().reshape(&rows)) * self.smoothing;
        }
        Some(vec![counts.select(loss, loss.scalar_like(0.0)), lse])
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        Some(IndexInput {
            input: 1,
            limit: inputs[0].last(),
            ignored: Some(self.ignore),
        })
    }
}

named!("cross_entropy_backward": CrossEntropyBackward { ignore, smoothing });

impl Op for CrossEntropyBackward {
    named!();

    facts! {
        rows;
        in_place((0, 0));
        flops(18.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        let row = row_type(&inputs[0], &inputs[2], self.ignore, self.smoothing)?;
        if inputs[1] != row || inputs[3] != row {
            return Err(Error::user(format!(
                "lse and dloss must be {row}, not {} and {}",
                inputs[1], inputs[3]
            )));
        }
        Ok(vec![inputs[0].clone()])
    }

    /// # Panics
    /// If a label is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut data = Vec::with_capacity(outputs[0].numel());
        for (i, z) in inputs[0].rows().enumerate() {
            let (lse, dloss) = (inputs[1].data[i], inputs[3].data[i]);
            let Some(label) = label_of(inputs[2].data[i], i, z.len(), self.ignore) else {
                data.resize(data.len() + z.len(), 0.0);
                continue;
            };
            let even = self.smoothing / z.len() as f64;
            data.extend(z.iter().enumerate().map(|(j, z)| {
                let target = if j == label { 1.0 - self.smoothing + even } else { even };
                dloss * ((z - lse).exp() - target)
            }));
        }
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (z, lse, labels, dloss) = (inputs[0].cast(inputs[1].dtype()), inputs[1], inputs[2], inputs[3]);
        let (counts, is_label) = label_masks(z, labels, self.ignore);
        let even = self.smoothing / z.dim(-1) as f64;
        let target = is_label.select(z.scalar_like(1.0 - self.smoothing + even), z.scalar_like(even));
        let dz = dloss.unsqueeze(-1) * ((z - lse.unsqueeze(-1)).exp() - target);
        Some(vec![
            counts
                .unsqueeze(-1)
                .select(dz, dz.scalar_like(0.0))
                .cast(inputs[0].dtype()),
        ])
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        Some(IndexInput {
            input: 2,
            limit: inputs[0].last(),
            ignored: Some(self.ignore),
        })
    }
}

impl Tensor {
    /// The cross entropy of each row of logits `[.., V]` with its label `i32[..]`: `[..]`, 0 where the label
    /// is `ignore`. See [`CrossEntropy`].
    #[track_caller]
    pub fn cross_entropy_rows(self, labels: Tensor, ignore: i64, smoothing: f64) -> Tensor {
        self.trace().apply(CrossEntropy { ignore, smoothing }, &[self, labels])[0]
    }

    /// The mean of [`Tensor::cross_entropy_rows`] over the rows whose label is not `ignore`; 0 if there are
    /// none.
    #[track_caller]
    pub fn cross_entropy_with(self, labels: Tensor, ignore: i64, smoothing: f64) -> Tensor {
        let losses = self.cross_entropy_rows(labels, ignore, smoothing);
        let count = labels.ne(labels.scalar_like(ignore as f64)).cast(losses.dtype()).sum();
        losses.sum() / count.maximum(count.scalar_like(1.0))
    }

    /// The mean cross entropy of logits `[.., V]` over the rows whose label, `i32[..]`, is not -100; 0 if
    /// there are none.
    #[track_caller]
    pub fn cross_entropy(self, labels: Tensor) -> Tensor {
        self.cross_entropy_with(labels, -100, 0.0)
    }
}
