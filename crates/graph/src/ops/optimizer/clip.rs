//! Clipping of gradients by their global norm, as `torch.nn.utils.clip_grad_norm_`. They are compositions of
//! operations.

use crate::mistakes::fail_in_thread;
use crate::tensor::Tensor;

/// The Euclidean norm of all elements of all gradients together: `sqrt(sum g^2)`, a scalar. Where all are
/// zero its derivative is zero, as torch's, though the square root has none there.
///
/// # Panics
/// If there are no gradients.
#[track_caller]
pub fn global_norm(grads: &[Tensor]) -> Tensor {
    let Some((first, others)) = grads.split_first() else {
        fail_in_thread("the global norm of no gradients has no type; give it at least one gradient");
    };
    let mut squares = (*first * *first).sum();
    for grad in others {
        squares = squares + (*grad * *grad).sum();
    }
    root_of_squares(squares)
}

/// The norm of elements whose squares add up to this scalar.
pub fn root_of_squares(squares: Tensor) -> Tensor {
    let zero = squares.scalar_like(0.0);
    let flat = squares.eq(zero);
    flat.select(zero, flat.select(squares.scalar_like(1.0), squares).sqrt())
}

/// Factor of every gradient that keeps their global norm at `max_norm` at most: `min(1, max_norm / (norm + 1e-6))`.
#[track_caller]
pub fn clip_coefficient(norm: Tensor, max_norm: f64) -> Tensor {
    (max_norm / (norm + 1e-6)).minimum(norm.scalar_like(1.0))
}
