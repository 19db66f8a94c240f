//! Losses of classes, of truth values and of distributions.

use lessen_graph::Tensor;

use super::check::{check_alike, check_rows};

/// Binary cross entropy of logits: the mean over all elements, of any shape, of `-t ln σ(z) - (1 - t) ln(1 - σ(z))`
/// with the logistic function `σ`, for targets `t` from 0 to 1. It is finite for every finite logit.
///
/// # Panics
/// If shapes or dtypes differ.
#[track_caller]
pub fn binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor {
    check_alike("binary_cross_entropy", &[("logits", logits), ("targets", targets)]);
    (targets * (-logits).softplus() + (1.0 - targets) * logits.softplus()).mean()
}

/// The hinge loss of a linear classifier (Cortes and Vapnik 1995): the mean over all elements, of any shape, of
/// `max(0, 1 - t s)` for scores `s` and targets `t` that are 1 or -1. Its derivative is 0 where `t s` is 1.
///
/// # Panics
/// If shapes or dtypes differ.
#[track_caller]
pub fn hinge(scores: Tensor, targets: Tensor) -> Tensor {
    check_alike("hinge", &[("scores", scores), ("targets", targets)]);
    (1.0 - targets * scores).relu().mean()
}

/// Kullback-Leibler divergence of distributions `p` from predicted ones `q`, as logarithms: `log_q` and `p` are
/// `[.., C]`, and the result is the mean over rows of `sum_c p[c] (ln p[c] - log_q[c])`, as PyTorch's `batchmean` is
/// for one axis of rows. Classes of probability 0 count as 0. [`Tensor::log_softmax`] makes `log_q` of logits.
///
/// # Panics
/// If shapes or dtypes differ, or there is no axis of classes.
#[track_caller]
pub fn kl_divergence(log_q: Tensor, p: Tensor) -> Tensor {
    check_alike("kl_divergence", &[("logarithms", log_q), ("distributions", p)]);
    check_rows("kl_divergence", p);
    // Where p is 0, neither logarithm is read, so that no derivative is 0 times infinity.
    let counts = p.gt(p.scalar_like(0.0));
    let log_p = counts.select(p, p.scalar_like(1.0)).log();
    let log_q = counts.select(log_q, log_q.scalar_like(0.0));
    (p * (log_p - log_q)).sum_last().mean()
}
