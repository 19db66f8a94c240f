//! The error type of every crate: one sentence, and who has to act on it.

use std::fmt;

/// An error as one sentence without a final full stop, ready to be printed after `error: `.
#[derive(Clone, PartialEq, Eq)]
pub enum Error {
    /// A mistake in the input: a file, a flag, a setting, a shape. The sentence names the mistake, the place and the
    /// remedy.
    User(String),
    /// A failure of Lessen itself.
    Internal(String),
}

/// The result of every fallible function of Lessen.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A mistake in the input.
    pub fn user(message: impl Into<String>) -> Error {
        Error::User(message.into())
    }

    /// A failure of Lessen itself.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::Internal(message.into())
    }

    /// The sentence alone.
    pub fn message(&self) -> &str {
        match self {
            Error::User(message) | Error::Internal(message) => message,
        }
    }

    /// The same error with a place in front of its sentence: `PLACE: SENTENCE`.
    pub fn at(self, place: impl fmt::Display) -> Error {
        match self {
            Error::User(message) => Error::User(format!("{place}: {message}")),
            Error::Internal(message) => Error::Internal(format!("{place}: {message}")),
        }
    }

    /// The exit code of a command that ends with this error: 2 for a mistake in the input, 1 for a failure of Lessen.
    pub fn exit_code(&self) -> i32 {
        match self {
            Error::User(_) => 2,
            Error::Internal(_) => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::User(message) => f.write_str(message),
            Error::Internal(message) => write!(f, "internal failure: {message}"),
        }
    }
}

impl fmt::Debug for Error {
    /// Prints the sentence alone, which is what a `main` that returns this error shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
