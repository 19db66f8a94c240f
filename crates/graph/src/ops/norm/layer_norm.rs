//! Layer normalization (Ba, Kiros, Hinton 2016), and its derivative.

use std::sync::Arc;

use lessen_base::Result;

use crate::along::{Along, AlongQuery, WhenCentred};
use crate::array::Array;
use crate::inverse::FromOutput;
use crate::op::{Op, Vjp};
use crate::ops::norm::crms_norm::CrmsNorm;
use crate::ops::norm::layer_norm_from_output::LayerNormBackwardFromOutput;
use crate::ops::norm::rms_norm::RmsNorm;
use crate::ops::norm::statistics::{check_backward, check_parameters, statistics_type};
use crate::ops::rules::{arity, arrays, lead};
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs `x[.., C]`, `gamma[C]`, `beta[C]`; outputs `y[.., C]`, `mean[..]`, `rstd[..]`: `y = (x - mean) rstd
/// gamma + beta` with `rstd = 1 / sqrt(variance + eps)`, mean and population variance along the last axis.
/// The statistics are of the accumulator dtype of `x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerNorm {
    /// Added to the variance.
    pub eps: f64,
}

/// The derivative of [`LayerNorm`]: inputs `x`, `gamma`, `mean`, `rstd`, `dy`; outputs `dx`, `dgamma[C]`,
/// `dbeta[C]`. With `h = (x - mean) rstd` and `g = dy gamma`: `dx = rstd (g - mean(g) - h mean(g h))`, means
/// along the last axis; `dgamma = sum(dy h)`, `dbeta = sum(dy)` over all rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerNormBackward {
    /// That of the [`LayerNorm`], on which no result depends: it says which outputs the derivative may follow from.
    pub eps: f64,
}

named!("layer_norm": LayerNorm { eps });

impl Op for LayerNorm {
    named!();

    facts! {
        rows(Rows, Whole, Whole => Rows, Rows, Rows);
        in_place((0, 0));
        flops(8.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 3)?;
        check_parameters(&inputs[0], &inputs[1..])?;
        let statistics = statistics_type(&inputs[0]);
        Ok(vec![inputs[0].clone(), statistics.clone(), statistics])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (gamma, beta) = (&inputs[1].data, &inputs[2].data);
        let (mut y, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
        for x in inputs[0].rows() {
            let n = x.len() as f64;
            let mean = x.iter().sum::<f64>() / n;
            let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
            let rstd = 1.0 / (variance + self.eps).sqrt();
            y.extend(
                x.iter()
                    .zip(gamma.iter().zip(beta))
                    .map(|(x, (g, b))| (x - mean) * rstd * g + b),
            );
            means.push(mean);
            rstds.push(rstd);
        }
        arrays(outputs, [y, means, rstds])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let [Some(dy), None, None] = cx.cotangents else {
            return Vec::new();
        };
        let inputs = [cx.inputs[0], cx.inputs[1], cx.outputs[1], cx.outputs[2], *dy];
        dy.trace()
            .apply(LayerNormBackward { eps: self.eps }, &inputs)
            .into_iter()
            .map(Some)
            .collect()
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [x, gamma, beta] = [0, 1, 2].map(|i| inputs[i].cast(dtype.accumulator()));
        let mean = x.mean_last();
        let centred = x - mean;
        let rstd = ((centred * centred).mean_last() + self.eps).rsqrt();
        let y = centred * rstd * gamma + beta;
        let rows = lead(&x.ty()).to_vec();
        Some(vec![y.cast(dtype), mean.reshape(&rows), rstd.reshape(&rows)])
    }

    /// Without a scale and a shift of its own for each element, the result has mean 0.
    fn along(&self, query: AlongQuery<'_>) -> Along {
        let has_no_affine = query.known[1].is_some() && query.known[2] == Some(0.0);
        if query.output == 0 && query.is_last() && has_no_affine {
            Along::Centred
        } else {
            Along::Unknown
        }
    }

    fn when_centred(&self) -> Option<WhenCentred> {
        Some(WhenCentred {
            norm: Arc::new(RmsNorm { eps: self.eps }),
            compressed: Arc::new(CrmsNorm { eps: self.eps }),
            scale: 1,
            shift: 2,
        })
    }

    fn ignores_shift(&self, input: usize, axis: usize, inputs: &[Type]) -> bool {
        input == 0 && axis + 1 == inputs[0].rank()
    }
}

named!("layer_norm_backward": LayerNormBackward { eps });

impl Op for LayerNormBackward {
    named!();

    facts! {
        rows(Rows, Whole, Rows, Rows, Rows => Rows, Sum, Sum);
        in_place((0 | 4, 0));
        flops(15.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 5)?;
        check_parameters(&inputs[0], &inputs[1..2])?;
        check_backward(&inputs[0], &inputs[2..4], &inputs[4])?;
        Ok(vec![inputs[0].clone(), inputs[1].clone(), inputs[1].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let gamma = &inputs[1].data;
        let width = gamma.len();
        let (mut dx, mut dgamma, mut dbeta) = (Vec::new(), vec![0.0; width], vec![0.0; width]);
        for (row, (x, dy)) in inputs[0].rows().zip(inputs[4].rows()).enumerate() {
            let (mean, rstd) = (inputs[2].data[row], inputs[3].data[row]);
            let h: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
            let g: Vec<f64> = dy.iter().zip(gamma).map(|(dy, gamma)| dy * gamma).collect();
            let mean_g = g.iter().sum::<f64>() / width as f64;
            let mean_gh = g.iter().zip(&h).map(|(g, h)| g * h).sum::<f64>() / width as f64;
            for i in 0..width {
                dx.push(rstd * (g[i] - mean_g - h[i] * mean_gh));
                dgamma[i] += dy[i] * h[i];
                dbeta[i] += dy[i];
            }
        }
        arrays(outputs, [dx, dgamma, dbeta])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [x, gamma, mean, rstd, dy] = [0, 1, 2, 3, 4].map(|i| inputs[i].cast(dtype.accumulator()));
        let rstd = rstd.unsqueeze(-1);
        let h = (x - mean.unsqueeze(-1)) * rstd;
        let g = dy * gamma;
        let dx = rstd * (g - g.mean_last() - h * (g * h).mean_last());
        Some(vec![
            dx.cast(dtype),
            (dy * h).sum_rows().cast(dtype),
            dy.sum_rows().cast(dtype),
        ])
    }

    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        LayerNormBackwardFromOutput::rule(self.eps, inputs)
    }
}

impl Tensor {
    /// Layer normalization along the last axis with scale `gamma[C]` and shift `beta[C]`. See [`LayerNorm`].
    #[track_caller]
    pub fn layer_norm(self, gamma: Tensor, beta: Tensor, eps: f64) -> Tensor {
        self.trace().apply(LayerNorm { eps }, &[self, gamma, beta])[0]
    }
}
