//! The models, one per file.

pub mod bert;
pub(crate) mod class;
pub(crate) mod configuration;
pub mod decoder;
mod decoder_cache;
pub mod encoder;
pub mod gpt2;
pub mod gpt_neox;
pub mod gptj;
pub mod linear;
pub mod llama;
pub mod onnx;
pub mod vision;
pub mod vit;

use lessen_graph::{DType, Tensor};

pub use crate::batch::BatchShape;
use crate::context::Cx;
use crate::loss::{cross_entropy, cross_entropy_of_shares, or_one};
use crate::names;
use crate::observations;

/// The outputs of a model.
#[derive(Clone, Copy, Debug)]
pub struct Outputs {
    /// Mean loss over the labels, `f32[]`.
    pub loss: Tensor,
    /// Logits, as softmax takes them: `f32[B, classes]`, or `f32[B, T, vocabulary]` of all tokens (`f32[M, vocabulary]`
    /// of masked ones in a batch of [`BatchShape::Masked`]); for a regression the prediction `f32[B]`.
    pub logits: Tensor,
}

/// Logits, `f32[.., classes]`, and their cross entropy over `labels` (`i32[..]`, -100 where there is none), by weights
/// (`f32[..]`) where there are some.
fn class_loss(cx: Cx, logits: Tensor, labels: Tensor, weights: Option<Tensor>) -> Outputs {
    observations::logits(cx, logits, || labels.ne(labels.scalar_like(observations::NO_LABEL)));
    Outputs {
        loss: cross_entropy(cx, logits, labels, weights),
        logits,
    }
}

/// The sum of weights as a divisor, 1 where there is no example: of examples that count alike their number.
fn count_of(cx: Cx, weights: Tensor) -> Tensor {
    if cx.criterion().weighs_examples {
        or_one(weights.sum())
    } else {
        weights.sum().maximum(weights.scalar_like(1.0))
    }
}

/// The loss of a classifier: cross entropy over `labels` (`i32[B]`, -100 for a row without a label), by `weights`
/// (`f32[B]`) where the context's [`Criterion`](crate::Criterion) weighs examples.
///
/// With one class it is a regression, as in transformers: the mean of `weights · (prediction - targets)²` over
/// `targets` and `weights` (both `f32[B]`), where the weight is 1 for an example and 0 for a padding row.
///
/// Where texts can have several labels it is the binary cross entropy of each label, as in transformers: the mean of
/// `max(z, 0) - z y + ln(1 + e^-|z|)` over classes and, with `weights`, rows, for `targets` `y` (`f32[B, classes]`, 1
/// where the text has the label).
///
/// Where examples are mixed it is the cross entropy over their shares of the classes, `targets` (`f32[B, classes]`), by
/// `weights`.
pub(crate) fn classifier_loss(cx: Cx, batch: BatchShape, logits: Tensor, multi_label: bool) -> Outputs {
    if batch.is_mixed() {
        let targets = cx.input(names::TARGETS, DType::F32, &[batch.size(), logits.dim(-1)]);
        let weights = cx.input(names::WEIGHTS, DType::F32, &[batch.size()]);
        observations::logits(cx, logits, || weights.gt(weights.scalar_like(0.0)));
        return Outputs {
            loss: cross_entropy_of_shares(cx, logits, targets, weights),
            logits,
        };
    }
    if multi_label {
        let targets = cx.input(names::TARGETS, DType::F32, &[batch.size(), logits.dim(-1)]);
        let weights = cx.input(names::WEIGHTS, DType::F32, &[batch.size()]);
        let zero = logits.scalar_like(0.0);
        let losses = logits.maximum(zero) - logits * targets + ((-logits.maximum(-logits)).exp() + 1.0).log();
        let count = count_of(cx, weights);
        let losses = losses.mean_axes(&[1]);
        return Outputs {
            loss: (losses * weights).sum() / count,
            logits,
        };
    }
    if logits.dim(-1) > 1 {
        let labels = cx.input(names::LABELS, DType::I32, &[batch.size()]);
        let is_weighted = cx.criterion().weighs_examples;
        let weights = is_weighted.then(|| cx.input(names::WEIGHTS, DType::F32, &[batch.size()]));
        return class_loss(cx, logits, labels, weights);
    }
    let prediction = logits.reshape(&[batch.size()]);
    let targets = cx.input(names::TARGETS, DType::F32, &[batch.size()]);
    let weights = cx.input(names::WEIGHTS, DType::F32, &[batch.size()]);
    let error = prediction - targets;
    let count = count_of(cx, weights);
    Outputs {
        loss: (error * error * weights).sum() / count,
        logits: prediction,
    }
}
