//! Whole numbers among the arguments of an example.

use lessen::prelude::*;

/// The whole number that argument `place` says, if there is one.
pub fn number(arguments: &[String], place: usize) -> Result<Option<usize>> {
    let parse = |word: &String| {
        word.parse()
            .map_err(|_| Error::user(format!("'{word}' is not a whole number")).at(format!("argument {}", place + 1)))
    };
    arguments.get(place).map(parse).transpose()
}
