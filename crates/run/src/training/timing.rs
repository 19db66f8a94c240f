//! How long steps take, and how much goes through them.

use crate::task::goal::Goal;
use std::time::{Duration, Instant};

/// The times of a run.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    /// How long compiling took.
    pub compile: Duration,
    start: Instant,
    steps: Vec<f64>,
    examples: usize,
    tokens: usize,
}

impl Timing {
    /// Starts the clock, after compiling took this long.
    pub(crate) fn new(compile: Duration) -> Timing {
        Timing {
            compile,
            start: Instant::now(),
            steps: Vec::new(),
            examples: 0,
            tokens: 0,
        }
    }

    /// Counts a step.
    pub(crate) fn step(&mut self, time: Duration, examples: usize, tokens: usize) {
        self.steps.push(time.as_secs_f64());
        self.examples += examples;
        self.tokens += tokens;
    }

    /// The median time of a step in milliseconds; 0 without steps.
    pub(crate) fn median_ms(&self) -> f64 {
        1e3 * median(self.steps.clone())
    }

    /// Tokens (for language models) or examples in a second of training, and which of both.
    pub(crate) fn rate(&self, goal: &Goal) -> (&'static str, f64) {
        let seconds = self.steps.iter().sum::<f64>().max(1e-9);
        match goal {
            Goal::NextToken | Goal::MaskedTokens => ("tokens_per_s", self.tokens as f64 / seconds),
            _ => ("samples_per_s", self.examples as f64 / seconds),
        }
    }

    /// Time since the clock was started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The rate in words.
    pub(crate) fn speed(&self, goal: &Goal) -> String {
        let (unit, rate) = self.rate(goal);
        format!(
            "{rate:.0} {}",
            unit.replace("_per_", "/").replace("samples", "examples")
        )
    }
}

/// The median; 0 of nothing.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => 0.0,
        n if n % 2 == 1 => numbers[n / 2],
        n => (numbers[n / 2 - 1] + numbers[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_step_and_the_rate_are_told() {
        let mut timing = Timing::new(Duration::ZERO);
        assert_eq!(timing.median_ms(), 0.0);
        for milliseconds in [10, 30, 20, 40] {
            timing.step(Duration::from_millis(milliseconds), 5, 50);
        }
        assert!((timing.median_ms() - 25.0).abs() < 1e-9);
        let (unit, rate) = timing.rate(&Goal::NextToken);
        assert!(unit == "tokens_per_s" && (rate - 2000.0).abs() < 1e-6);
        assert_eq!(timing.speed(&Goal::Sum), "200 examples/s");
    }
}
