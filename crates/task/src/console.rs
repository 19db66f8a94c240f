//! Whether progress is shown on stderr. Warnings and errors always are.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Shows no progress from now on, in the whole process.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Runs something without showing its progress.
pub fn quietly<R>(run: impl FnOnce() -> R) -> R {
    let before = QUIET.swap(true, Ordering::Relaxed);
    let result = run();
    QUIET.store(before, Ordering::Relaxed);
    result
}

/// Whether progress is not to be shown.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether progress can be shown as a bar: on a terminal.
pub fn shows_bars() -> bool {
    !is_quiet() && std::io::stderr().is_terminal()
}
