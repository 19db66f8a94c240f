//! The search for a learning rate by a short training whose rate grows (Smith 2017, "Cyclical learning rates for
//! training neural networks", section 3.3).

use crate::batches::step_on_batches;
use crate::options::NonFinite;
use crate::trainer::Trainer;
use lessen_base::{Error, Result};
use lessen_data::Source;

/// Settings of [`Trainer::search_rate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSearch {
    /// The rate of the first step, above 0.
    pub first: f64,
    /// The rate of the last step, above `first`.
    pub last: f64,
    /// The number of steps, at least 2.
    pub steps: usize,
    /// The weight of the mean before in the smoothed loss, from 0 (no smoothing) to below 1.
    pub smoothing: f64,
    /// The search ends where the smoothed loss exceeds its least value by this factor, above 1.
    pub stop_at: f64,
}

impl Default for RateSearch {
    /// 100 steps from 1e-7 to 10.
    fn default() -> RateSearch {
        RateSearch {
            first: 1e-7,
            last: 10.0,
            steps: 100,
            smoothing: 0.9,
            stop_at: 4.0,
        }
    }
}

/// A step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePoint {
    /// The learning rate.
    pub rate: f64,
    /// The loss before the update with this rate.
    pub loss: f64,
    /// The exponential moving average of the losses up to this one, without the bias of its beginning.
    pub smoothed: f64,
}

/// The losses over growing rates.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCurve {
    /// The steps, in order of their rates.
    pub points: Vec<RatePoint>,
}

impl RateCurve {
    /// The rate at which the smoothed loss falls fastest over the logarithm of the rate; none where it never falls.
    pub fn suggestion(&self) -> Option<f64> {
        let fall = |pair: &[RatePoint]| pair[0].smoothed - pair[1].smoothed;
        let falls = self.points.windows(2).filter(|pair| fall(pair) > 0.0);
        let steepest = falls.max_by(|a, b| fall(a).total_cmp(&fall(b)));
        steepest.map(|pair| pair[0].rate)
    }
}

impl RateSearch {
    /// Checks the settings.
    ///
    /// # Errors
    /// A number out of range, with its name.
    pub fn check(&self) -> Result<()> {
        let &RateSearch {
            first,
            last,
            steps,
            smoothing,
            stop_at,
        } = self;
        let sentence = if !(first > 0.0 && first < last && last.is_finite()) {
            format!("rates from first = {first} to last = {last} do not grow; choose finite numbers above 0")
        } else if steps < 2 {
            format!("steps = {steps} show no change of the loss; choose at least 2")
        } else if !(0.0..1.0).contains(&smoothing) {
            format!("smoothing = {smoothing} makes no sense; choose a number from 0 to below 1")
        } else if stop_at.is_nan() || stop_at <= 1.0 {
            format!("stop_at = {stop_at} would end the search at once; choose a number above 1")
        } else {
            return Ok(());
        };
        Err(Error::user(sentence))
    }

    /// The rate of a step, from 0: from the first to the last one by equal factors.
    fn rate(&self, step: usize) -> f64 {
        self.first * (self.last / self.first).powf(step as f64 / (self.steps - 1) as f64)
    }
}

impl Trainer {
    /// Trains for some steps on the next batches of a source with rates that grow from step to step, and goes back: the
    /// trainer has the parameters, states, schedule and number of steps of before. Parameter groups with a schedule of
    /// their own keep it. The search ends early where the loss grows or is no finite number.
    ///
    /// # Errors
    /// Settings that [`RateSearch::check`] refuses; the errors of steps and of the source, and a device that fails.
    pub fn search_rate(&mut self, source: &dyn Source, search: &RateSearch) -> Result<RateCurve> {
        search.check()?;
        let before = self.snapshot()?;
        let non_finite = self.options().non_finite;
        if non_finite == NonFinite::Stop {
            self.set_non_finite(NonFinite::Allow);
        }
        let found = self.rate_curve(source, search);
        self.set_non_finite(non_finite);
        self.restore(&before)?;
        found
    }

    fn rate_curve(&mut self, source: &dyn Source, search: &RateSearch) -> Result<RateCurve> {
        let own = self.options().own_batches().len();
        let mut points: Vec<RatePoint> = Vec::new();
        let (mut mean, mut least) = (0.0, f64::INFINITY);
        for step in 0..search.steps {
            let rate = search.rate(step);
            self.set_lr(rate)?;
            let numbers = self.options().own_batches_after(0, self.done()).take(own);
            let batches = numbers.map(|number| source.batch(number)).collect();
            let loss = f64::from(step_on_batches(self, batches)?.loss);
            if !loss.is_finite() {
                break;
            }
            mean = search.smoothing * mean + (1.0 - search.smoothing) * loss;
            let smoothed = mean / (1.0 - search.smoothing.powf((step + 1) as f64));
            points.push(RatePoint { rate, loss, smoothed });
            if step > 0 && smoothed > search.stop_at * least {
                break;
            }
            least = least.min(smoothed);
        }
        Ok(RateCurve { points })
    }
}
