//! Checks of the inputs that a caller gives.

use crate::session::Inputs;
use lessen_base::{Error, Result};
use std::collections::HashSet;

/// Refuses inputs of which two have one name.
pub(crate) fn check_once(inputs: &Inputs<'_>) -> Result<()> {
    let mut names = HashSet::new();
    match inputs.iter().find(|(name, _)| !names.insert(*name)) {
        None => Ok(()),
        Some((name, _)) => Err(Error::user(format!(
            "the input `{name}` is given twice; give each input once"
        ))),
    }
}
