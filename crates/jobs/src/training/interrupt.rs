//! The wish to stop a job: it ends after the current step, with a checkpoint.

use lessen_base::{Result, watcher};

/// Tells the watcher that the job can stop from now on.
///
/// # Errors
/// Wishes to stop that cannot be received.
pub(crate) fn listen() -> Result<()> {
    watcher::current().can_stop()
}

/// Whether a stop was asked for.
pub(crate) fn asked() -> bool {
    watcher::current().stops()
}
