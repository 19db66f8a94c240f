//! The models, one per file.

pub mod bert;
pub mod encoder;
pub mod gpt2;
pub mod gpt2_cache;

use lessen_graph::{DType, Tensor};

pub use crate::batch::BatchShape;
use crate::context::Context;
use crate::observations;

/// The outputs of a model.
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'g> {
    /// Mean loss over the labels, `f32[]`.
    pub loss: Tensor<'g>,
    /// Logits, as softmax takes them: `f32[B, classes]`, or `f32[B, T, vocabulary]` of all tokens (`f32[M, vocabulary]`
    /// of masked ones in a batch of [`BatchShape::Masked`]); for a regression the prediction `f32[B]`.
    pub logits: Tensor<'g>,
}

/// Logits, `f32[.., classes]`, and their cross entropy over `labels` (`i32[..]`, -100 where there is none).
fn class_loss<'g>(cx: &Context<'g>, logits: Tensor<'g>, labels: Tensor<'g>) -> Outputs<'g> {
    observations::logits(cx, logits, labels);
    Outputs {
        loss: logits.cross_entropy(labels),
        logits,
    }
}

/// The loss of a classifier: cross entropy over `labels` (`i32[B]`, -100 for a row without a label).
///
/// With one class it is a regression, as in transformers: the mean of `weights · (prediction - targets)²` over
/// `targets` and `weights` (both `f32[B]`), where the weight is 1 for an example and 0 for a padding row.
fn classifier_loss<'g>(cx: &Context<'g>, batch: BatchShape, logits: Tensor<'g>) -> Outputs<'g> {
    if logits.dim(-1) > 1 {
        let labels = cx.input("labels", DType::I32, &[batch.size()]);
        return class_loss(cx, logits, labels);
    }
    let prediction = logits.reshape(&[batch.size()]);
    let targets = cx.input("targets", DType::F32, &[batch.size()]);
    let weights = cx.input("weights", DType::F32, &[batch.size()]);
    let error = prediction - targets;
    let count = weights.sum().maximum(weights.scalar_like(1.0));
    Outputs {
        loss: (error * error * weights).sum() / count,
        logits: prediction,
    }
}
