//! Sums of bytes that cannot wrap.
//!
//! A program whose arrays take more than [`MOST_BYTES`] together is refused before it is planned, so sums over some of
//! its arrays fit. Sums with scratch saturate, and a plan of more bytes is refused.

use lessen_base::{Error, Result};
use lessen_graph::{Graph, ValueId};

use crate::offsets::aligned;
use crate::place::places;

/// The most bytes of a plan: more than any machine has, and so few that a sum of several such numbers fits `isize`.
pub(crate) const MOST_BYTES: usize = isize::MAX as usize >> 4;

/// The sum of bytes; the greatest number where it does not fit.
pub(crate) fn sum(bytes: impl IntoIterator<Item = usize>) -> usize {
    bytes.into_iter().fold(0, usize::saturating_add)
}

/// Bytes of the results of a graph, each a dense array of its own.
pub(crate) fn of_results(graph: &Graph) -> usize {
    sum(graph.outputs.iter().map(|output| graph.ty(output.value).bytes()))
}

/// Checks that the arrays of a graph, views not counted, take no more than [`MOST_BYTES`] together.
///
/// # Errors
/// A sentence that says so.
pub(crate) fn check_arrays(graph: &Graph) -> Result<()> {
    let with_views = sum(graph.values.iter().map(|value| aligned(value.ty.bytes())));
    if with_views <= MOST_BYTES {
        return Ok(());
    }
    let is_array = |i: usize, base: ValueId| base.index() == i;
    let places = places(graph);
    let arrays = places.iter().enumerate().filter(|(i, place)| is_array(*i, place.base));
    check_peak(sum(arrays.map(|(i, _)| aligned(graph.values[i].ty.bytes()))))
}

/// Checks that no more than [`MOST_BYTES`] are needed.
///
/// # Errors
/// A sentence that says so.
pub(crate) fn check_peak(bytes: usize) -> Result<()> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(Error::user(format!(
        "the arrays of the program take more than {MOST_BYTES} bytes together, which no machine has; take a smaller \
         batch or a smaller model"
    )))
}
