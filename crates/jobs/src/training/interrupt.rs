//! Ctrl-C: the first one stops the run after the current step, the second one ends the process.

use lessen_base::{Error, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static LISTENING: OnceLock<Result<()>> = OnceLock::new();

/// The exit code of a process that was interrupted.
pub const EXIT_CODE: u8 = 130;

/// Listens for Ctrl-C and SIGTERM from now on, in the whole process; later calls have no effect.
///
/// # Errors
/// A process that has another listener already.
pub(crate) fn listen() -> Result<()> {
    let handler = || {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(EXIT_CODE));
        }
    };
    let listen = || {
        ctrlc::set_handler(handler).map_err(|error| Error::internal(format!("Ctrl-C cannot be listened for ({error})")))
    };
    LISTENING.get_or_init(listen).clone()
}

/// Whether a stop was asked for.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
