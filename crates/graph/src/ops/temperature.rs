//! The temperature of NormSoftmax (Jiang et al. 2023) and of LogitNorm (Wei et al. 2022): a divisor of a row of scores
//! that follows from the row itself. A row is centered before it is divided where its temperature is: softmax does not
//! notice, and a row of equal scores becomes zeros.

use crate::tensor::Tensor;

/// The least temperature before it is multiplied by `tau`. A row of equal scores would have temperature 0 otherwise.
pub const LEAST_TEMPERATURE: f64 = 1e-3;

/// The bound of a temperature.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Clip {
    /// At most this number, the paper's `gamma`; infinity is no bound.
    AtMost(f64),
    /// At least this number: inverse clipping, the paper's `f_2`.
    AtLeast(f64),
}

/// A row's temperature `T = tau max(clip(sigma), LEAST_TEMPERATURE)`, with the population deviation `sigma` of the row
/// (equation 2.27), or its root mean square.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Temperature {
    /// Whether `sigma` is the deviation from the mean; otherwise from zero, which is LogitNorm with the paper's
    /// temperature `tau n^-1/2` for rows of `n` scores (equation 2.26).
    pub centered: bool,
    /// The bound of `sigma`.
    pub clip: Clip,
    /// The factor after clipping.
    pub tau: f64,
    /// Whether a learned weight multiplies the scores after the division, the paper's `f_1`.
    pub learned: bool,
}

impl Default for Temperature {
    /// NormSoftmax with `gamma = 1` and `tau = 1`.
    fn default() -> Temperature {
        Temperature {
            centered: true,
            clip: Clip::AtMost(1.0),
            tau: 1.0,
            learned: false,
        }
    }
}

/// The temperature of one row and its derivative: `dT/dx_j = slope (x_j - center)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RowTemperature {
    /// The temperature.
    pub value: f64,
    /// The row's mean, or zero.
    pub center: f64,
    /// The factor of the derivative; 0 where the temperature does not depend on the row.
    pub slope: f64,
}

impl Temperature {
    /// The temperature of a row of scores.
    pub fn of_row(&self, row: &[f64]) -> RowTemperature {
        let n = row.len().max(1) as f64;
        let center = if self.centered {
            row.iter().sum::<f64>() / n
        } else {
            0.0
        };
        let sigma = (row.iter().map(|x| (x - center) * (x - center)).sum::<f64>() / n).sqrt();
        let (clipped, free) = match self.clip {
            Clip::AtMost(gamma) => (sigma.min(gamma), sigma < gamma),
            Clip::AtLeast(floor) => (sigma.max(floor), sigma > floor),
        };
        let free = free && clipped > LEAST_TEMPERATURE;
        RowTemperature {
            value: self.tau * clipped.max(LEAST_TEMPERATURE),
            center,
            slope: if free { self.tau / (n * sigma) } else { 0.0 },
        }
    }

    /// A row divided by its temperature, less its mean if centered.
    pub fn normalized(&self, row: &[f64]) -> Vec<f64> {
        let t = self.of_row(row);
        row.iter().map(|x| (x - t.center) / t.value).collect()
    }

    /// The derivative of a row from the derivative of its result of [`Temperature::normalized`].
    pub fn derivative(&self, row: &[f64], d: &[f64]) -> Vec<f64> {
        let t = self.of_row(row);
        let along: f64 = row.iter().zip(d).map(|(x, d)| d * (x - t.center)).sum();
        let mean = if self.centered {
            d.iter().sum::<f64>() / row.len().max(1) as f64
        } else {
            0.0
        };
        let of_temperature = along / (t.value * t.value) * t.slope;
        let pairs = row.iter().zip(d);
        pairs
            .map(|(x, d)| (d - mean) / t.value - of_temperature * (x - t.center))
            .collect()
    }

    /// Rows along the last axis divided by their temperatures, less their means if centered. Only scores that are
    /// `visible` count; the others must be finite, and become zeros.
    pub(crate) fn normalize(&self, scores: Tensor, visible: Option<Tensor>) -> Tensor {
        let (deviations, sigma) = self.deviations(scores, visible);
        deviations / (self.clipped(sigma) * self.tau)
    }

    /// Rows along the last axis less their means if centered, and their deviations `[.., 1]`, which are
    /// [`LEAST_TEMPERATURE`] at least.
    pub(crate) fn deviations(&self, scores: Tensor, visible: Option<Tensor>) -> (Tensor, Tensor) {
        let zero = scores.scalar_like(0.0);
        let only_visible = |x: Tensor| visible.map_or(x, |visible| visible.select(x, zero));
        let count = match visible {
            Some(visible) => visible.cast(scores.dtype()).sum_last().maximum(scores.scalar_like(1.0)),
            None => scores.scalar_like(scores.dim(-1).max(1) as f64),
        };
        let scores = only_visible(scores);
        let deviations = if self.centered {
            only_visible(scores - scores.sum_last() / count)
        } else {
            scores
        };
        let variance = (deviations * deviations).sum_last() / count;
        // The maximum stands inside of the root, so that a row of equal scores has a finite derivative.
        let sigma = variance
            .maximum(scores.scalar_like(LEAST_TEMPERATURE * LEAST_TEMPERATURE))
            .sqrt();
        (deviations, sigma)
    }

    /// A deviation within its bound.
    pub(crate) fn clipped(&self, sigma: Tensor) -> Tensor {
        match self.clip {
            Clip::AtMost(gamma) if gamma == f64::INFINITY => sigma,
            Clip::AtMost(gamma) => sigma.minimum(sigma.scalar_like(gamma)),
            Clip::AtLeast(floor) => sigma.maximum(sigma.scalar_like(floor)),
        }
    }
}
