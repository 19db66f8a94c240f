//! A network whose loss became infinite or NaN.

use lessen_base::Error;
use std::fmt;

/// The end of a training by a loss that is infinite or NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// Number of the epoch, from 0.
    pub epoch: usize,
    /// The loss.
    pub loss: f64,
    /// Learning rate of the first epoch.
    pub rate: f64,
}

impl Divergence {
    /// The error of a training that does not allow a divergence.
    pub fn refusal(&self) -> Error {
        Error::user(format!(
            "{self} of a training; choose a learning rate below {}",
            self.rate
        ))
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the loss is {} in epoch {}", self.loss, self.epoch + 1)
    }
}
