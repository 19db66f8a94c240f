//! Losses of vectors that lie near each other or apart.

use lessen_graph::Tensor;

use super::check::{check_alike, check_margin, check_rows};

/// The least length of a vector whose direction counts.
const LEAST_LENGTH: f64 = 1e-8;

/// What is added to differences, so that the distance of equal vectors has a derivative.
const APART: f64 = 1e-6;

/// The cosines of the angles between vectors `[.., D]` of `x` and `y`: `[..]`. A vector shorter than 1e-8 counts as one
/// of that length, so that the cosine of a vector of zeros is 0.
///
/// # Panics
/// If shapes or dtypes differ, or there is no axis of vectors.
#[track_caller]
pub fn cosine_similarity(x: Tensor, y: Tensor) -> Tensor {
    check_alike("cosine_similarity", &[("vectors", x), ("other vectors", y)]);
    cosines("cosine_similarity", x, y)
}

#[track_caller]
fn cosines(name: &str, x: Tensor, y: Tensor) -> Tensor {
    check_rows(name, x);
    let (x, y) = (direction(x), direction(y));
    (x * y).sum_axes(&[x.axis(-1)])
}

/// Vectors of length 1, or less where they are too short.
#[track_caller]
fn direction(x: Tensor) -> Tensor {
    let square = (x * x).sum_last();
    x * square.maximum(square.scalar_like(LEAST_LENGTH * LEAST_LENGTH)).rsqrt()
}

/// Cosine embedding loss: the mean over pairs of vectors `[.., D]` of `1 - cos(x, y)` where the target, `[..]`, is
/// above 0, usually 1, and of `max(0, cos(x, y) - margin)` elsewhere, usually at -1.
///
/// # Panics
/// If shapes or dtypes do not fit, or the margin is not finite.
#[track_caller]
pub fn cosine_embedding(x: Tensor, y: Tensor, target: Tensor, margin: f64) -> Tensor {
    let name = "cosine_embedding";
    check_alike(name, &[("vectors", x), ("other vectors", y)]);
    check_margin(name, x, margin);
    let cosines = cosines(name, x, y);
    check_alike(name, &[("cosines", cosines), ("target", target)]);
    let alike = target.gt(target.scalar_like(0.0));
    alike.select(1.0 - cosines, (cosines - margin).relu()).mean()
}

/// Triplet margin loss (Balntas et al. 2016): the mean over triplets of vectors `[.., D]` of
/// `max(0, d(anchor, positive) - d(anchor, negative) + margin)` with the Euclidean distance `d`. As PyTorch does, it
/// adds 1e-6 to each difference, so that there is a derivative where vectors are equal.
///
/// # Panics
/// If shapes or dtypes differ, there is no axis of vectors, or the margin is not finite.
#[track_caller]
pub fn triplet_margin(anchor: Tensor, positive: Tensor, negative: Tensor, margin: f64) -> Tensor {
    let name = "triplet_margin";
    check_alike(
        name,
        &[("anchor", anchor), ("positive", positive), ("negative", negative)],
    );
    check_rows(name, anchor);
    check_margin(name, anchor, margin);
    let farther = distance(anchor, positive) - distance(anchor, negative);
    (farther + margin).relu().mean()
}

/// Distances of vectors `[.., D]`, as `[.., 1]`.
#[track_caller]
fn distance(x: Tensor, y: Tensor) -> Tensor {
    let apart = x - y + APART;
    (apart * apart).sum_last().sqrt()
}
