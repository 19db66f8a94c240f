//! Convolutions with the addition and the activation that follow them, as ONNX Runtime writes optimized models.

use lessen_base::Result;

use super::convolution::convolved;
use crate::operators::real::{Real, in_real};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[("com.microsoft", "FusedConv", fused_conv)];

fn fused_conv(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, fused_conv_of)
}

/// `FusedConv(X, W, B, Z)`: the activation of `Conv(X, W, B) + Z`.
fn fused_conv_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let activation = Activation::of(call)?;
    let (shape, mut y, element) = convolved::<R>(call)?;
    if let Some(z) = call.optional(3)? {
        if z.shape() != shape || z.element() != Some(element) {
            return call.refused(format!(
                "its input 3 has the extents {:?} instead of {shape:?}",
                z.shape()
            ));
        }
        let z = R::elements(z.data());
        y.iter_mut().zip(z.iter()).for_each(|(y, z)| *y += *z);
    }
    y.iter_mut()
        .for_each(|y| *y = R::of_f64(activation.of_number(y.to_f64())));
    one(HostTensor::new(&shape, R::store(y, element))?)
}

/// A function of single numbers, with its parameters.
enum Activation {
    Identity,
    Relu,
    Tanh,
    Sigmoid,
    LeakyRelu(f64),
    Clip(f64, f64),
    HardSigmoid(f64, f64),
}

impl Activation {
    /// The attributes `activation` and `activation_params`.
    fn of(call: &HostCall<'_>) -> Result<Activation> {
        let parameters = call.floats("activation_params").unwrap_or_default();
        let name = call.text("activation").unwrap_or_default();
        Ok(match (&*name, &parameters[..]) {
            ("", []) => Activation::Identity,
            ("Relu", []) => Activation::Relu,
            ("Tanh", []) => Activation::Tanh,
            ("Sigmoid", []) => Activation::Sigmoid,
            ("LeakyRelu", [alpha]) => Activation::LeakyRelu((*alpha).into()),
            ("Clip", [low, high]) => Activation::Clip((*low).into(), (*high).into()),
            ("HardSigmoid", [alpha, beta]) => Activation::HardSigmoid((*alpha).into(), (*beta).into()),
            _ => return call.refused(format!("its activation `{name}` with {parameters:?} is not known")),
        })
    }

    fn of_number(&self, x: f64) -> f64 {
        match self {
            _ if x.is_nan() => x,
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::LeakyRelu(alpha) if x < 0.0 => x * alpha,
            Activation::LeakyRelu(_) => x,
            Activation::Clip(low, high) => x.max(*low).min(*high),
            Activation::HardSigmoid(alpha, beta) => (x * alpha + beta).clamp(0.0, 1.0),
        }
    }
}
