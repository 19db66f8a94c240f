//! Activations of recurrent networks.

use lessen_base::Result;

use crate::operators::real::Real;
use lessen_onnx::host::HostCall;

/// A function of a gate or a state.
#[derive(Clone, Copy)]
pub(super) struct Activation<R> {
    kind: ActivationKind,
    alpha: R,
    beta: R,
}

#[derive(Clone, Copy)]
enum ActivationKind {
    Affine,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    ScaledTanh,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu,
}

/// Names of functions, each with the parameters that it has where a node gives none. What ONNX says of the threshold is
/// not what ONNX Runtime takes, so it has to be given.
const NAMES: [(&str, ActivationKind, [Parameter; 2]); 11] = {
    use Parameter::{Default, Given, Without};
    [
        ("affine", ActivationKind::Affine, [Given, Given]),
        ("elu", ActivationKind::Elu, [Default(1.0), Without]),
        ("hardsigmoid", ActivationKind::HardSigmoid, [Default(0.2), Default(0.5)]),
        ("leakyrelu", ActivationKind::LeakyRelu, [Default(0.01), Without]),
        ("relu", ActivationKind::Relu, [Without, Without]),
        ("scaledtanh", ActivationKind::ScaledTanh, [Given, Given]),
        ("sigmoid", ActivationKind::Sigmoid, [Without, Without]),
        ("softplus", ActivationKind::Softplus, [Without, Without]),
        ("softsign", ActivationKind::Softsign, [Without, Without]),
        ("tanh", ActivationKind::Tanh, [Without, Without]),
        ("thresholdedrelu", ActivationKind::ThresholdedRelu, [Given, Without]),
    ]
};

/// A parameter of a function.
#[derive(Clone, Copy)]
enum Parameter {
    Without,
    Given,
    Default(f64),
}

/// The functions of all directions, `defaults` in each where the node names none.
///
/// # Errors
/// A number of names that does not fit, a function that is not known, a parameter that is missing.
pub(super) fn activations<R: Real>(
    call: &HostCall<'_>,
    directions: usize,
    defaults: &[&str],
) -> Result<Vec<Activation<R>>> {
    let names: Vec<String> = match call.attribute("activations") {
        Some(attribute) if !attribute.strings.is_empty() => {
            let texts = attribute.strings.iter();
            texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect()
        }
        _ => {
            let each = (0..directions).flat_map(|_| defaults);
            each.map(|name| name.to_string()).collect()
        }
    };
    let count = defaults.len() * directions;
    if names.len() != count {
        return call.refused(format!("it has {} activations, not {count}", names.len()));
    }
    let alphas = call.floats("activation_alpha").unwrap_or_default();
    let betas = call.floats("activation_beta").unwrap_or_default();
    let (mut alphas, mut betas) = (alphas.into_iter(), betas.into_iter());
    let mut all = Vec::with_capacity(count);
    for name in &names {
        let lower = name.to_lowercase();
        let Some((_, kind, [alpha, beta])) = NAMES.iter().find(|(known, ..)| *known == lower) else {
            return call.refused(format!("the activation {name} is not known"));
        };
        let parameter = |parameter: &Parameter, given: &mut std::vec::IntoIter<f32>| match parameter {
            Parameter::Without => Some(0.0),
            Parameter::Given => given.next().map(f64::from),
            Parameter::Default(default) => Some(given.next().map_or(*default, f64::from)),
        };
        let (Some(alpha), Some(beta)) = (parameter(alpha, &mut alphas), parameter(beta, &mut betas)) else {
            return call.refused(format!("the activation {name} has no parameters"));
        };
        all.push(Activation {
            kind: *kind,
            alpha: R::of_f64(alpha),
            beta: R::of_f64(beta),
        });
    }
    Ok(all)
}

impl<R: Real> Activation<R> {
    /// The function of a number.
    pub fn of(self, x: R) -> R {
        let (zero, one) = (R::ZERO, R::ONE);
        let positive = |x: R| if x > zero { x } else { zero };
        match self.kind {
            ActivationKind::Affine => self.alpha * x + self.beta,
            ActivationKind::Elu if x < zero => self.alpha * (x.exp() - one),
            ActivationKind::Elu => x,
            ActivationKind::HardSigmoid => {
                let line = positive(self.alpha * x + self.beta);
                if line > one { one } else { line }
            }
            ActivationKind::LeakyRelu if x < zero => self.alpha * x,
            ActivationKind::LeakyRelu => x,
            ActivationKind::Relu => positive(x),
            ActivationKind::ScaledTanh => self.alpha * (self.beta * x).tanh(),
            ActivationKind::Sigmoid if x < zero => x.exp() / (one + x.exp()),
            ActivationKind::Sigmoid => one / (one + (-x).exp()),
            ActivationKind::Softplus => positive(x) + (one + (-x.abs()).exp()).ln(),
            ActivationKind::Softsign => x / (one + x.abs()),
            ActivationKind::Tanh => x.tanh(),
            ActivationKind::ThresholdedRelu if x > self.alpha => x,
            ActivationKind::ThresholdedRelu => zero,
        }
    }
}
