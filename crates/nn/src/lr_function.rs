//! Learning rates as any function of the step.

use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

use crate::lr_schedule::LrSchedule;

/// A learning rate as a function of the step, counted from 0. It equals its clones alone.
#[derive(Clone)]
pub struct LrFunction(Arc<dyn Fn(u64) -> f64 + Send + Sync>);

impl LrFunction {
    /// The learning rate `rate(step)`: a finite number from 0.
    pub fn new(rate: impl Fn(u64) -> f64 + Send + Sync + 'static) -> LrFunction {
        LrFunction(Arc::new(rate))
    }

    /// The learning rate of step `step`, counted from 0.
    pub fn lr(&self, step: u64) -> f64 {
        (self.0)(step)
    }

    /// Cosine with warm restarts (Loshchilov and Hutter 2017): after a linear rise over `warmup` steps the rate falls
    /// from `peak` to 0 along half a cosine, in `period` steps, and begins again at the peak. Each period has `growth`
    /// times the steps of the one before; 1 leaves them as they are. A period has one step at least.
    pub fn cosine_restarts(peak: f64, warmup: u64, period: u64, growth: u64) -> LrFunction {
        LrFunction::new(move |step| {
            if step < warmup {
                return peak * step as f64 / warmup as f64;
            }
            let (mut at, mut period) = (step - warmup, period.max(1));
            if growth <= 1 {
                at %= period;
            }
            while at >= period {
                at -= period;
                period = period.saturating_mul(growth);
            }
            peak * 0.5 * (1.0 + (PI * at as f64 / period as f64).cos())
        })
    }

    /// Warm-up, stable, decay (Hu et al. 2024): a linear rise to `peak` over `warmup` steps, `stable` steps at the
    /// peak, and a linear fall to 0 over `decay` steps, after which the rate stays 0.
    pub fn warmup_stable_decay(peak: f64, warmup: u64, stable: u64, decay: u64) -> LrFunction {
        LrFunction::new(move |step| {
            if step < warmup {
                return peak * step as f64 / warmup as f64;
            }
            let fallen = (step - warmup).saturating_sub(stable);
            if fallen >= decay && step - warmup >= stable {
                return 0.0;
            }
            peak * (1.0 - fallen as f64 / decay.max(1) as f64)
        })
    }
}

impl From<LrSchedule> for LrFunction {
    fn from(schedule: LrSchedule) -> LrFunction {
        LrFunction::new(move |step| schedule.lr(usize::try_from(step).unwrap_or(usize::MAX)))
    }
}

impl PartialEq for LrFunction {
    fn eq(&self, other: &LrFunction) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for LrFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LrFunction")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(function: &LrFunction, steps: &[u64]) -> Vec<f64> {
        steps
            .iter()
            .map(|&step| (function.lr(step) * 1e12).round() / 1e12)
            .collect()
    }

    #[test]
    fn restarts_begin_at_the_peak_after_longer_and_longer_periods() {
        let function = LrFunction::cosine_restarts(2.0, 2, 4, 2);
        let got = rates(&function, &[0, 1, 2, 4, 6, 10, 14, u64::MAX]);
        assert_eq!(got[..7], [0.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        assert!((0.0..=2.0).contains(&got[7]));
        // torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(T_0=3): the rates of steps 0 to 4 from 1.
        let same = LrFunction::cosine_restarts(1.0, 0, 3, 1);
        assert_eq!(
            rates(&same, &[0, 1, 2, 3, 4, 3_000_000]),
            [1.0, 0.75, 0.25, 1.0, 0.75, 1.0]
        );
        assert_eq!(rates(&LrFunction::cosine_restarts(1.0, 0, 0, 0), &[0, 7]), [1.0, 1.0]);
    }

    #[test]
    fn warm_up_stable_decay_rises_stays_and_falls_to_zero() {
        let function = LrFunction::warmup_stable_decay(4.0, 2, 3, 4);
        let got = rates(&function, &[0, 1, 2, 4, 5, 6, 8, 9, 100]);
        assert_eq!(got, [0.0, 2.0, 4.0, 4.0, 4.0, 3.0, 1.0, 0.0, 0.0]);
        assert_eq!(
            rates(&LrFunction::warmup_stable_decay(1.0, 0, 2, 0), &[0, 1, 2]),
            [1.0, 1.0, 0.0]
        );
    }
}
