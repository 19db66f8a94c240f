//! Mean and variance of columns: the statistics of batch, group and instance normalization.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Op, Vjp};
use crate::ops::rules::{arity, arrays, float};
use crate::tensor::Tensor;
use crate::types::Type;

/// Input `x[.., R, C]` with at least one row; outputs `mean[.., C]` and `variance[.., C]`, the population variance,
/// along the last axis but one. They are of the accumulator dtype of `x`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moments;

named!("moments": Moments {});

impl Op for Moments {
    named!();

    facts! { flops(4.0); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let x = &inputs[0];
        float(x)?;
        if x.rank() < 2 || x.shape[x.rank() - 2] == 0 {
            return Err(Error::user(format!("needs rows whose columns have moments, not {x}")));
        }
        let shape = [&x.shape[..x.rank() - 2], &[x.last()]].concat();
        Ok(vec![Type::new(x.dtype.accumulator(), &shape); 2])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let (rows, columns) = (x.ty.shape[x.ty.rank() - 2], x.ty.last());
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        for block in x.data.chunks((rows * columns).max(1)) {
            for c in 0..columns {
                let column = || block.iter().skip(c).step_by(columns);
                let mean = column().sum::<f64>() / rows as f64;
                means.push(mean);
                variances.push(column().map(|x| (x - mean) * (x - mean)).sum::<f64>() / rows as f64);
            }
        }
        arrays(outputs, [means, variances])
    }

    /// `dx = (dmean + 2 dvariance (x - mean)) / R`.
    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let (x, mean) = (cx.inputs[0], cx.outputs[0]);
        let rows = x.dim(-2) as f64;
        let of_mean = cx.cotangents[0].map(|d| d / rows);
        let of_variance = cx.cotangents[1].map(|d| d * (2.0 / rows));
        let wide = x.cast(mean.dtype());
        let dx = match (of_mean, of_variance) {
            (Some(a), Some(b)) if x.rank() == 2 => wide.scale_shift(mean, b, a),
            (a, Some(b)) => {
                let dx = (wide - mean.unsqueeze(-2)) * b.unsqueeze(-2);
                a.map_or(dx, |a| dx + a.unsqueeze(-2))
            }
            (Some(a), None) => a.unsqueeze(-2),
            (None, None) => return Vec::new(),
        };
        vec![Some(dx.broadcast_to(&x.shape()).cast(x.dtype()))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let x = inputs[0].cast(inputs[0].dtype().accumulator());
        let axis = x.axis(-2);
        let mean = x.mean_axes(&[axis]);
        let centred = x - mean.unsqueeze(-2);
        Some(vec![mean, (centred * centred).mean_axes(&[axis])])
    }
}

impl Tensor {
    /// Mean and population variance of each column of `[.., R, C]` over its rows: twice `[.., C]`, in the accumulator
    /// dtype.
    #[track_caller]
    pub fn moments(self) -> [Tensor; 2] {
        let both = self.trace().apply(Moments, &[self]);
        [both[0], both[1]]
    }
}
