//! Sizes of the extents of an ONNX model's inputs that have names.

use lessen_onnx::{Model, Sizes, fitting_sizes, size_names};
use lessen_run::{Error, Result};

/// Sizes from `NAME=N`; the others are two for the first name, which is mostly that of the batch, and eight, or what
/// the model's constants ask for.
///
/// # Errors
/// A name that no input has, or a size that is no whole number from 1 on.
pub fn sizes(model: &Model, given: &[String]) -> Result<Sizes> {
    let names = size_names(model);
    let default = |i: usize| if i == 0 { 2 } else { 8 };
    let mut sizes: Sizes = names
        .iter()
        .enumerate()
        .map(|(i, name)| (name.clone(), default(i)))
        .collect();
    let mut free = names.clone();
    for word in given {
        let parts = word
            .split_once('=')
            .and_then(|(name, size)| Some((name, size.parse::<usize>().ok()?)));
        let Some((name, size)) = parts.filter(|(_, size)| *size > 0) else {
            return Err(Error::user(format!(
                "--size: `{word}` is not as NAME=N, such as batch=2"
            )));
        };
        match sizes.get_mut(name) {
            Some(known) => {
                *known = size;
                free.retain(|other| other != name);
            }
            None => {
                return Err(Error::user(format!(
                    "--size: no extent of the inputs is called `{name}`; the names are {}",
                    names.join(", ")
                )));
            }
        }
    }
    fitting_sizes(model, &sizes, &free)
}
