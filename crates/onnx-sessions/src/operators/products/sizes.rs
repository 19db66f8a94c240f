//! Extents of products: broadcasting, and bounds of what a small file may ask for.

use lessen_base::{Error, Result};

use lessen_onnx::host::numel;

/// Most elements of a result.
const MOST_ELEMENTS: usize = 1 << 28;

/// Most multiplications of a node.
const MOST_WORK: u128 = 1 << 38;

/// The number of elements of a result.
///
/// # Errors
/// More than 2^28.
pub(crate) fn room(shape: &[usize]) -> Result<usize> {
    let count = numel(shape)?;
    if count > MOST_ELEMENTS {
        return Err(Error::user(format!("a result of extents {shape:?} is too large")));
    }
    Ok(count)
}

/// Checks a number of multiplications, given as factors.
///
/// # Errors
/// More than 2^38.
pub(crate) fn check_work(factors: &[usize]) -> Result<()> {
    let work = factors
        .iter()
        .try_fold(1u128, |work, factor| work.checked_mul(*factor as u128));
    let is_small = factors.contains(&0) || work.is_some_and(|work| work <= MOST_WORK);
    is_small.then_some(()).ok_or_else(|| {
        Error::user(format!(
            "it asks for more multiplications than 2^38, of extents {factors:?}"
        ))
    })
}

/// The extents that two arrays broadcast to.
///
/// # Errors
/// Extents that do not fit.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            _ => Err(Error::user(format!("the extents {a:?} and {b:?} do not fit"))),
        })
        .collect()
}

/// The place in an array of extents `from` of each element of extents `to`, to which it broadcasts.
///
/// # Errors
/// Extents that do not broadcast; too large a result.
pub(super) fn places(from: &[usize], to: &[usize]) -> Result<Vec<usize>> {
    if from.len() > to.len() || broadcast(from, to)? != to {
        return Err(Error::user(format!("the extents {from:?} do not broadcast to {to:?}")));
    }
    let count = room(to)?;
    let missing = to.len() - from.len();
    let mut all = Vec::with_capacity(count);
    if count == 0 {
        return Ok(all);
    }
    all.push(0);
    let mut strides = vec![0; to.len()];
    let mut stride = 1;
    for i in (0..from.len()).rev() {
        strides[missing + i] = if from[i] == 1 { 0 } else { stride };
        stride *= from[i];
    }
    for (extent, stride) in to.iter().zip(&strides) {
        let before = std::mem::take(&mut all);
        all.reserve(before.len() * extent);
        for place in before {
            all.extend((0..*extent).map(|i| place + i * stride));
        }
    }
    Ok(all)
}

/// The elements of an array of extents `from`, repeated to extents `to`.
///
/// # Errors
/// Extents that do not broadcast; too large a result.
pub(super) fn spread<T: Copy>(elements: &[T], from: &[usize], to: &[usize]) -> Result<Vec<T>> {
    if from == to {
        return Ok(elements.to_vec());
    }
    Ok(places(from, to)?.into_iter().map(|place| elements[place]).collect())
}

/// Extents around an axis: the product of those before it, its own, the product of those after it.
pub(super) fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    let count = |extents: &[usize]| {
        extents
            .iter()
            .fold(1, |count: usize, extent| count.saturating_mul(*extent))
    };
    (count(&shape[..axis]), shape[axis], count(&shape[axis + 1..]))
}
