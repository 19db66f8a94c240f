//! Where the training of a phase starts from.

use lessen_train::Session;
use std::path::PathBuf;

/// Where the training of a phase starts from.
pub(super) enum StartingPoint {
    /// The first weights of its model.
    FirstWeights,
    /// A checkpoint of the training phase.
    Checkpoint {
        /// Steps of the run that were done.
        step: u64,
        /// The file of the states.
        states: PathBuf,
        /// Whether the states include the optimizer's states.
        has_optimizer: bool,
    },
    /// The end of the training phase before, in its session.
    Session(Box<Session>),
    /// The end of the training phase before, in its checkpoint.
    CheckpointOfPhaseBefore {
        /// The folder of the checkpoint.
        dir: PathBuf,
        /// The file of the states.
        states: PathBuf,
    },
}
