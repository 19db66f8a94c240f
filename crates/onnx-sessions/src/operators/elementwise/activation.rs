//! Activation functions.

use std::f64::consts::FRAC_1_SQRT_2;

use lessen_base::Result;
use lessen_graph::ops::unary::erf;

use super::functions::floats;
use super::operands::{Pair, no_type, same, unary};
use crate::operators::broadcast::Broadcast;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostValue, Number, each_wide, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Celu", celu),
    ("", "Elu", elu),
    ("", "Gelu", gelu),
    ("", "HardSigmoid", hard_sigmoid),
    ("", "HardSwish", |call| {
        floats(call, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))
    }),
    ("", "LeakyRelu", leaky_relu),
    ("", "Mish", |call| floats(call, |x| x * softplus(x).tanh())),
    ("", "PRelu", prelu),
    ("", "Relu", |call| unary!(call, each_number, positive)),
    ("", "Selu", selu),
    ("", "Shrink", shrink),
    ("", "Sigmoid", |call| floats(call, sigmoid)),
    ("", "Softplus", |call| floats(call, softplus)),
    ("", "Softsign", |call| floats(call, |x| x / (1.0 + x.abs()))),
    ("", "Swish", swish),
    ("", "ThresholdedRelu", thresholded_relu),
];

/// An attribute as the `f32` that it is.
fn single(call: &HostCall<'_>, name: &str, default: f32) -> f64 {
    call.attribute(name).map_or(default, |attribute| attribute.f).into()
}

/// `1 / (1 + e^-x)`
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + e^x)`, which overflows nowhere.
fn softplus(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else {
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    }
}

fn positive<T: Number>(x: T) -> T {
    if x < T::ZERO { T::ZERO } else { x }
}

fn celu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = single(call, "alpha", 1.0);
    floats(call, |x| if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() })
}

fn elu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = single(call, "alpha", 1.0);
    floats(call, |x| if x > 0.0 { x } else { alpha * x.exp_m1() })
}

fn selu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    // Version 1 has fewer digits.
    let (alpha, gamma) = match call.opset {
        ..6 => (1.6732, 1.0507),
        _ => (1.673_263_2, 1.050_701),
    };
    let (alpha, gamma) = (single(call, "alpha", alpha), single(call, "gamma", gamma));
    floats(call, |x| gamma * if x > 0.0 { x } else { alpha * x.exp_m1() })
}

fn gelu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
    match call.text("approximate").as_deref() {
        None | Some("none") => floats(call, |x| 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))),
        Some("tanh") => floats(call, |x| {
            0.5 * x * (1.0 + (SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)).tanh())
        }),
        Some(other) => call.refused(format!("its attribute approximate is {other}, which is not known")),
    }
}

fn hard_sigmoid(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (alpha, beta) = (single(call, "alpha", 0.2), single(call, "beta", 0.5));
    floats(call, |x| (alpha * x + beta).clamp(0.0, 1.0))
}

fn leaky_relu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = single(call, "alpha", 0.01);
    floats(call, |x| if x < 0.0 { alpha * x } else { x })
}

fn swish(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = single(call, "alpha", 1.0);
    floats(call, |x| x * sigmoid(alpha * x))
}

fn thresholded_relu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let alpha = single(call, "alpha", 1.0);
    floats(call, |x| if x > alpha { x } else { 0.0 })
}

/// Negative numbers times slopes. Before version 7 the slopes are one for each channel, which is axis 1.
fn prelu(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, slope) = (call.tensor(0)?, call.tensor(1)?);
    let mut shape = slope.shape().to_vec();
    if call.opset < 7 && shape.len() == 1 && x.rank() > 2 {
        shape.resize(x.rank() - 1, 1);
    }
    let both = Broadcast::of([x.shape(), &shape])?;
    if both.shape() != x.shape() {
        return call.refused(format!(
            "slopes of the extents {shape:?} do not fit the extents {:?}",
            x.shape()
        ));
    }
    let pair = Pair { a: x, b: slope, both };
    let [x, slopes] = pair.numbers(call)?;
    let data: Data = each_wide!(&*x, all => {
        pair.both.map(all, same(call, all, &slopes)?, |x, slope| sloped(*x, *slope)).into()
    }, else return no_type(call, pair.a));
    one(pair.result(data)?)
}

fn sloped<T: Number>(x: T, slope: T) -> T {
    if x < T::ZERO { x.times(slope) } else { x }
}

/// Numbers nearer to zero by a bias; zero around it and of NaN.
fn shrink(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (bias, lambda) = (single(call, "bias", 0.0), single(call, "lambd", 0.5));
    unary!(call, each_number, |x| shrunk(x, bias, lambda))
}

fn shrunk<T: Number>(x: T, bias: f64, lambda: f64) -> T {
    let bias = match x.to_f64() {
        at if at < -lambda => bias,
        at if at > lambda => -bias,
        _ => return T::ZERO,
    };
    if !T::IS_FLOAT && bias.trunc() == bias {
        T::of_i128(x.to_i128().saturating_add(bias as i128))
    } else {
        T::cut(x.to_f64() + bias)
    }
}
