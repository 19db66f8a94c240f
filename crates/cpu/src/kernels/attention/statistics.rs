//! Statistics of rows of scores, a tile at a time: each lane is one row.

use lessen_graph::ops::norm::temperature::{Clip, LEAST_TEMPERATURE, Temperature};

use super::lanes::load;
use crate::simd::{Level, fma, larger};

/// Number, mean, sum of squared deviations and extremes of the scores so far, updated as Chan, Golub and LeVeque (1979)
/// do: deviations within a tile are from the tile's own mean.
#[derive(Clone, Copy)]
pub(super) struct Statistics<const W: usize> {
    n: [f32; W],
    mean: [f32; W],
    squares: [f32; W],
    largest: [f32; W],
    least: [f32; W],
}

/// What makes exponents of scores: `factor (s - center)`, the factor being the learned weight divided by the
/// temperature.
#[derive(Clone, Copy)]
pub(super) struct Normalizer<const W: usize> {
    /// The mean, or zero.
    pub(super) center: [f32; W],
    pub(super) factor: [f32; W],
    /// The temperature, and one divided by it.
    value: [f32; W],
    inverse: [f32; W],
    /// 1 where the temperature follows from the scores, else 0.
    pub(super) free: [f32; W],
    /// One divided by the number of scores where the mean is subtracted, else zero.
    pub(super) share: [f32; W],
    /// The score of the largest exponent.
    pub(super) extreme: [f32; W],
}

impl<const W: usize> Statistics<W> {
    pub(super) fn new() -> Statistics<W> {
        Statistics {
            n: [0.0; W],
            mean: [0.0; W],
            squares: [0.0; W],
            largest: [f32::NEG_INFINITY; W],
            least: [f32::INFINITY; W],
        }
    }

    /// Adds a tile of `rows` rows of scores; those that are -inf do not count.
    ///
    /// # Safety
    /// The rows exist.
    #[inline(always)]
    pub(super) unsafe fn add<L: Level>(&mut self, rows: usize, hidden: bool, scores: *const f32) {
        let (mut n, mut sum) = ([rows as f32; W], [0.0; W]);
        let (mut largest, mut least) = (self.largest, self.least);
        // SAFETY: the rows exist.
        let row = |r: usize| unsafe { load::<W>(scores.wrapping_add(r * W)) };
        if hidden {
            n = [0.0; W];
            for r in 0..rows {
                let s = row(r);
                for i in 0..W {
                    let seen = s[i] != f32::NEG_INFINITY;
                    sum[i] += if seen { s[i] } else { 0.0 };
                    n[i] += if seen { 1.0 } else { 0.0 };
                    least[i] = if seen & (s[i] < least[i]) { s[i] } else { least[i] };
                    largest[i] = larger(s[i], largest[i]);
                }
            }
        } else {
            for r in 0..rows {
                let s = row(r);
                for i in 0..W {
                    sum[i] += s[i];
                    least[i] = if s[i] < least[i] { s[i] } else { least[i] };
                    largest[i] = larger(s[i], largest[i]);
                }
            }
        }
        let mut mean = [0.0; W];
        for i in 0..W {
            mean[i] = sum[i] / if n[i] == 0.0 { 1.0 } else { n[i] };
        }
        let mut squares = [0.0; W];
        for r in 0..rows {
            let s = row(r);
            for i in 0..W {
                let seen = !hidden | (s[i] != f32::NEG_INFINITY);
                let deviation = if seen { s[i] - mean[i] } else { 0.0 };
                squares[i] = fma::<L>(deviation, deviation, squares[i]);
            }
        }
        for i in 0..W {
            let all = self.n[i] + n[i];
            let apart = mean[i] - self.mean[i];
            let share = n[i] / if all == 0.0 { 1.0 } else { all };
            self.squares[i] += squares[i] + apart * apart * share * self.n[i];
            self.mean[i] += apart * share;
            self.n[i] = all;
        }
        (self.largest, self.least) = (largest, least);
    }

    /// The normalizer of these scores with the learned weight, or 1.
    #[inline(always)]
    pub(super) fn normalizer(&self, temperature: &Temperature, weight: f32) -> Normalizer<W> {
        let Temperature {
            centered, clip, tau, ..
        } = *temperature;
        let tau = tau as f32;
        let (bound, at_most) = match clip {
            Clip::AtMost(bound) => (bound as f32, true),
            Clip::AtLeast(bound) => (bound as f32, false),
        };
        let least = LEAST_TEMPERATURE as f32;
        let mut out = Normalizer {
            center: [0.0; W],
            factor: [0.0; W],
            value: [0.0; W],
            inverse: [0.0; W],
            free: [0.0; W],
            share: [0.0; W],
            extreme: [0.0; W],
        };
        for i in 0..W {
            let n = if self.n[i] == 0.0 { 1.0 } else { self.n[i] };
            let mean = self.mean[i];
            let uncentered = if centered { 0.0 } else { mean * mean };
            let sigma = (self.squares[i] / n + uncentered).sqrt();
            let bounded = (sigma < bound) == at_most;
            let clipped = if bounded | sigma.is_nan() { sigma } else { bound };
            let free = bounded & (clipped > least);
            let value = tau * if clipped < least { least } else { clipped };
            out.center[i] = if centered { mean } else { 0.0 };
            out.value[i] = value;
            out.inverse[i] = 1.0 / value;
            out.factor[i] = weight / value;
            out.free[i] = if free { 1.0 } else { 0.0 };
            out.share[i] = if centered { 1.0 / n } else { 0.0 };
            let extreme = if weight < 0.0 { self.least[i] } else { self.largest[i] };
            out.extreme[i] = if extreme.is_infinite() { 0.0 } else { extreme };
        }
        out
    }
}

impl<const W: usize> Normalizer<W> {
    /// `(s - center) / T` of a row: a product with `1 / T`, and what it leaves, for a division's accuracy.
    #[inline(always)]
    pub(super) fn normalized<L: Level>(&self, i: usize, s: f32) -> f32 {
        let x = s - self.center[i];
        let quotient = x * self.inverse[i];
        let rest = fma::<L>(-quotient, self.value[i], x);
        fma::<L>(rest, self.inverse[i], quotient)
    }

    /// The largest exponent of a row.
    #[inline(always)]
    pub(super) fn largest_exponent(&self, i: usize) -> f32 {
        self.factor[i] * (self.extreme[i] - self.center[i])
    }
}
