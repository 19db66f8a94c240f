//! Root-mean-square normalization (Zhang, Sennrich 2019), and its derivative.

use lessen_base::Result;

use crate::array::Array;
use crate::inverse::FromOutput;
use crate::op::{Op, Vjp};
use crate::ops::norm::rms_norm_from_output::RmsNormBackwardFromOutput;
use crate::ops::norm::statistics::{scaled, scaled_backward};
use crate::ops::rules::{arrays, lead};
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `x[.., C]`, `gamma[C]`; outputs `y[.., C]`, `rstd[..]`: `y = x rstd gamma` with `rstd = 1 /
/// sqrt(mean(x^2) + eps)`, the mean along the last axis. `rstd` is of the accumulator dtype of `x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f64,
}

/// The derivative of [`RmsNorm`]: inputs `x`, `gamma`, `rstd`, `dy`; outputs `dx`, `dgamma[C]`. With `h = x
/// rstd` and `g = dy gamma`: `dx = rstd (g - h mean(g h))`, the mean along the last axis; `dgamma = sum(dy
/// h)` over all rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsNormBackward {
    /// That of the [`RmsNorm`], on which no result depends: it says which outputs the derivative may follow from.
    pub eps: f64,
}

named!("rms_norm": RmsNorm { eps });

impl Op for RmsNorm {
    named!();

    facts! {
        rows(Rows, Whole => Rows, Rows);
        in_place((0, 0));
        flops(4.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        scaled(inputs)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (mut y, mut rstds) = (Vec::new(), Vec::new());
        for x in inputs[0].rows() {
            let mean_square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
            let rstd = 1.0 / (mean_square + self.eps).sqrt();
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
        dy.trace()
            .apply(RmsNormBackward { eps: self.eps }, &inputs)
            .into_iter()
            .map(Some)
            .collect()
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [x, gamma] = [0, 1].map(|i| inputs[i].cast(dtype.accumulator()));
        let rstd = ((x * x).mean_last() + self.eps).rsqrt();
        let rows = lead(&x.ty()).to_vec();
        Some(vec![(x * rstd * gamma).cast(dtype), rstd.reshape(&rows)])
    }
}

named!("rms_norm_backward": RmsNormBackward { eps });

impl Op for RmsNormBackward {
    named!();

    facts! {
        rows(Rows, Whole, Rows, Rows => Rows, Sum);
        in_place((0 | 3, 0));
        flops(11.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        scaled_backward(inputs)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let gamma = &inputs[1].data;
        let (mut dx, mut dgamma) = (Vec::new(), vec![0.0; gamma.len()]);
        for (row, (x, dy)) in inputs[0].rows().zip(inputs[3].rows()).enumerate() {
            let rstd = inputs[2].data[row];
            let gh: f64 = (0..x.len()).map(|i| dy[i] * gamma[i] * x[i] * rstd).sum();
            let mean_gh = gh / x.len() as f64;
            for i in 0..x.len() {
                let h = x[i] * rstd;
                dx.push(rstd * (dy[i] * gamma[i] - h * mean_gh));
                dgamma[i] += dy[i] * h;
            }
        }
        arrays(outputs, [dx, dgamma])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [x, gamma, rstd, dy] = [0, 1, 2, 3].map(|i| inputs[i].cast(dtype.accumulator()));
        let rstd = rstd.unsqueeze(-1);
        let (h, g) = (x * rstd, dy * gamma);
        let dx = rstd * (g - h * (g * h).mean_last());
        Some(vec![dx.cast(dtype), (dy * h).sum_rows().cast(dtype)])
    }

    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        RmsNormBackwardFromOutput::rule(self.eps, inputs)
    }
}

impl Tensor {
    /// Root-mean-square normalization along the last axis with scale `gamma[C]`. See [`RmsNorm`].
    #[track_caller]
    pub fn rms_norm(self, gamma: Tensor, eps: f64) -> Tensor {
        self.trace().apply(RmsNorm { eps }, &[self, gamma])[0]
    }
}
