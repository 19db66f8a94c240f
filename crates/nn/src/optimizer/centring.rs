//! Recentring of parameters and of their gradients.

use std::collections::BTreeSet;

use lessen_graph::Tensor;

/// The mean along an axis, which keeps an extent of 1.
///
/// # Panics
/// If there is no such axis.
#[track_caller]
pub fn mean_along(x: Tensor, axis: usize) -> Tensor {
    let mut shape = x.shape();
    let extent = std::mem::replace(&mut shape[axis], 1);
    x.sum_axes(&[axis]).reshape(&shape) * (1.0 / extent as f64)
}

/// Subtracts the means along these axes: the orthogonal projection onto values with mean zero along each of them.
///
/// # Panics
/// If there is no such axis.
#[track_caller]
pub fn less_means(x: Tensor, axes: &BTreeSet<usize>) -> Tensor {
    axes.iter().fold(x, |x, &axis| x - mean_along(x, axis))
}
