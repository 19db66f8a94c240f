//! Times of steps, and rates of examples and tokens.

use lessen_task::goal::Goal;
use std::time::Duration;

/// The times of the steps of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    seconds: f64,
    examples: usize,
    tokens: usize,
}

impl Timing {
    /// Counts a step.
    pub(crate) fn step(&mut self, time: Duration, examples: usize, tokens: usize) {
        self.seconds += time.as_secs_f64();
        self.examples += examples;
        self.tokens += tokens;
    }

    /// Tokens (for language models) or examples per second of training, with the name of the unit.
    fn rate(&self, goal: &dyn Goal) -> (&'static str, f64) {
        let seconds = self.seconds.max(1e-9);
        rate(goal, (self.examples as f64 / seconds, self.tokens as f64 / seconds))
    }

    /// The rate of this session in words.
    pub(crate) fn speed(&self, goal: &dyn Goal) -> String {
        show_rate(self.rate(goal))
    }
}

/// The rate that counts for a goal, given examples and tokens per second: tokens for language models, else examples.
pub(super) fn rate(goal: &dyn Goal, (examples, tokens): (f64, f64)) -> (&'static str, f64) {
    if goal.counts_tokens() {
        ("tokens_per_s", tokens)
    } else {
        ("samples_per_s", examples)
    }
}

/// A rate in words.
pub(super) fn show_rate((unit, rate): (&str, f64)) -> String {
    let unit = unit.replace("_per_", "/").replace("samples", "examples");
    format!("{rate:.0} {unit}")
}

/// The median; 0 for an empty list.
pub fn median(mut numbers: Vec<f64>) -> f64 {
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
    use lessen_task::goal::next_token::NextToken;
    use lessen_task::goal::sum::Sum;

    #[test]
    fn medians_and_rates_are_told() {
        assert_eq!(median(Vec::new()), 0.0);
        assert_eq!(
            (median(vec![30.0, 10.0, 20.0]), median(vec![40.0, 10.0, 30.0, 20.0])),
            (20.0, 25.0)
        );
        let mut timing = Timing::default();
        for milliseconds in [10, 30, 20, 40] {
            timing.step(Duration::from_millis(milliseconds), 5, 50);
        }
        let (unit, rate) = timing.rate(&NextToken);
        assert!(unit == "tokens_per_s" && (rate - 2000.0).abs() < 1e-6);
        assert_eq!(timing.speed(&Sum), "200 examples/s");
    }
}
