//! Layer normalization (Ba, Kiros, Hinton 2016), and its derivative.

use lessen_base::{Error, Result};

use super::{arity, float_rows, lead, rows};
use crate::grad::vjp_of_decomposition;
use crate::{Array, Attr, Attrs, Cost, Op, OutRole, Role, RowWise, Tensor, Type, Vjp};

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
pub struct LayerNormBackward;

/// Checks that the parameters are vectors of the last axis and of its dtype.
pub(crate) fn check_parameters(x: &Type, parameters: &[Type]) -> Result<()> {
    float_rows(x)?;
    let expected = Type::new(x.dtype, &[x.last()]);
    match parameters.iter().find(|p| **p != expected) {
        Some(p) => Err(Error::user(format!(
            "the parameters for rows of {x} must be {expected}, not {p}"
        ))),
        None => Ok(()),
    }
}

/// Checks that the statistics have one element for each row, and that the cotangent has the type of `x`.
pub(crate) fn check_backward(x: &Type, statistics: &[Type], dy: &Type) -> Result<()> {
    let expected = statistics_type(x);
    if let Some(s) = statistics.iter().find(|s| **s != expected) {
        return Err(Error::user(format!(
            "the statistics of {x} must be {expected}, not {s}"
        )));
    }
    if dy == x {
        Ok(())
    } else {
        Err(Error::user(format!("the cotangent of {x} has type {dy}")))
    }
}

/// The type of a number for each row.
pub(crate) fn statistics_type(x: &Type) -> Type {
    Type::new(x.dtype.accumulator(), lead(x))
}

impl Op for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("eps", Attr::Float(self.eps))
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
        outputs
            .iter()
            .cloned()
            .zip([y, means, rstds])
            .map(|(ty, data)| Array::new(ty, data))
            .collect()
    }

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let [Some(dy), None, None] = cx.cotangents else {
            return vjp_of_decomposition(self.name(), |inputs| self.decompose(inputs), cx);
        };
        let inputs = [cx.inputs[0], cx.inputs[1], cx.outputs[1], cx.outputs[2], *dy];
        dy.trace()
            .apply(LayerNormBackward, &inputs)
            .into_iter()
            .map(Some)
            .collect()
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let dtype = inputs[0].dtype();
        let [x, gamma, beta] = [0, 1, 2].map(|i| inputs[i].cast(dtype.accumulator()));
        let mean = x.mean_last();
        let centred = x - mean;
        let rstd = ((centred * centred).mean_last() + self.eps).rsqrt();
        let y = centred * rstd * gamma + beta;
        let rows = lead(&x.ty()).to_vec();
        Some(vec![y.cast(dtype), mean.reshape(&rows), rstd.reshape(&rows)])
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        RowWise::Rows {
            rows: rows(&inputs[0]),
            inputs: vec![Role::Rows, Role::Whole, Role::Whole],
            outputs: vec![OutRole::Rows; 3],
        }
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 8.0 * inputs[0].numel() as f64,
            bytes: 2.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }

    fn in_place(&self, input: usize, output: usize, inputs: &[Type], outputs: &[Type]) -> bool {
        input == 0 && output == 0 && inputs[input] == outputs[output]
    }
}

impl Op for LayerNormBackward {
    fn name(&self) -> &'static str {
        "layer_norm_backward"
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
        outputs
            .iter()
            .cloned()
            .zip([dx, dgamma, dbeta])
            .map(|(ty, data)| Array::new(ty, data))
            .collect()
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
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

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        RowWise::Rows {
            rows: rows(&inputs[0]),
            inputs: vec![Role::Rows, Role::Whole, Role::Rows, Role::Rows, Role::Rows],
            outputs: vec![OutRole::Rows, OutRole::Sum, OutRole::Sum],
        }
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 15.0 * inputs[0].numel() as f64,
            bytes: 3.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }

    fn in_place(&self, input: usize, output: usize, inputs: &[Type], outputs: &[Type]) -> bool {
        (input == 0 || input == 4) && output == 0 && inputs[input] == outputs[output]
    }
}

impl<'g> Tensor<'g> {
    /// Layer normalization along the last axis with scale `gamma[C]` and shift `beta[C]`. See [`LayerNorm`].
    #[track_caller]
    pub fn layer_norm(self, gamma: Tensor<'g>, beta: Tensor<'g>, eps: f64) -> Tensor<'g> {
        self.trace().apply(LayerNorm { eps }, &[self, gamma, beta])[0]
    }
}
