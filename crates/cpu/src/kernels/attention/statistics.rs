//! Statistics of rows of scores, a tile at a time: each lane is one row.

use lessen_graph::ops::temperature::{Clip, LEAST_TEMPERATURE, Temperature};

use super::lanes::{load, part_of};
use super::moments::ScoreMoments;
use crate::simd::{Level, fma, larger};

/// Count, mean, sum of squared deviations and extremes of the scores so far; the statistics of a tile are added as
/// Chan, Golub and LeVeque (1979) do.
#[derive(Clone, Copy)]
pub(super) struct Statistics<const W: usize> {
    n: [f32; W],
    mean: [f32; W],
    squares: [f32; W],
    /// The largest of the scores, or of their negatives.
    extreme: [f32; W],
    sign: f32,
}

/// Map from scores to exponents, `factor (s - center)`; the factor is the learned weight divided by the temperature.
#[derive(Clone, Copy)]
pub(super) struct Normalizer<const W: usize> {
    /// The mean, or zero.
    pub(super) center: [f32; W],
    pub(super) factor: [f32; W],
    /// The temperature, and one divided by it.
    value: [f32; W],
    pub(super) inverse: [f32; W],
    /// The sum of the squares of normalized scores, or 1 if it is zero.
    pub(super) squares: [f32; W],
    /// 1 where the temperature follows from the scores, else 0.
    pub(super) free: [f32; W],
    /// One divided by the number of scores where the mean is subtracted, else zero.
    pub(super) share: [f32; W],
    /// The score of the largest exponent.
    pub(super) extreme: [f32; W],
}

impl<const W: usize> Statistics<W> {
    /// For scores that are multiplied by this learned weight, or 1.
    pub(super) fn new(weight: f32) -> Statistics<W> {
        Statistics {
            n: [0.0; W],
            mean: [0.0; W],
            squares: [0.0; W],
            extreme: [f32::NEG_INFINITY; W],
            sign: if weight < 0.0 { -1.0 } else { 1.0 },
        }
    }

    /// The statistics of scores whose moments are known, without extremes.
    pub(super) fn of_moments(weight: f32, n: f32, moments: &ScoreMoments<W>) -> Statistics<W> {
        Statistics {
            n: [n; W],
            mean: moments.mean,
            squares: moments.squares,
            ..Statistics::new(weight)
        }
    }

    /// Adds a tile of `rows` rows of scores. If some are `hidden`, scores of -inf do not count.
    ///
    /// # Safety
    /// The rows exist.
    #[inline(always)]
    pub(super) unsafe fn add<L: Level>(&mut self, rows: usize, hidden: bool, scores: *const f32) {
        // SAFETY: passed on.
        unsafe {
            if hidden {
                self.add_rows::<L, true>(rows, scores);
            } else {
                self.add_rows::<L, false>(rows, scores);
            }
        }
    }

    #[inline(always)]
    unsafe fn add_rows<L: Level, const HIDDEN: bool>(&mut self, rows: usize, scores: *const f32) {
        // SAFETY: the rows exist.
        let row = |r: usize| unsafe { load::<W>(scores.wrapping_add(r * W)) };
        // Distances are from the mean so far, or from the first score: rounding of their squares is small against the
        // squared deviations of all scores.
        let first = row(0);
        let mut origin = self.mean;
        for i in 0..W {
            let begins = (self.n[i] == 0.0) & (first[i] != f32::NEG_INFINITY);
            origin[i] = if begins { first[i] } else { origin[i] };
        }
        let (mut n, mut sum, mut squares, mut extreme) = ([0.0; W], [0.0; W], [0.0; W], self.extreme);
        for r in 0..rows {
            let s = row(r);
            for i in 0..W {
                let seen = !HIDDEN | (s[i] != f32::NEG_INFINITY);
                let apart = if seen { s[i] - origin[i] } else { 0.0 };
                if HIDDEN {
                    n[i] += if seen { 1.0 } else { 0.0 };
                }
                sum[i] += apart;
                squares[i] = fma::<L>(apart, apart, squares[i]);
                let signed = if seen { self.sign * s[i] } else { f32::NEG_INFINITY };
                extreme[i] = larger(signed, extreme[i]);
            }
        }
        if !HIDDEN {
            n = [rows as f32; W];
        }
        for i in 0..W {
            let mean = sum[i] / if n[i] == 0.0 { 1.0 } else { n[i] };
            let all = self.n[i] + n[i];
            let apart = origin[i] - self.mean[i] + mean;
            let share = n[i] / if all == 0.0 { 1.0 } else { all };
            // Rounding may leave a little less than nothing of equal scores.
            let here = fma::<L>(-sum[i], mean, squares[i]);
            let here = if here < 0.0 { 0.0 } else { here };
            self.squares[i] += here + apart * apart * share * self.n[i];
            self.mean[i] = if self.n[i] == 0.0 {
                origin[i] + mean
            } else {
                fma::<L>(apart, share, self.mean[i])
            };
            self.n[i] = all;
        }
        self.extreme = extreme;
    }

    /// The normalizer of the scores so far; `weight` is the learned weight, or 1.
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
            squares: [0.0; W],
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
            let squares = (self.squares[i] + n * uncentered) / (value * value);
            out.squares[i] = if squares == 0.0 { 1.0 } else { squares };
            out.factor[i] = weight / value;
            out.free[i] = if free { 1.0 } else { 0.0 };
            out.share[i] = if centered { 1.0 / n } else { 0.0 };
            let extreme = self.extreme[i];
            out.extreme[i] = if extreme.is_infinite() {
                0.0
            } else {
                self.sign * extreme
            };
        }
        out
    }
}

impl<const W: usize> Normalizer<W> {
    /// `(s - center) / T` of a row: a product with `1 / T`, corrected by its remainder, for a division's accuracy.
    #[inline(always)]
    pub(super) fn normalized<L: Level>(&self, i: usize, s: f32) -> f32 {
        let x = s - self.center[i];
        let quotient = x * self.inverse[i];
        let rest = fma::<L>(-quotient, self.value[i], x);
        fma::<L>(rest, self.inverse[i], quotient)
    }

    /// Some of the rows, from `first` on.
    #[inline(always)]
    pub(super) fn part<const P: usize>(&self, first: usize) -> Normalizer<P> {
        Normalizer {
            center: part_of(&self.center, first),
            factor: part_of(&self.factor, first),
            value: part_of(&self.value, first),
            squares: part_of(&self.squares, first),
            inverse: part_of(&self.inverse, first),
            free: part_of(&self.free, first),
            share: part_of(&self.share, first),
            extreme: part_of(&self.extreme, first),
        }
    }

    /// The largest exponent of a row.
    #[inline(always)]
    pub(super) fn largest_exponent(&self, i: usize) -> f32 {
        self.factor[i] * (self.extreme[i] - self.center[i])
    }
}
