//! The error of a run: whose fault it is decides the exit code.

use std::fmt;

/// What went wrong, as one clear sentence.
#[derive(Clone, PartialEq, Eq)]
pub enum Error {
    /// A mistake in what the user gave: a file, a flag, a setting. The sentence names the thing, the place and the
    /// remedy.
    User(String),
    /// A failure of Lessen itself.
    Internal(String),
}

/// What a fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A mistake of the user.
    pub fn user(message: impl Into<String>) -> Error {
        Error::User(message.into())
    }

    /// A failure of ours.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::Internal(message.into())
    }

    /// The exit code of a command that ends with this error: 2 for a mistake of the user, 1 for a failure of ours.
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
    /// The sentence as it is: what a `main` prints that returns this error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<lessen_data::Error> for Error {
    fn from(error: lessen_data::Error) -> Error {
        Error::User(error.to_string())
    }
}

impl From<lessen_nn::Error> for Error {
    fn from(error: lessen_nn::Error) -> Error {
        Error::User(error.to_string())
    }
}
