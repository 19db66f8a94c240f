//! Tensors of one type side by side along a new axis.

use crate::ops::shape::concat::concat;
use crate::tensor::Tensor;

/// Tensors of one type along a new axis, whose extent is their number; `axis` counts from the end of the new shape when
/// negative.
///
/// # Panics
/// If there are none, or if they differ in dtype or shape.
#[track_caller]
pub fn stack(tensors: &[Tensor], axis: isize) -> Tensor {
    let first = *tensors.first().expect("stack needs at least one tensor");
    first.trace().check_related(format_args!("stack:"), tensors);
    let ty = first.ty();
    if let Some(other) = tensors.iter().map(|tensor| tensor.ty()).find(|other| *other != ty) {
        first.trace().fail(format!("stack: {ty} and {other} differ"));
    }
    let mut apart = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        apart.push(tensor.unsqueeze(axis));
    }
    concat(&apart, axis)
}
