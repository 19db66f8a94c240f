//! Early stopping.

use super::better::{Better, Watched};
use super::callback::{Callback, Course};
use super::history::Evaluation;
use crate::trainer::Trainer;
use lessen_base::Result;
use std::ops::ControlFlow;

/// Stops a training when a score of its evaluations has not become better for some time (Prechelt 1998), or is NaN.
/// With [`KeepBest`](super::KeepBest) beside it the training ends with the best parameters.
#[derive(Clone, Debug)]
pub struct EarlyStop {
    watched: Watched,
    patience: u64,
    min_change: f64,
    waited: u64,
}

impl EarlyStop {
    /// Stops at the evaluation number `patience` in a row that is no better than the best one. A patience of 0 is taken
    /// as 1.
    pub fn new(score: &str, better: Better, patience: u64) -> EarlyStop {
        EarlyStop {
            watched: Watched::new(score, better),
            patience: patience.max(1),
            min_change: 0.0,
            waited: 0,
        }
    }

    /// Only counts a score as better that differs from the best one by more than this.
    #[must_use]
    pub fn min_change(self, min_change: f64) -> EarlyStop {
        EarlyStop { min_change, ..self }
    }

    /// The best score, and the number of steps before its evaluation.
    pub fn best(&self) -> Option<(u64, f64)> {
        self.watched.best
    }
}

impl Callback for EarlyStop {
    fn begin(&mut self, _: &mut Trainer, course: &Course) -> Result<()> {
        self.waited = 0;
        self.watched.begin(course)
    }

    fn evaluated(&mut self, _: &mut Trainer, evaluation: &Evaluation) -> Result<ControlFlow<String>> {
        let name = self.watched.name.clone();
        let score = evaluation.score(&name)?;
        if score.is_nan() {
            let step = evaluation.step;
            return Ok(ControlFlow::Break(format!(
                "the score `{name}` is NaN after step {step}"
            )));
        }
        if self.watched.improves(evaluation.step, score, self.min_change) {
            self.waited = 0;
            return Ok(ControlFlow::Continue(()));
        }
        self.waited += 1;
        if self.waited < self.patience {
            return Ok(ControlFlow::Continue(()));
        }
        let (step, best) = self.watched.best.unwrap_or((evaluation.step, score));
        Ok(ControlFlow::Break(format!(
            "the score `{name}` was best after step {step} with {best}, and no better in {} evaluations since",
            self.waited
        )))
    }
}
