//! Losses of numbers that are predicted.

use lessen_graph::Tensor;

use super::check::{check_alike, check_positive};

/// The difference of a prediction and its target.
#[track_caller]
fn error(name: &str, prediction: Tensor, target: Tensor) -> Tensor {
    check_alike(name, &[("prediction", prediction), ("target", target)]);
    prediction - target
}

/// Mean squared error: the mean of `(prediction - target)²` over all elements, of any shape.
///
/// # Panics
/// If shapes or dtypes differ.
#[track_caller]
pub fn mse(prediction: Tensor, target: Tensor) -> Tensor {
    let error = error("mse", prediction, target);
    (error * error).mean()
}

/// Mean absolute error: the mean of `|prediction - target|` over all elements, of any shape. Its derivative is 0 where
/// both are equal.
///
/// # Panics
/// If shapes or dtypes differ.
#[track_caller]
pub fn mae(prediction: Tensor, target: Tensor) -> Tensor {
    error("mae", prediction, target).abs().mean()
}

/// Huber's loss (1964): the mean over all elements, of any shape, of `e² / 2` for errors `e` up to `delta` and of
/// `delta (|e| - delta / 2)` for larger ones.
///
/// # Panics
/// If shapes or dtypes differ, or `delta` is not above 0.
#[track_caller]
pub fn huber(prediction: Tensor, target: Tensor, delta: f64) -> Tensor {
    huber_of("huber", prediction, target, ("delta", delta))
}

/// Smooth L1 (Girshick 2015): the mean over all elements, of any shape, of `e² / (2 beta)` for errors `e` up to `beta`
/// and of `|e| - beta / 2` for larger ones; [`huber`] over `beta`.
///
/// # Panics
/// If shapes or dtypes differ, or `beta` is not above 0; [`mae`] is its limit there.
#[track_caller]
pub fn smooth_l1(prediction: Tensor, target: Tensor, beta: f64) -> Tensor {
    huber_of("smooth_l1", prediction, target, ("beta", beta)) / beta
}

#[track_caller]
fn huber_of(name: &str, prediction: Tensor, target: Tensor, (setting, delta): (&str, f64)) -> Tensor {
    let error = error(name, prediction, target);
    check_positive(name, error, (setting, delta));
    // For an error e and c = e within -delta and delta, c (e - c / 2) is either of the two.
    let within = error.clamp(-delta, delta);
    (within * (error - within * 0.5)).mean()
}
