//! Functions by the number of images that they take, and their plans.

use lessen_base::{Error, Result};
use lessen_compile::Plan;
use lessen_train::{Function, Session};
use std::sync::Arc;

/// The sizes of the parts of `count` elements in parts of at most `most`: one size, or two.
pub(crate) fn parts(count: usize, most: usize) -> Vec<usize> {
    let part = count.min(most);
    let rest = if part == 0 { 0 } else { count % part };
    [part, rest].into_iter().filter(|size| *size > 0).collect()
}

/// The function for a size.
pub(crate) fn of_size(functions: &[(usize, Function)], size: usize) -> Result<Function> {
    let found = functions.iter().find(|(own, _)| *own == size);
    let found = found.map(|(_, function)| *function);
    found.ok_or_else(|| Error::internal(format!("there is no function for {size} images")))
}

/// Functions by size, with their names.
pub(crate) fn named(what: &str, functions: &[(usize, Function)]) -> impl Iterator<Item = (String, Function)> {
    let name = move |(size, function): &(usize, Function)| (format!("{what} {size}"), *function);
    functions.iter().map(name)
}

/// The plans of functions with names.
pub(crate) fn plans(session: &Session, functions: Vec<(String, Function)>) -> Result<Vec<(String, Arc<Plan>)>> {
    let plan = |(name, function)| Ok((name, session.plan(function)?));
    functions.into_iter().map(plan).collect()
}
