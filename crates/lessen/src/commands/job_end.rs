//! The end of a command that runs a job: what it prints, and its exit code.

use crate::terminal::INTERRUPTED;
use crate::{say, tell};
use lessen_base::Result;
use serde_json::Value;
use std::path::Path;

/// A job that was stopped.
pub struct Stopped<'a> {
    /// After what, such as `step 3`; none where that says nothing.
    pub after: Option<String>,
    /// The command that goes on with it, such as `train`.
    pub command: &'a str,
    /// Its folder.
    pub out: &'a Path,
}

/// Prints a report, as JSON or as text, and says how to go on with a job that was stopped; the exit code.
///
/// # Errors
/// Output that cannot be written.
pub fn end(json: bool, (object, text): (&Value, String), stopped: Option<Stopped<'_>>) -> Result<u8> {
    say(&if json { format!("{object}\n") } else { text })?;
    let Some(Stopped { after, command, out }) = stopped else {
        return Ok(0);
    };
    let (after, out) = (
        after.map_or(String::new(), |after| format!(" after {after}")),
        out.display(),
    );
    tell(&format!(
        "stopped{after}; go on with `lessen {command} --resume --out {out}`"
    ));
    Ok(INTERRUPTED)
}
