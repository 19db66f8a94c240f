//! The course of a training loop: its steps, its evaluations, and why it ended.

use crate::trainer::StepReport;
use lessen_base::{Error, Result};

/// The scores of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The number of steps done before it.
    pub step: u64,
    /// The scores with their names.
    pub scores: Vec<(String, f64)>,
}

impl Evaluation {
    /// A score by its name.
    ///
    /// # Errors
    /// A name that no score has.
    pub fn score(&self, name: &str) -> Result<f64> {
        let found = self.scores.iter().find(|(own, _)| own == name);
        found.map(|(_, score)| *score).ok_or_else(|| {
            let names: Vec<&str> = self.scores.iter().map(|(name, _)| name.as_str()).collect();
            Error::user(format!(
                "the evaluation has no score `{name}`; it has {}",
                if names.is_empty() {
                    "none".to_string()
                } else {
                    names.join(", ")
                }
            ))
        })
    }
}

/// What happened in a training loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The reports of the steps, in order.
    pub steps: Vec<StepReport>,
    /// The evaluations, in order.
    pub evaluations: Vec<Evaluation>,
    /// Why the loop ended before its last step; none where it did not.
    pub stopped: Option<String>,
}
