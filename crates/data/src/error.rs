//! The error of this crate: a user's mistake, in one sentence.

use std::fmt;

/// A mistake in a file, a folder or a setting. The message is one sentence that names the thing, the place
/// (file and line) and the remedy, ready to be printed after `error: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// What a fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this message: one sentence without the final full stop.
    pub fn new(message: impl Into<String>) -> Error {
        Error(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
