//! Steps of optimizers, as training operators of ONNX.

use lessen_base::Result;

use crate::operators::real::{Real, float_of, rounded};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[
    ("ai.onnx.preview.training", "Adagrad", adagrad),
    ("ai.onnx.preview.training", "Adam", adam),
    ("ai.onnx.preview.training", "Momentum", momentum),
];

/// Changes the parts of one tensor: itself, its gradient and its statistics.
type Step<'a> = &'a dyn Fn(&mut [f64]);

/// Applies a step to each element of each tensor. Inputs from the third on are all tensors, all gradients, and all of
/// each statistic; outputs are the same without gradients.
fn stepped(call: &HostCall<'_>, statistics: usize, step: Step<'_>) -> Result<Vec<HostValue>> {
    let parts = 2 + statistics;
    let tensors = call.inputs.len().saturating_sub(2);
    if tensors == 0 || !tensors.is_multiple_of(parts) {
        return call.refused(format!("it has {tensors} tensors, of which each takes {parts}"));
    }
    let each = tensors / parts;
    let mut outputs: Vec<Vec<HostTensor>> = (0..parts).map(|_| Vec::new()).collect();
    for i in 0..each {
        let given = (0..parts)
            .map(|part| call.tensor(2 + part * each + i))
            .collect::<Result<Vec<_>>>()?;
        let shape = given[0].shape();
        if given.iter().any(|tensor| tensor.shape() != shape) {
            return call.refused("the extents of a tensor and of what belongs to it differ");
        }
        let read = given.iter().map(|tensor| Ok(f64::read(tensor)?.into_owned()));
        let mut all = read.collect::<Result<Vec<Vec<f64>>>>()?;
        let mut element = vec![0.0; parts];
        for at in 0..given[0].len() {
            for (x, part) in element.iter_mut().zip(&all) {
                *x = part[at];
            }
            step(&mut element);
            for (x, part) in element.iter().zip(&mut all) {
                part[at] = *x;
            }
        }
        for ((all, tensor), outputs) in all.into_iter().zip(&given).zip(&mut outputs) {
            outputs.push(rounded(shape, all, float_of(tensor)?)?);
        }
    }
    outputs.remove(1);
    Ok(outputs.into_iter().flatten().map(HostValue::from).collect())
}

fn adagrad(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (rate, count) = (call.number(0)?, call.number(1)?);
    let rate = rate / (1.0 + count * call.float("decay_factor", 0.0));
    let (norm, epsilon) = (call.float("norm_coefficient", 0.0), call.float("epsilon", 1e-6));
    stepped(call, 1, &|x| {
        let gradient = norm * x[0] + x[1];
        x[2] += gradient * gradient;
        x[0] -= rate * gradient / (x[2].sqrt() + epsilon);
    })
}

fn adam(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (rate, count) = (call.number(0)?, call.number(1)?);
    let (alpha, beta) = (call.float("alpha", 0.9), call.float("beta", 0.999));
    let (norm, epsilon) = (call.float("norm_coefficient", 0.0), call.float("epsilon", 1e-6));
    let after = call.float("norm_coefficient_post", 0.0);
    let rate = if count > 0.0 {
        rate * (1.0 - beta.powf(count)).sqrt() / (1.0 - alpha.powf(count))
    } else {
        rate
    };
    stepped(call, 2, &|x| {
        let gradient = norm * x[0] + x[1];
        x[2] = alpha * x[2] + (1.0 - alpha) * gradient;
        x[3] = beta * x[3] + (1.0 - beta) * gradient * gradient;
        x[0] = (1.0 - after) * (x[0] - rate * x[2] / (x[3].sqrt() + epsilon));
    })
}

fn momentum(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (rate, count) = (call.number(0)?, call.number(1)?);
    let (alpha, norm) = (call.float("alpha", 0.0), call.float("norm_coefficient", 0.0));
    let beta = if count > 0.0 { call.float("beta", 0.0) } else { 1.0 };
    let is_nesterov = match call.text("mode").as_deref() {
        Some("standard") => false,
        Some("nesterov") => true,
        _ => return call.refused("its mode is neither standard nor nesterov"),
    };
    stepped(call, 1, &|x| {
        let gradient = norm * x[0] + x[1];
        x[2] = alpha * x[2] + beta * gradient;
        let direction = if is_nesterov { gradient + alpha * x[2] } else { x[2] };
        x[0] -= rate * direction;
    })
}
