//! The estimated time of a step, from the device's rates or from times measured on this machine.

use lessen_task::recipe::config::Config;
use lessen_train::StepPlans;

/// Estimated milliseconds of a step: of all of its micro-batches in the largest layout, and of the update after the
/// last one.
pub(super) fn step_ms(config: &Config, plans: &StepPlans) -> f64 {
    let update = plans.apply.as_ref().map_or(0.0, |plan| plan.estimated_seconds());
    let batches = config.train.accumulate as f64;
    (batches * plans.step.estimated_seconds() + update) * 1e3
}

/// Milliseconds in words, with three digits: `0.123 ms`, `48.6 ms`, `1290 ms`.
pub(super) fn show_ms(ms: f64) -> String {
    let digits = match ms {
        ms if ms < 0.9995 => 3,
        ms if ms < 9.995 => 2,
        ms if ms < 99.95 => 1,
        _ => 0,
    };
    format!("{ms:.digits$} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_three_digits() {
        let shown = [0.0, 0.12345, 0.9999, 4.567, 9.999, 48.62, 99.97, 1290.4].map(show_ms);
        let expected = [
            "0.000 ms", "0.123 ms", "1.00 ms", "4.57 ms", "10.0 ms", "48.6 ms", "100 ms", "1290 ms",
        ];
        assert_eq!(shown, expected);
    }
}
