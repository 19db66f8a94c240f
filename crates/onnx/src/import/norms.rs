//! Normalizations.

use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_graph::ops::LayerNorm;

use super::Value;
use super::call::{Call, Operators, one};

pub(crate) const OPERATORS: Operators = &[
    ("LayerNormalization", layer_norm),
    ("RMSNormalization", rms_norm),
    ("SimplifiedLayerNormalization", rms_norm),
    ("SkipLayerNormalization", skip_layer_norm),
    ("SkipSimplifiedLayerNormalization", skip_rms_norm),
];

/// The extents of the axes that are normalized together, which must be the last ones.
fn normalized(call: &Call<'_>, x: Tensor) -> Result<usize> {
    let axis = call.axis(call.int("axis", -1), x.rank())?;
    Ok(x.shape()[axis..].iter().product())
}

/// An input as a row of `width` elements; where it is absent, every element is `absent`.
fn row(call: &mut Call<'_>, input: usize, width: usize, x: Tensor, absent: f64) -> Result<Tensor> {
    if call.has(input) {
        Ok(call.tensor(input)?.cast(x.dtype()).broadcast_to(&[width]))
    } else {
        Ok(call.trace.full(x.dtype(), &[width], absent))
    }
}

/// Outputs are the norm, the means and the reciprocals of the deviations, whose normalized axes have extent 1.
fn layer_norm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let width = normalized(call, x)?;
    let (gamma, beta) = (row(call, 1, width, x, 1.0)?, row(call, 2, width, x, 0.0)?);
    let eps = call.float("epsilon", 1e-5);
    let shape = x.shape();
    let axis = call.axis(call.int("axis", -1), x.rank())?;
    let is_row = shape.last() == Some(&width);
    let rows = if is_row {
        x
    } else {
        x.reshape(&[x.ty().numel() / width.max(1), width])
    };
    let [y, mean, scale] = call.trace.apply(LayerNorm { eps }, &[rows, gamma, beta])[..] else {
        return call.unknown("a norm without statistics");
    };
    let y = if is_row { y } else { y.reshape(&shape) };
    let mut outputs = vec![Value::Traced(y)];
    // An exporter that names no statistic gets a graph without them.
    if call.node.proto.output.len() > 1 {
        let ones = shape.iter().enumerate().map(|(i, n)| if i < axis { *n } else { 1 });
        let ones: Vec<usize> = ones.collect();
        outputs.extend([mean, scale].map(|statistic| Value::Traced(statistic.reshape(&ones))));
    }
    Ok(outputs)
}

fn rms_norm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let width = normalized(call, x)?;
    let gamma = row(call, 1, width, x, 1.0)?;
    let eps = call.float("epsilon", 1e-5);
    one(x.by_rows(width, |x| x.rms_norm(gamma, eps)))
}

/// The sum of inputs 0, 1 and perhaps 4, and what `f` makes of it. Outputs are the norm, two statistics and the sum.
fn skip(
    call: &mut Call<'_>,
    bias: usize,
    f: impl FnOnce(&mut Call<'_>, Tensor) -> Result<Tensor>,
) -> Result<Vec<Value>> {
    let mut x = call.tensor(0)? + call.tensor(1)?;
    if call.has(bias) {
        x = x + call.tensor(bias)?;
    }
    let y = f(call, x)?;
    let is_wanted = |output: usize| call.node.proto.output.get(output).is_some_and(|name| !name.is_empty());
    if is_wanted(1) || is_wanted(2) {
        return call.unknown("a statistic of a norm");
    }
    Ok([y, y, y, x].into_iter().map(Value::Traced).collect())
}

fn skip_layer_norm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    skip(call, 4, |call, x| {
        let width = x.ty().last();
        let (gamma, beta) = (row(call, 2, width, x, 1.0)?, row(call, 3, width, x, 0.0)?);
        Ok(x.layer_norm(gamma, beta, call.float("epsilon", 1e-12)))
    })
}

fn skip_rms_norm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    skip(call, 3, |call, x| {
        let gamma = row(call, 2, x.ty().last(), x, 1.0)?;
        Ok(x.rms_norm(gamma, call.float("epsilon", 1e-12)))
    })
}
