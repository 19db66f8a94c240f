//! Compressed root-mean-square normalization (Jiang et al. 2023, equation 3.5), and its derivative.

use lessen_base::Result;

use crate::array::Array;
use crate::op::{Op, Vjp};
use crate::ops::norm::statistics::{scaled, scaled_backward};
use crate::ops::rules::{arrays, lead};
use crate::tensor::Tensor;
use crate::types::Type;

/// Root-mean-square normalization of rows of `C + 1` elements whose sum is zero; the last element is left out. Inputs
/// `x[.., C]`, `gamma[C]`; outputs `y[.., C]`, `rstd[..]`: `y = x rstd gamma` with `rstd = 1 / sqrt((sum(x^2) +
/// sum(x)^2) / (C + 1) + eps)`, sums along the last axis. `rstd` is of the accumulator dtype of `x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CrmsNorm {
    /// Added to the mean square.
    pub eps: f64,
}

/// The derivative of [`CrmsNorm`]: inputs `x`, `gamma`, `rstd`, `dy`; outputs `dx`, `dgamma[C]`. With `g = dy gamma`:
/// `dx = rstd (g - rstd^2 (x + sum(x)) sum(g x) / (C + 1))`, sums along the last axis; `dgamma = sum(dy x rstd)` over
/// all rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CrmsNormBackward;

named!("crms_norm": CrmsNorm { eps });

/// The sum of the numbers, of their squares, and the number of elements that they stand for.
fn sums(x: &[f64]) -> (f64, f64, f64) {
    let squares: f64 = x.iter().map(|x| x * x).sum();
    (x.iter().sum(), squares, x.len() as f64 + 1.0)
}

impl Op for CrmsNorm {
    named!();

    facts! {
        rows(Rows, Whole => Rows, Rows);
        in_place((0, 0));
        flops(5.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        scaled(inputs)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (mut y, mut rstds) = (Vec::new(), Vec::new());
        for x in inputs[0].rows() {
            let (sum, squares, extent) = sums(x);
            let rstd = 1.0 / ((squares + sum * sum) / extent + self.eps).sqrt();
            y.extend(x.iter().zip(&inputs[1].data).map(|(x, gamma)| x * rstd * gamma));
            rstds.push(rstd);
        }
        arrays(outputs, [y, rstds])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let [Some(dy), None] = cx.cotangents else {
            return Vec::new();
        };
        let inputs = [cx.inputs[0], cx.inputs[1], cx.outputs[1], *dy];
        let results = dy.trace().apply(CrmsNormBackward, &inputs);
        results.into_iter().map(Some).collect()
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [x, gamma] = [0, 1].map(|i| inputs[i].cast(dtype.accumulator()));
        let extent = inputs[0].ty().last() as f64 + 1.0;
        let sum = x.sum_last();
        let rstd = (((x * x).sum_last() + sum * sum) * (1.0 / extent) + self.eps).rsqrt();
        let rows = lead(&x.ty()).to_vec();
        Some(vec![(x * rstd * gamma).cast(dtype), rstd.reshape(&rows)])
    }
}

named!("crms_norm_backward": CrmsNormBackward {});

impl Op for CrmsNormBackward {
    named!();

    facts! {
        rows(Rows, Whole, Rows, Rows => Rows, Sum);
        in_place((0 | 3, 0));
        flops(12.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        scaled_backward(inputs)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let gamma = &inputs[1].data;
        let (mut dx, mut dgamma) = (Vec::new(), vec![0.0; gamma.len()]);
        for (row, (x, dy)) in inputs[0].rows().zip(inputs[3].rows()).enumerate() {
            let rstd = inputs[2].data[row];
            let (sum, _, extent) = sums(x);
            let gx: f64 = (0..x.len()).map(|i| dy[i] * gamma[i] * x[i]).sum();
            let factor = rstd * rstd * gx / extent;
            for i in 0..x.len() {
                dx.push(rstd * (dy[i] * gamma[i] - factor * (x[i] + sum)));
                dgamma[i] += dy[i] * x[i] * rstd;
            }
        }
        arrays(outputs, [dx, dgamma])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [x, gamma, rstd, dy] = [0, 1, 2, 3].map(|i| inputs[i].cast(dtype.accumulator()));
        let extent = inputs[0].ty().last() as f64 + 1.0;
        let rstd = rstd.unsqueeze(-1);
        let g = dy * gamma;
        let factor = rstd * rstd * (g * x).sum_last() * (1.0 / extent);
        let dx = rstd * (g - factor * (x + x.sum_last()));
        Some(vec![dx.cast(dtype), (dy * x * rstd).sum_rows().cast(dtype)])
    }
}

impl Tensor {
    /// Root-mean-square normalization along the last axis of rows whose last element, which makes their sum zero, is
    /// left out, with scale `gamma[C]`. See [`CrmsNorm`].
    #[track_caller]
    pub fn crms_norm(self, gamma: Tensor, eps: f64) -> Tensor {
        self.trace().apply(CrmsNorm { eps }, &[self, gamma])[0]
    }
}
