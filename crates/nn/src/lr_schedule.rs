//! Learning-rate schedules. Constant, linear and cosine equal transformers'
//! `get_{constant,linear,cosine}_schedule_with_warmup`; one-cycle equals PyTorch's `OneCycleLR`.

use std::f64::consts::PI;

use lessen_base::{Error, Result};

lessen_base::words! {
    /// The shape of a learning-rate schedule after the warm-up.
    pub enum LrScheduleKind {
        /// Stays at the peak.
        Constant = "constant",
        /// Falls linearly from the peak to 0.
        Linear = "linear",
        /// Falls from the peak to 0 along half a cosine.
        Cosine = "cosine",
        /// Rises from `peak / 25` along half a cosine, then falls to `peak / 250000` along another.
        OneCycle = "one-cycle",
    }
}

impl LrScheduleKind {
    /// All shapes.
    pub const ALL: [LrScheduleKind; 4] = [
        LrScheduleKind::Constant,
        LrScheduleKind::Linear,
        LrScheduleKind::Cosine,
        LrScheduleKind::OneCycle,
    ];

    /// The name in recipes.
    pub fn name(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }

    /// The schedule of this name; `_` may stand for `-`.
    ///
    /// # Errors
    /// An unknown name; the message lists the known ones.
    pub fn from_name(name: &str) -> Result<LrScheduleKind> {
        let found = LrScheduleKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name.replace('_', "-"));
        found.ok_or_else(|| {
            Error::user(format!(
                "`{name}` is no learning-rate schedule; the schedules are {}",
                LrScheduleKind::ALL.map(LrScheduleKind::name).join(", ")
            ))
        })
    }
}

/// Ratio of the peak to one-cycle's first rate.
const START_DIVISOR: f64 = 25.0;
/// Ratio of one-cycle's first rate to its last.
const FINAL_DIVISOR: f64 = 1e4;

/// A learning-rate schedule. With `s` the step (from 0), `w` the warm-up, `n` the total and
/// `p = (s - w) / max(1, n - w)`:
///
/// - constant, linear and cosine are `peak · s / w` for `s < w`, and then `peak`, `peak · max(0, 1 - p)` and
///   `peak · max(0, (1 + cos(π p)) / 2)`;
/// - one-cycle goes from `peak / 25` at step 0 to `peak` at step `w - 1` and to `peak / 250000` at step `n - 1`, each
///   along half a cosine, and stays there. Without warm-up it starts at the peak.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LrSchedule {
    /// Shape after the warm-up.
    pub kind: LrScheduleKind,
    /// The highest rate.
    pub peak: f64,
    /// Warm-up steps: the peak is reached at step `warmup`, for one-cycle at step `warmup - 1`.
    pub warmup: usize,
    /// Total number of steps; `Constant` ignores it.
    pub total: usize,
}

impl LrSchedule {
    /// Checks the settings.
    ///
    /// # Errors
    /// A highest rate that is negative, infinite or no number, and a rate that falls after a warm-up of more steps than
    /// there are.
    pub fn check(&self) -> Result<()> {
        let &LrSchedule {
            kind,
            peak,
            warmup,
            total,
        } = self;
        if !(peak.is_finite() && peak >= 0.0) {
            return Err(Error::user(format!(
                "the learning rate {peak} makes no sense; choose a finite number from 0"
            )));
        }
        if kind != LrScheduleKind::Constant && warmup > total {
            return Err(Error::user(format!(
                "the learning rate is to rise for {warmup} steps of {total} and then to fall ({kind}); choose fewer steps \
                 of warm-up, or more in total"
            )));
        }
        Ok(())
    }

    /// Returns the learning rate of step `step`, counted from 0.
    pub fn lr(&self, step: usize) -> f64 {
        let (s, w, n) = (step as f64, self.warmup as f64, self.total as f64);
        if self.kind == LrScheduleKind::OneCycle {
            return self.one_cycle(s, w, n);
        }
        if step < self.warmup {
            return self.peak * s / w;
        }
        let progress = (s - w) / (n - w).max(1.0);
        let factor = match self.kind {
            LrScheduleKind::Linear => 1.0 - progress,
            // Without the minimum, the cosine would rise again after `total` steps.
            LrScheduleKind::Cosine => 0.5 * (1.0 + (PI * progress.min(1.0)).cos()),
            LrScheduleKind::Constant | LrScheduleKind::OneCycle => 1.0,
        };
        self.peak * factor.max(0.0)
    }

    fn one_cycle(&self, s: f64, w: f64, n: f64) -> f64 {
        let start = self.peak / START_DIVISOR;
        let top = (w - 1.0).max(0.0);
        if s < top {
            return half_cosine(start, self.peak, s / top);
        }
        let length = (n - 1.0 - top).max(1.0);
        half_cosine(self.peak, start / FINAL_DIVISOR, ((s - top) / length).min(1.0))
    }
}

/// Interpolates from `a` at `p = 0` to `b` at `p = 1` along half a cosine.
fn half_cosine(a: f64, b: f64, p: f64) -> f64 {
    b + (a - b) * 0.5 * (1.0 + (PI * p).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(kind: LrScheduleKind, peak: f64, warmup: usize, total: usize, steps: &[usize]) -> Vec<f64> {
        let schedule = LrSchedule {
            kind,
            peak,
            warmup,
            total,
        };
        steps.iter().map(|&s| schedule.lr(s)).collect()
    }

    fn assert_close(got: &[f64], expected: &[f64]) {
        assert_eq!(got.len(), expected.len());
        for (g, e) in got.iter().zip(expected) {
            assert!(
                (g - e).abs() <= 1e-12 * e.abs().max(1e-3),
                "{got:?} instead of {expected:?}"
            );
        }
    }

    #[test]
    fn constant_warms_up_and_stays() {
        let got = rates(LrScheduleKind::Constant, 2.0, 4, 10, &[0, 1, 3, 4, 9, 100]);
        assert_close(&got, &[0.0, 0.5, 1.5, 2.0, 2.0, 2.0]);
        assert_close(&rates(LrScheduleKind::Constant, 2.0, 0, 0, &[0]), &[2.0]);
    }

    #[test]
    fn linear_falls_to_zero_at_the_total() {
        let got = rates(LrScheduleKind::Linear, 1.0, 2, 10, &[0, 1, 2, 6, 9, 10, 11]);
        assert_close(&got, &[0.0, 0.5, 1.0, 0.5, 0.125, 0.0, 0.0]);
    }

    #[test]
    fn cosine_falls_to_zero_and_does_not_rise_again() {
        let third = 0.5 * (1.0 + 0.5);
        let got = rates(LrScheduleKind::Cosine, 1.0, 3, 9, &[1, 3, 5, 6, 9, 12, 15]);
        assert_close(&got, &[1.0 / 3.0, 1.0, third, 0.5, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn one_cycle_is_that_of_pytorch() {
        // torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10, pct_start=0.3): steps 0 to 9.
        let expected = [
            0.04,
            0.52,
            1.0,
            0.950484632,
            0.811745654,
            0.611262022,
            0.388741978,
            0.188258346,
            0.049519368,
            4e-6,
        ];
        let got = rates(LrScheduleKind::OneCycle, 1.0, 3, 10, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        for (g, e) in got.iter().zip(expected) {
            assert!((g - e).abs() < 1e-8, "{got:?}");
        }
        assert_close(&rates(LrScheduleKind::OneCycle, 1.0, 3, 10, &[20]), &[4e-6]);
        assert_close(&rates(LrScheduleKind::OneCycle, 1.0, 0, 5, &[0, 4]), &[1.0, 4e-6]);
    }

    #[test]
    fn warm_up_as_long_as_the_run_divides_by_nothing() {
        for kind in LrScheduleKind::ALL {
            for (warmup, total) in [(0, 0), (1, 1), (5, 5), (7, 5)] {
                let schedule = LrSchedule {
                    kind,
                    peak: 1.0,
                    warmup,
                    total,
                };
                assert!((0..12).all(|s| (0.0..=1.0).contains(&schedule.lr(s))), "{schedule:?}");
            }
        }
    }

    #[test]
    fn every_name_is_read_back() {
        for kind in LrScheduleKind::ALL {
            assert_eq!(LrScheduleKind::from_name(&kind.to_string()), Ok(kind));
        }
        assert_eq!(LrScheduleKind::from_name("one_cycle"), Ok(LrScheduleKind::OneCycle));
        for wrong in ["", "Linear", "constant "] {
            assert!(LrScheduleKind::from_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let sentence = LrScheduleKind::from_name("cosin").unwrap_err().to_string();
        assert_eq!(
            sentence,
            "`cosin` is no learning-rate schedule; the schedules are constant, linear, cosine, one-cycle"
        );
    }
}
