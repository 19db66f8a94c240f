//! The processes that a launcher of MPI has started together with this one.

use crate::{stdout, terminal};
use lessen_base::{Error, Result};
use lessen_comm::{DEADLINE, Exchange, Group, mpi};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long other processes wait with an error for the first one's, which is often the same.
const PAUSE: Duration = Duration::from_secs(2);

/// Whether a launcher has started several processes.
fn are_several() -> bool {
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
        "several processes share `lessen train RECIPE`, `eval`, `predict` and `embed` alone; start this command without the \
         launcher",
    ))
}

/// Joins the other processes, if there are any, and runs a command with them, as [`together`] does.
///
/// # Errors
/// As [`together`].
pub fn alone_or_together(deadline: Option<f64>, run: impl FnOnce(&Group) -> Result<u8>) -> Result<u8> {
    let seconds = deadline.map_or(Ok(DEADLINE), Duration::try_from_secs_f64);
    let seconds = seconds.ok().filter(|deadline| !deadline.is_zero());
    let seconds = seconds.ok_or_else(|| Error::user("--deadline is no time in seconds; give a number above 0"))?;
    match (are_several(), deadline) {
        (true, _) => together(seconds, run),
        (false, None) => run(&Group::alone()),
        (false, Some(_)) => Err(Error::user(
            "--deadline is for several processes, which `mpiexec -n N lessen …` starts; leave it out",
        )),
    }
}

/// Joins the other processes and runs a command with them, which the first one alone shows. An error of one process
/// ends all.
///
/// # Errors
/// No library of MPI; processes that do not end.
fn together(deadline: Duration, run: impl FnOnce(&Group) -> Result<u8>) -> Result<u8> {
    let exchange = Arc::new(Exchange::start(deadline, mpi::open)?);
    let group = Group::of(exchange.clone());
    if !group.is_first() {
        terminal::be_silent();
    }
    let measured = |group: &Group| run(&group.clone().measured()?);
    let result = match group.is_first() {
        true => measured(&group),
        // What other processes say is dropped.
        false => stdout::dropped(|| measured(&group)),
    };
    match result {
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
