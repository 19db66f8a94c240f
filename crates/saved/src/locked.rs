//! What threads use one after another.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value for the caller alone. Sessions are consistent between their calls, so that a use that panicked counts as
/// one that failed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
