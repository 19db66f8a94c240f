//! The interface of what accompanies a training loop.

use super::history::{Evaluation, History};
use crate::trainer::{StepReport, Trainer};
use lessen_base::Result;
use std::ops::ControlFlow;

/// The course of a training loop as far as it is known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// The steps that the trainer has done at the end, if nothing stops it before.
    pub steps: u64,
    /// The number of steps after which the model is evaluated again; none without evaluations.
    pub evaluate_every: Option<u64>,
}

/// A companion of [`fit`](super::fit()): it sees steps and evaluations, and may stop the loop by
/// [`ControlFlow::Break`] with a reason for people.
///
/// ```
/// use lessen_train::fit::Callback;
/// use lessen_train::{Result, StepReport, Trainer};
/// use std::ops::ControlFlow;
///
/// /// Stops once the loss is small.
/// struct Enough(f32);
///
/// impl Callback for Enough {
///     fn stepped(&mut self, _: &mut Trainer, report: &StepReport) -> Result<ControlFlow<String>> {
///         Ok(if report.loss < self.0 {
///             ControlFlow::Break(format!("the loss is below {}", self.0))
///         } else {
///             ControlFlow::Continue(())
///         })
///     }
/// }
/// ```
pub trait Callback {
    /// Is called before the first step.
    ///
    /// # Errors
    /// What makes the training useless, such as evaluations that are missing; no step is made then.
    fn begin(&mut self, trainer: &mut Trainer, course: &Course) -> Result<()> {
        let _ = (trainer, course);
        Ok(())
    }

    /// Is called after each step.
    ///
    /// # Errors
    /// What ends the training at once.
    fn stepped(&mut self, trainer: &mut Trainer, report: &StepReport) -> Result<ControlFlow<String>> {
        let _ = (trainer, report);
        Ok(ControlFlow::Continue(()))
    }

    /// Is called after each evaluation.
    ///
    /// # Errors
    /// What ends the training at once.
    fn evaluated(&mut self, trainer: &mut Trainer, evaluation: &Evaluation) -> Result<ControlFlow<String>> {
        let _ = (trainer, evaluation);
        Ok(ControlFlow::Continue(()))
    }

    /// Is called at the end, after errors of steps and callbacks as well.
    ///
    /// # Errors
    /// What cannot be finished.
    fn end(&mut self, trainer: &mut Trainer, history: &History) -> Result<()> {
        let _ = (trainer, history);
        Ok(())
    }
}
