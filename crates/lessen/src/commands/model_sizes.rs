//! Sizes of the extents of an ONNX model's inputs that have names.

use lessen_base::{Error, Result};
use lessen_onnx::{Model, Sizes, size_names, usual_sizes};

/// Sizes from `NAME=N`. Other extents get two for the first name, usually the batch, and eight, or the size that the
/// model's constants require.
///
/// # Errors
/// As [`given_sizes`].
pub fn sizes(model: &Model, words: &[String]) -> Result<Sizes> {
    usual_sizes(model, given_sizes(model, words)?)
}

/// The sizes from `NAME=N` alone.
///
/// # Errors
/// A name that no input has, or a size that is no whole number from 1 on.
pub fn given_sizes(model: &Model, words: &[String]) -> Result<Sizes> {
    let names = size_names(model);
    let size = |word: &String| {
        let parts = word
            .split_once('=')
            .and_then(|(name, size)| Some((name, size.parse::<usize>().ok()?)));
        let Some((name, size)) = parts.filter(|(_, size)| *size > 0) else {
            return Err(Error::user(format!(
                "--size: `{word}` is not as NAME=N, such as batch=2"
            )));
        };
        if names.iter().any(|known| known == name) {
            return Ok((name.to_string(), size));
        }
        Err(Error::user(if names.is_empty() {
            format!("--size: no extent of the inputs is called `{name}`; all of them have fixed sizes")
        } else {
            format!(
                "--size: no extent of the inputs is called `{name}`; the names are {}",
                names.join(", ")
            )
        }))
    };
    words.iter().map(size).collect()
}
