//! Reading TOML into a type, with errors of one sentence.

use lessen_base::{Error, Result};
use serde::de::DeserializeOwned;

/// Reads a text; `remedy` says what such a file has.
///
/// # Errors
/// A text that is no TOML, a missing or unknown field, a value of another type: a sentence with the line.
pub(crate) fn read<T: DeserializeOwned>(text: &str, remedy: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| {
        let before = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let line = e.span().map_or(1, |span| before(span.start));
        let message = e.message().trim().replace('\n', " ");
        Error::user(format!("line {line}: {message}; {remedy}"))
    })
}
