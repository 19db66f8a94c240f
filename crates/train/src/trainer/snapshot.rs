//! The whole state of a trainer in the host's memory.

use super::Trainer;
use crate::array::StateArray;
use lessen_base::Result;
use lessen_nn::Weights;

/// The state of a trainer at one time: parameters, states of training, the number of steps done, and the rate of
/// [`Trainer::set_lr`].
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    weights: Weights,
    state: Vec<StateArray>,
    done: u64,
    /// The learning rate in place of the schedule.
    lr: Option<f64>,
}

impl Trainer {
    /// Copies the trainer's state to the host, as many bytes as parameters and states of training take on the device.
    ///
    /// # Errors
    /// A device that fails.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        Ok(Snapshot {
            weights: self.weights()?,
            state: self.state()?,
            done: self.done(),
            lr: self.first.lr,
        })
    }

    /// Continues from a snapshot of this trainer, or of one with the same model function and options; the next steps
    /// have the bits that they would have had then.
    ///
    /// # Errors
    /// A snapshot of another model or optimizer.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.set_weights(&snapshot.weights)?;
        self.resume(snapshot.done, &snapshot.state)?;
        self.first.lr = snapshot.lr;
        Ok(())
    }
}
