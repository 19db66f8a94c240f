//! A user's mistake: one sentence that names the thing, the place and the remedy.

use std::fmt;

/// What a user gave cannot be used. The sentence says what, where and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(String);

/// The result of anything that reads what a user gave.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this sentence.
    pub fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
