//! The normalization of logits in NormSoftmax (Jiang et al. 2023) and LogitNorm (Wei et al. 2022), and its derivative.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::{Attr, Attrs};
use crate::named::AttrValue;
use crate::op::{Op, Vjp};
use crate::ops::attention::Weighting;
use crate::ops::norm::statistics::{check_backward, statistics_type};
use crate::ops::rules::{arity, arrays, float_rows, lead};
use crate::ops::temperature::{Clip, LEAST_TEMPERATURE, Temperature};
use crate::tensor::Tensor;
use crate::types::Type;

/// Input `x[.., C]`; outputs `y[.., C] = (x - m) / T`, `T[..]` and `s[..]`: `T` is the [`Temperature`] of a row
/// (equation 2.27), `m` its mean if the temperature is centered and otherwise 0, and `s` is `tau^2 / C` where the
/// temperature follows the row, 0 where its bound holds. `T` and `s` are of the accumulator dtype of `x`. Softmax does
/// not notice the mean; a row of equal logits becomes zeros. The temperature has no learned weight.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NormLogits {
    /// The temperature of a row.
    pub temperature: Temperature,
}

/// The derivative of [`NormLogits`] from its results: inputs `y`, `T`, `s`, `dy`; `dx = (dy - mean(dy) - s sum(dy y) y)
/// / T`, sum and mean along the last axis, the mean only if centered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NormLogitsBackward {
    /// Whether the temperature is centered.
    pub centered: bool,
}

impl AttrValue for Temperature {
    /// The word of the [`Weighting`] with this temperature.
    fn to_attr(&self) -> Attr {
        Attr::Word(Weighting::Norm(*self).to_string())
    }

    fn read(attrs: &Attrs, name: &str) -> Result<Temperature> {
        let word = attrs.word(name)?;
        let temperature = word.parse::<Weighting>()?.temperature();
        temperature.ok_or_else(|| Error::user(format!("`{word}` has no temperature; take norm_softmax or logit_norm")))
    }
}

named!("norm_logits": NormLogits { temperature });

impl Op for NormLogits {
    named!();

    facts! {
        rows;
        in_place((0, 0));
        flops(6.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        float_rows(&inputs[0])?;
        Weighting::Norm(self.temperature).check()?;
        if self.temperature.learned {
            return Err(Error::user("logits have no learned weight; leave out `learned`"));
        }
        let statistics = statistics_type(&inputs[0]);
        Ok(vec![inputs[0].clone(), statistics.clone(), statistics])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (mut y, mut temperatures, mut slopes) = (Vec::new(), Vec::new(), Vec::new());
        for x in inputs[0].rows() {
            let t = self.temperature.of_row(x);
            y.extend(x.iter().map(|x| (x - t.center) / t.value));
            temperatures.push(t.value);
            slopes.push(t.slope * t.value);
        }
        arrays(outputs, [y, temperatures, slopes])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let [Some(dy), None, None] = cx.cotangents else {
            return Vec::new();
        };
        let backward = NormLogitsBackward {
            centered: self.temperature.centered,
        };
        let [y, t, s] = [0, 1, 2].map(|i| cx.outputs[i]);
        vec![Some(dy.trace().apply1(backward, &[y, t, s, *dy]))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let x = inputs[0].cast(dtype.accumulator());
        let (deviations, sigma) = self.temperature.deviations(x, None);
        let t = self.temperature.clipped(sigma) * self.temperature.tau;
        let number = |value: f64| sigma.scalar_like(value);
        let follows = sigma.gt(number(LEAST_TEMPERATURE)).and(match self.temperature.clip {
            Clip::AtMost(gamma) => sigma.lt(number(gamma)),
            Clip::AtLeast(floor) => sigma.gt(number(floor)),
        });
        let s = follows.select(number(self.slope(x.dim(-1))), number(0.0));
        let rows = lead(&x.ty()).to_vec();
        Some(vec![(deviations / t).cast(dtype), t.reshape(&rows), s.reshape(&rows)])
    }
}

impl NormLogits {
    /// The value of `s` for rows of `columns` elements whose temperature follows them.
    pub fn slope(&self, columns: usize) -> f64 {
        self.temperature.tau * self.temperature.tau / columns as f64
    }
}

named!("norm_logits_backward": NormLogitsBackward { centered });

impl Op for NormLogitsBackward {
    named!();

    facts! {
        rows;
        in_place((0 | 3, 0));
        flops(8.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        float_rows(&inputs[0])?;
        check_backward(&inputs[0], &inputs[1..3], &inputs[3])?;
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut dx = Vec::with_capacity(outputs[0].numel());
        for (row, (y, dy)) in inputs[0].rows().zip(inputs[3].rows()).enumerate() {
            let (t, s) = (inputs[1].data[row], inputs[2].data[row]);
            let along: f64 = s * y.iter().zip(dy).map(|(y, dy)| y * dy).sum::<f64>();
            let mean = if self.centered {
                dy.iter().sum::<f64>() / dy.len() as f64
            } else {
                0.0
            };
            dx.extend(y.iter().zip(dy).map(|(y, dy)| (dy - mean - along * y) / t));
        }
        arrays(outputs, [dx])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [y, t, s, dy] = [0, 1, 2, 3].map(|i| inputs[i].cast(dtype.accumulator()));
        let centered = if self.centered { dy - dy.mean_last() } else { dy };
        let along = s.unsqueeze(-1) * (y * dy).sum_last();
        Some(vec![((centered - along * y) / t.unsqueeze(-1)).cast(dtype)])
    }
}

impl Tensor {
    /// Logits along the last axis divided by the temperature of their row, less its mean if that is centered: the
    /// arguments of softmax in NormSoftmax and LogitNorm. See [`NormLogits`].
    #[track_caller]
    pub fn norm_logits(self, temperature: Temperature) -> Tensor {
        self.trace().apply(NormLogits { temperature }, &[self])[0]
    }
}
