//! The models, each reading from top to bottom like its paper.

pub mod bert;
pub mod encoder;
pub mod gpt2;
pub mod gpt2_cache;

use lessen_graph::{DType, Tensor};

use crate::context::Context;

/// The extent of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchShape {
    /// Sequences, `B`.
    pub size: usize,
    /// Tokens of each sequence, padding included, `T`.
    pub length: usize,
}

impl BatchShape {
    /// `[B, T]`
    pub fn tokens(self) -> [usize; 2] {
        [self.size, self.length]
    }
}

/// What a model computes.
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'g> {
    /// The mean loss over what is to be predicted, `f32[]`.
    pub loss: Tensor<'g>,
    /// Scores before the softmax: `f32[B, classes]` or `f32[B, T, vocabulary]`; for regression the prediction
    /// `f32[B]`.
    pub logits: Tensor<'g>,
}

/// The loss of a classifier over `labels` (`i32[B]`, -100 for a row that does not count), or where there is
/// one class only, as in transformers, of a regression: the mean squared error over `targets` (`f32[B]`),
/// each row counting as often as `weights` (`f32[B]`) says; a row that only fills up the batch has weight 0,
/// the others 1.
fn classifier_loss<'g>(cx: &Context<'g>, batch: BatchShape, logits: Tensor<'g>) -> Outputs<'g> {
    if logits.dim(-1) > 1 {
        let labels = cx.input("labels", DType::I32, &[batch.size]);
        return Outputs {
            loss: logits.cross_entropy(labels),
            logits,
        };
    }
    let prediction = logits.reshape(&[batch.size]);
    let targets = cx.input("targets", DType::F32, &[batch.size]);
    let weights = cx.input("weights", DType::F32, &[batch.size]);
    let error = prediction - targets;
    let count = weights.sum().maximum(weights.scalar_like(1.0));
    Outputs {
        loss: (error * error * weights).sum() / count,
        logits: prediction,
    }
}
