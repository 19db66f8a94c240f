//! Losses.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use crate::call::{Call, Operators, one};
use crate::images::channels_last;
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("binary_cross_entropy", |call| {
        let (p, y) = (call.x()?, call.tensor("target")?);
        // PyTorch's logarithms are at least -100.
        let log = |x: Tensor| {
            let log = x.log();
            log.maximum(log.scalar_like(-100.0))
        };
        let loss = -(y * log(p) + (1.0 - y) * log(1.0 - p));
        weighted(call, loss)
    }),
    ("binary_cross_entropy_with_logits", bce_with_logits),
    ("cosine_similarity", cosine_similarity),
    ("cross_entropy_loss", cross_entropy),
    ("hinge_embedding_loss", |call| {
        let (x, y, margin) = (call.x()?, call.tensor("target")?, call.float("margin", 1.0)?);
        let near = y.eq(y.scalar_like(1.0));
        let loss = near.select(x, (margin - x).relu());
        reduced(call, loss)
    }),
    ("huber_loss", |call| {
        let (x, delta) = (difference(call)?, call.float("delta", 1.0)?);
        let loss = x
            .lt(x.scalar_like(delta))
            .select(x * x * 0.5, (x - 0.5 * delta) * delta);
        reduced(call, loss)
    }),
    ("kl_div", kl_div),
    ("l1_loss", |call| {
        let loss = difference(call)?;
        reduced(call, loss)
    }),
    ("margin_ranking_loss", |call| {
        let (a, b, y) = (call.tensor("input1")?, call.tensor("input2")?, call.tensor("target")?);
        let margin = call.float("margin", 0.0)?;
        let loss = ((b - a) * y.cast(a.dtype()) + margin).relu();
        reduced(call, loss)
    }),
    ("mse_loss", |call| {
        let x = difference(call)?;
        reduced(call, x * x)
    }),
    ("nll_loss", |call| {
        let x = call.x()?;
        nll(call, x)
    }),
    ("nll_loss_nd", |call| {
        let x = call.x()?;
        nll(call, x)
    }),
    ("pairwise_distance", |call| {
        let (a, b) = call.both("x1", "x2")?;
        let eps = call.float("eps", 1e-6)?;
        if call.float("p", 2.0)? != 2.0 {
            return call.lacks("distances of another norm than 2");
        }
        let y = distance(a, b, eps);
        one(if call.truth("keepdim") { y.unsqueeze(-1) } else { y })
    }),
    ("poisson_nll_loss", |call| {
        let (x, y) = (call.tensor("input")?, call.tensor("target")?);
        if !call.truth("log_input") || call.truth("full") {
            return call.lacks("this Poisson loss; use log_input=True and full=False");
        }
        let loss = x.exp() - y * x;
        reduced(call, loss)
    }),
    ("smooth_l1_loss", |call| {
        let (x, beta) = (difference(call)?, call.float("beta", 1.0)?);
        if beta == 0.0 {
            return reduced(call, x);
        }
        let loss = x.lt(x.scalar_like(beta)).select(x * x * (0.5 / beta), x - 0.5 * beta);
        reduced(call, loss)
    }),
    ("soft_margin_loss", |call| {
        let (x, y) = (call.x()?, call.tensor("target")?);
        let loss = (-(x * y.cast(x.dtype()))).softplus();
        reduced(call, loss)
    }),
    ("triplet_margin_loss", triplet),
];

/// The distance of rows, as `pairwise_distance` has it.
fn distance(a: Tensor, b: Tensor, eps: f64) -> Tensor {
    let x = a - b + eps;
    (x * x).sum_last().sqrt()
}

/// `max(0, d(anchor, positive) - d(anchor, negative) + margin)`
fn triplet(call: &mut Call<'_, '_>) -> Result<Value> {
    let [anchor, near, far] = [
        call.tensor("anchor")?,
        call.tensor("positive")?,
        call.tensor("negative")?,
    ];
    let (margin, eps) = (call.float("margin", 1.0)?, call.float("eps", 1e-6)?);
    if call.float("p", 2.0)? != 2.0 || call.truth("swap") {
        return call.lacks("a triplet loss of this form; use p=2 and swap=False");
    }
    let loss = (distance(anchor, near, eps) - distance(anchor, far, eps) + margin).relu();
    reduced(call, loss)
}

/// `|self - target|`, whose square has the derivative of the difference's.
fn difference(call: &Call<'_, '_>) -> Result<Tensor> {
    let (x, y) = call.both("self", "target")?;
    Ok((x - y).abs())
}

/// All losses, their mean or their sum, as `reduction` says.
fn reduced(call: &mut Call<'_, '_>, loss: Tensor) -> Result<Value> {
    match call.int("reduction", 1)? {
        0 => one(loss),
        1 => one(loss.mean()),
        _ => one(loss.sum()),
    }
}

/// Losses with weights, if some are given, reduced.
fn weighted(call: &mut Call<'_, '_>, loss: Tensor) -> Result<Value> {
    let loss = match call.optional("weight")? {
        Some(weight) => loss * weight.cast(loss.dtype()),
        None => loss,
    };
    reduced(call, loss)
}

fn bce_with_logits(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let y = call.tensor("target")?.cast(x.dtype());
    let loss = match call.optional("pos_weight")? {
        Some(weight) => (1.0 - y) * x + ((weight.cast(x.dtype()) - 1.0) * y + 1.0) * (-x).softplus(),
        None => x.softplus() - x * y,
    };
    weighted(call, loss)
}

/// Logits `[.., V]` of `[N, V, ..]`, one row without the axis of the batch.
fn rows(x: Tensor) -> Tensor {
    if x.rank() > 2 { channels_last(x) } else { x }
}

fn cross_entropy(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, y) = (call.x()?, call.tensor("target")?);
    let smoothing = call.float("label_smoothing", 0.0)?;
    if y.dtype().is_float() {
        return shares(call, x, y, smoothing);
    }
    if call.has("weight") {
        if smoothing != 0.0 {
            return call.lacks("cross entropy with weights and smoothed labels; leave one of them out");
        }
        let log = rows(x).log_softmax();
        return nll_of_rows(call, log, y);
    }
    let ignore = call.int("ignore_index", -100)?;
    let logits = rows(x);
    let losses = logits.cross_entropy_rows(y, ignore, smoothing);
    match call.int("reduction", 1)? {
        0 => one(losses),
        1 if y.rank() == 0 => one(losses),
        1 => one(logits.cross_entropy_with(y, ignore, smoothing)),
        _ => one(losses.sum()),
    }
}

/// Cross entropy with the share of each class.
fn shares(call: &mut Call<'_, '_>, x: Tensor, y: Tensor, smoothing: f64) -> Result<Value> {
    let (log, mut y) = (rows(x).log_softmax(), rows(y).cast(x.dtype()));
    if smoothing != 0.0 {
        y = y * (1.0 - smoothing) + smoothing / y.dim(-1) as f64;
    }
    if let Some(weight) = call.optional("weight")? {
        y = y * weight;
    }
    let losses = -(log * y).sum_axes(&[log.rank() - 1]);
    reduced(call, losses)
}

fn nll(call: &mut Call<'_, '_>, log: Tensor) -> Result<Value> {
    let y = call.tensor("target")?;
    nll_of_rows(call, rows(log), y)
}

/// `-log[.., label]` with a weight for each class, where a label is not ignored.
fn nll_of_rows(call: &mut Call<'_, '_>, log: Tensor, y: Tensor) -> Result<Value> {
    let ignore = call.int("ignore_index", -100)?;
    let counts = y.ne(y.scalar_like(ignore as f64));
    let labels = counts.select(y, y.scalar_like(0.0));
    let own = log.take_along(-1, labels.unsqueeze(-1)).reshape(&y.shape());
    let weight = match call.optional("weight")? {
        Some(weight) => weight.gather(labels).cast(log.dtype()),
        None => log.scalar_like(1.0),
    };
    let weight = counts.select(weight, log.scalar_like(0.0));
    let losses = -(own * weight);
    match call.int("reduction", 1)? {
        0 => one(losses),
        1 => one(losses.sum() / weight.sum()),
        _ => one(losses.sum()),
    }
}

fn kl_div(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, y) = (call.x()?, call.tensor("target")?);
    let loss = if call.truth("log_target") {
        y.exp() * (y - x)
    } else {
        let positive = y.gt(y.scalar_like(0.0));
        let log = positive.select(y, y.scalar_like(1.0)).log();
        y * (log - x)
    };
    reduced(call, loss)
}

fn cosine_similarity(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b) = call.both("x1", "x2")?;
    let (a, b) = a.broadcast_with(b);
    let (axis, eps) = (call.axis("dim", 1, a.rank())?, call.float("eps", 1e-8)?);
    let a = a.cast(if a.dtype() == DType::F64 {
        DType::F64
    } else {
        DType::F32
    });
    let length = |x: Tensor| {
        let length = (x * x).sum_axes(&[axis]).sqrt();
        length.maximum(length.scalar_like(eps))
    };
    one((a * b).sum_axes(&[axis]) / (length(a) * length(b)))
}
