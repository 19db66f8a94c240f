//! The comparison of scores.

use lessen_base::{Error, Result};

use super::callback::Course;

/// Which scores are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Lower ones, as of losses and errors.
    Lower,
    /// Higher ones, as of accuracies.
    Higher,
}

impl Better {
    /// Whether a score is better than another one by more than `change`; a score that is NaN never is.
    pub fn is_better(self, score: f64, than: f64, change: f64) -> bool {
        match self {
            Better::Lower => score < than - change,
            Better::Higher => score > than + change,
        }
    }
}

/// A score that is watched over evaluations, and the best one of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Watched {
    pub name: String,
    better: Better,
    /// The best score, and the number of steps before its evaluation.
    pub best: Option<(u64, f64)>,
}

impl Watched {
    pub fn new(name: &str, better: Better) -> Watched {
        let name = name.to_string();
        Watched {
            name,
            better,
            best: None,
        }
    }

    /// Forgets the best score before a loop begins.
    ///
    /// # Errors
    /// A loop without evaluations.
    pub fn begin(&mut self, course: &Course) -> Result<()> {
        self.best = None;
        match course.evaluate_every {
            Some(_) => Ok(()),
            None => Err(Error::user(format!(
                "the score `{}` is watched, but nothing is evaluated; call FitOptions::evaluate_every",
                self.name
            ))),
        }
    }

    /// Compares a score with the best one, and takes its place where it is better by more than `change`.
    pub fn improves(&mut self, step: u64, score: f64, change: f64) -> bool {
        let is_best = match self.best {
            Some((_, best)) => self.better.is_better(score, best, change),
            None => !score.is_nan(),
        };
        if is_best {
            self.best = Some((step, score));
        }
        is_best
    }
}
