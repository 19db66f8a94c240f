//! Extents of results and places of elements.

use lessen_base::Result;

use super::elements::width;
use lessen_onnx::host::{Data, HostCall, numel};

/// The product of extents, which saturates.
pub(super) fn product(extents: &[usize]) -> usize {
    extents
        .iter()
        .fold(1, |product, extent| product.saturating_mul(*extent))
}

/// The steps from an index to the next along each axis, in elements.
pub(super) fn steps(shape: &[usize]) -> Vec<usize> {
    let mut steps = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        steps[axis - 1] = shape[axis].saturating_mul(steps[axis]);
    }
    steps
}

/// The number of elements of a result whose extents come from elements or attributes.
///
/// # Errors
/// A result of more than 4 GiB.
pub(super) fn bounded(call: &HostCall<'_>, shape: &[usize], like: &Data) -> Result<usize> {
    const MOST: usize = 1 << 32;
    let count = numel(shape)?;
    if count.saturating_mul(width(like)) <= MOST {
        Ok(count)
    } else {
        call.refused(format!("a result of extents {shape:?} takes more than 4 GiB"))
    }
}

/// The extent that a number says.
///
/// # Errors
/// A negative number.
pub(super) fn extent(call: &HostCall<'_>, number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(extent) => Ok(extent),
        Err(_) => call.refused(format!("{number} is no extent")),
    }
}

/// The extents that numbers say.
///
/// # Errors
/// A negative number.
pub(super) fn extents(call: &HostCall<'_>, numbers: &[i64]) -> Result<Vec<usize>> {
    numbers.iter().map(|number| extent(call, *number)).collect()
}

/// The place of an index, which counts from the end where it is negative.
///
/// # Errors
/// An index that is not there.
pub(super) fn place(call: &HostCall<'_>, index: i64, extent: usize) -> Result<usize> {
    let at = if index < 0 {
        index.saturating_add(extent as i64)
    } else {
        index
    };
    match usize::try_from(at).ok().filter(|at| *at < extent) {
        Some(at) => Ok(at),
        None => call.refused(format!("there is no index {index} on an axis of extent {extent}")),
    }
}

/// The axes that an attribute or an input names, in its order; all axes where neither is there.
///
/// # Errors
/// An axis that is not there, or named twice.
pub(super) fn axes_or_all(call: &HostCall<'_>, axes: Option<Vec<i64>>, rank: usize) -> Result<Vec<usize>> {
    let Some(axes) = axes else {
        return Ok((0..rank).collect());
    };
    let found: Vec<usize> = axes.iter().map(|axis| call.axis(*axis, rank)).collect::<Result<_>>()?;
    if call.axes(&axes, rank)?.len() == found.len() {
        Ok(found)
    } else {
        call.refused(format!("its axes {axes:?} name an axis twice"))
    }
}
