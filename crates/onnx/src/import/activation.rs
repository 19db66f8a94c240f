//! Activations.

use lessen_base::Result;
use lessen_graph::Tensor;

use super::Value;
use super::call::{Call, Operators, one};
use super::elementwise::unary;
use super::layout::through_both;

pub(crate) const OPERATORS: Operators = &[
    ("Celu", celu),
    ("Elu", elu),
    ("FastGelu", |call| with_bias(call, Tensor::gelu_tanh)),
    ("BiasGelu", |call| with_bias(call, Tensor::gelu)),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", |call| unary(call, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))),
    ("LeakyRelu", leaky_relu),
    ("Mish", |call| unary(call, |x| x * softplus(x).tanh())),
    ("PRelu", prelu),
    ("QuickGelu", quick_gelu),
    ("Relu", |call| unary(call, Tensor::relu)),
    ("Selu", selu),
    ("Sigmoid", |call| unary(call, Tensor::sigmoid)),
    ("Softplus", |call| unary(call, softplus)),
    ("Softsign", |call| unary(call, |x| x / (x.abs() + 1.0))),
    ("Swish", swish),
    ("Tanh", |call| unary(call, Tensor::tanh)),
    ("ThresholdedRelu", thresholded),
];

/// `log(1 + e^x)`, which overflows nowhere.
fn softplus(x: Tensor) -> Tensor {
    x.maximum(x.scalar_like(0.0)) + ((-x.abs()).exp() + 1.0).log()
}

/// A function of the sum of an input and a bias, if there is one.
fn with_bias(call: &mut Call<'_>, f: impl Fn(Tensor) -> Tensor) -> Result<Vec<Value>> {
    let mut x = call.tensor(0)?;
    if call.has(1) {
        x = x + call.tensor(1)?;
    }
    one(f(x))
}

fn celu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let alpha = call.float("alpha", 1.0);
    if alpha == 0.0 {
        return call.unknown("an activation divided by zero");
    }
    unary(call, |x| (x / alpha).elu(1.0) * alpha)
}

fn elu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let alpha = call.float("alpha", 1.0);
    unary(call, |x| x.elu(alpha))
}

fn selu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let alpha = call.float("alpha", 1.673_263_192_176_818_8);
    let gamma = call.float("gamma", 1.050_701_022_148_132_3);
    unary(call, |x| x.elu(alpha) * gamma)
}

fn gelu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    match call.text("approximate").as_deref() {
        Some("tanh") => unary(call, Tensor::gelu_tanh),
        _ => unary(call, Tensor::gelu),
    }
}

fn hard_sigmoid(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (alpha, beta) = (call.float("alpha", 0.2), call.float("beta", 0.5));
    unary(call, |x| (x * alpha + beta).clamp(0.0, 1.0))
}

fn leaky_relu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let slope = call.float("alpha", 0.01);
    unary(call, |x| x.leaky_relu(slope))
}

fn prelu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (x, slope) = (call.tensor(0)?, call.tensor(1)?);
    one(through_both(x, slope, |x, slope| {
        x.lt(x.scalar_like(0.0)).select(x * slope, x)
    }))
}

fn quick_gelu(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let alpha = call.float("alpha", 1.702);
    unary(call, |x| x * (x * alpha).sigmoid())
}

fn swish(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let alpha = call.float("alpha", 1.0);
    unary(call, |x| x * (x * alpha).sigmoid())
}

fn thresholded(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let alpha = call.float("alpha", 1.0);
    unary(call, |x| x.gt(x.scalar_like(alpha)).select(x, x.scalar_like(0.0)))
}
