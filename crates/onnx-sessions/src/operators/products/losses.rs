//! Losses of classes.

use lessen_base::{Error, Result};

use super::sizes::around;
use super::softmax::{for_each_line, log_soft};
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "NegativeLogLikelihoodLoss", negative_log_likelihood),
    ("", "SoftmaxCrossEntropyLoss", softmax_cross_entropy),
];

fn negative_log_likelihood(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    fn of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
        let loss = loss::<R>(call, tensor, &R::read(tensor)?)?;
        Ok(vec![loss.into()])
    }
    let tensor = call.tensor(0)?;
    in_reals!(tensor, of(call, tensor))
}

fn softmax_cross_entropy(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    fn of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
        if tensor.rank() < 2 {
            return call.refused("its scores have no axis of classes");
        }
        let (_, classes, inner) = around(tensor.shape(), 1);
        let mut logs = R::read(tensor)?.into_owned();
        for_each_line(&mut logs, classes, inner, log_soft);
        let loss = loss::<R>(call, tensor, &logs)?;
        Ok(vec![
            loss.into(),
            rounded(tensor.shape(), logs, float_of(tensor)?)?.into(),
        ])
    }
    let tensor = call.tensor(0)?;
    in_reals!(tensor, of(call, tensor))
}

/// The reduced loss of logarithms of probabilities with the extents of `tensor`: batch, classes, other axes.
fn loss<R: Real>(call: &HostCall<'_>, tensor: &HostTensor, logs: &[R]) -> Result<HostTensor> {
    let [batch, classes, rest @ ..] = tensor.shape() else {
        return call.refused("its scores have no axis of classes");
    };
    let labels = call.tensor(1)?;
    if labels.shape().split_first() != Some((batch, rest)) {
        let (given, scores) = (labels.shape(), tensor.shape());
        return call.refused(format!(
            "labels of extents {given:?} do not fit scores of extents {scores:?}"
        ));
    }
    let labels_shape = labels.shape();
    let labels = call.integers(1)?;
    let weights = match call.optional(2)? {
        Some(weights) if weights.shape() == [*classes] => Some(R::read(weights)?),
        Some(_) => return call.refused("its weights are not one for each class"),
        None => None,
    };
    let ignored = call.attribute("ignore_index").map(|attribute| attribute.i);
    let inner = rest
        .iter()
        .fold(1, |count: usize, extent| count.saturating_mul(*extent));
    let mut losses = Vec::with_capacity(labels.len());
    let mut total = 0.0;
    for (at, label) in labels.into_iter().enumerate() {
        if Some(label) == ignored {
            losses.push(R::ZERO);
            continue;
        }
        let class = usize::try_from(label).ok().filter(|class| class < classes);
        let class = class.ok_or_else(|| Error::user(format!("the label {label} is none of {classes} classes")))?;
        let weight = weights.as_ref().map_or(R::ONE, |weights| weights[class]);
        let place = (at / inner * classes + class) * inner + at % inner;
        total += weight.to_f64();
        losses.push(-logs[place] * weight);
    }
    let element = float_of(tensor)?;
    let sum = || losses.iter().fold(0.0, |sum, loss| sum + loss.to_f64());
    match call.text("reduction").as_deref().unwrap_or("mean") {
        "none" => rounded(labels_shape, losses, element),
        "sum" => rounded(&[], vec![R::of_f64(sum())], element),
        "mean" => rounded(&[], vec![R::of_f64(sum() / total)], element),
        other => call.refused(format!("its reduction {other} is not known")),
    }
}
