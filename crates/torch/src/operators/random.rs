//! Random numbers and dropout: those of Lessen, other ones at every step.

use lessen_base::Result;
use lessen_graph::DType;

use crate::call::{Call, Operators, one};
use crate::images::through;
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("alpha_dropout", alpha_dropout),
    ("bernoulli", bernoulli),
    ("dropout", dropout),
    ("feature_dropout", feature_dropout),
    ("native_dropout", dropout),
    ("normal", |call| {
        let (mean, std) = (call.float("mean", 0.0)?, call.float("std", 1.0)?);
        let shape = call.x()?.shape();
        one(call.cx().normal(&shape) * std + mean)
    }),
    ("rand", |call| {
        let shape = call.sizes("size")?;
        one(call.cx().uniform(&shape))
    }),
    ("rand_like", |call| {
        let shape = call.x()?.shape();
        one(call.cx().uniform(&shape))
    }),
    ("randint", |call| {
        let (low, high) = (call.float("low", 0.0)?, call.float("high", 1.0)?);
        let shape = call.sizes("size")?;
        let numbers = call.cx().uniform(&shape) * (high - low) + low;
        one(numbers.floor().cast(DType::I32))
    }),
    ("randn", |call| {
        let shape = call.sizes("size")?;
        one(call.cx().normal(&shape))
    }),
    ("randn_like", |call| {
        let shape = call.x()?.shape();
        one(call.cx().normal(&shape))
    }),
    ("uniform", |call| {
        let (low, high) = (call.float("from", 0.0)?, call.float("to", 1.0)?);
        let shape = call.x()?.shape();
        one(call.cx().uniform(&shape) * (high - low) + low)
    }),
];

/// Whether an operator drops values: in training, with a probability above 0.
fn drops(call: &mut Call<'_, '_>) -> Result<Option<f64>> {
    let p = call.float("p", 0.5)?;
    let is_on = call.truth("train") && p > 0.0 && call.cx().training();
    if is_on && p >= 1.0 {
        return call.lacks("dropout of all values; multiply by 0");
    }
    Ok(is_on.then_some(p))
}

fn dropout(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let Some(p) = drops(call)? else { return one(x) };
    let cx = call.cx();
    one(through(x, |x| cx.dropout(x, p)))
}

/// Dropout of whole channels.
fn feature_dropout(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let Some(p) = drops(call)? else { return one(x) };
    let mut shape = x.shape();
    shape.iter_mut().skip(2).for_each(|extent| *extent = 1);
    let kept = call.cx().dropout(call.trace().full(x.dtype(), &shape, 1.0), p);
    one(x * kept)
}

/// Dropout to SELU's least value, which keeps mean and variance (Klambauer et al. 2017).
fn alpha_dropout(call: &mut Call<'_, '_>) -> Result<Value> {
    const LEAST: f64 = -1.758_099_340_847_376_7;
    let x = call.x()?;
    let Some(p) = drops(call)? else { return one(x) };
    let kept = call.cx().bernoulli(&x.shape(), 1.0 - p);
    let a = ((1.0 - p) * (1.0 + p * LEAST * LEAST)).sqrt().recip();
    one(kept.select(x, x.scalar_like(LEAST)) * a - a * p * LEAST)
}

/// Zeros and ones, with a probability for all elements or for each.
fn bernoulli(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    if let Some(p) = call.value("p").number() {
        return one(call.cx().bernoulli(&x.shape(), p).cast(x.dtype()));
    }
    let p = if call.has("p") { call.tensor("p")? } else { x };
    let drawn = call.cx().uniform(&x.shape());
    one(drawn.lt(p.cast(DType::F32).stop_gradient()).cast(x.dtype()))
}
