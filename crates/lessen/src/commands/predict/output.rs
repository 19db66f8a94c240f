//! Where answers are written to, and in which format.

use lessen_base::atomic::write_with;
use lessen_base::{Error, Result};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;

/// The format of lines with answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a line of names.
    Csv,
    /// Tab-separated values with a line of names, without quotes.
    Tsv,
    /// A JSON object on each line.
    Jsonl,
}

/// Fields of an answer, by name.
pub type Fields = Vec<(String, Value)>;

/// Probabilities by the names of their classes.
pub fn by_name(labels: &[String], shares: &[f64]) -> Value {
    labels
        .iter()
        .cloned()
        .zip(shares.iter().map(|share| json!(share)))
        .collect()
}

/// Writes a file atomically through `fill`, whose error comes first.
///
/// # Errors
/// The error of `fill`; a folder that cannot be written to.
pub fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    write_with(path, |out| fill(out).map_err(io::Error::other))
}

/// The result of writing answers.
///
/// # Errors
/// A place that cannot be written to.
pub fn checked(written: io::Result<()>) -> Result<()> {
    written.map_err(|error| Error::user(format!("the answers cannot be written ({error}); check the disk")))
}

/// The error of the writer below a writer of CSV.
pub fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}
