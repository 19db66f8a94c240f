//! The processes that a launcher of MPI has started together with this one.

use crate::terminal;
use lessen_base::{Error, Result};
use lessen_comm::{Exchange, Group, mpi};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long other processes wait with an error for the first one's, which is often the same.
const PAUSE: Duration = Duration::from_secs(2);

/// Whether a launcher has started several processes.
pub fn are_several() -> bool {
    mpi::launched().is_some_and(|count| count > 1)
}

/// Refuses several processes for a command that one process runs.
///
/// # Errors
/// Several processes.
pub fn check_alone() -> Result<()> {
    if !are_several() {
        return Ok(());
    }
    Err(Error::user(
        "several processes share `lessen train RECIPE` alone; start this command without the launcher",
    ))
}

/// Joins the other processes and runs a command with them, which the first one alone shows. An error of one process
/// ends all.
///
/// # Errors
/// No library of MPI; processes that do not end.
pub fn together(deadline: Duration, run: impl FnOnce(&Group) -> Result<u8>) -> Result<u8> {
    let exchange = Arc::new(Exchange::start(deadline, mpi::open)?);
    let group = Group::of(exchange.clone());
    if !group.is_first() {
        terminal::be_silent();
    }
    match run(&group) {
        Ok(code) => {
            drop(group);
            let last = Arc::try_unwrap(exchange).map_err(|_| Error::internal("the exchange is still in use"))?;
            last.finish().map(|()| code)
        }
        Err(error) => {
            if !group.is_first() {
                thread::sleep(PAUSE);
            }
            terminal::tell(&format!("error: {error}"));
            group.abort(&error);
            Err(error)
        }
    }
}
