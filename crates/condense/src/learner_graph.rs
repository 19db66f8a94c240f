//! What a learner computes: a step of SGD on a batch of images, and the logits and features of a batch.

use crate::network::Network;
use crate::training::TrainingSettings;
use lessen_graph::{DType, Tensor};
use lessen_nn::{Cx, ParamSpec};
use lessen_train::Descent;

/// First part of the names of a learner.
pub(crate) const PREFIX: &str = "learner.";

/// Data input with the images of a batch, `[batch, H, W, C]`.
pub(crate) const BATCH: &str = "learner.images";

/// Data input with their classes, `i32[batch]`.
pub(crate) const CLASSES: &str = "learner.classes";

/// Data input with the probabilities of their classes, `f32[batch, classes]`.
pub(crate) const TARGETS: &str = "learner.targets";

/// Data input with the learning rate, `f32[]`.
pub(crate) const RATE: &str = "learner.rate";

/// Result with the mean loss of a batch.
pub(crate) const LOSS: &str = "loss";

/// Result with the logits, `[batch, classes]`.
pub(crate) const LOGITS: &str = "logits";

/// Result with the features, `[batch, width]`.
pub(crate) const FEATURES: &str = "features";

/// The state with the momentum of a parameter.
pub(crate) fn momentum_of(param: &str) -> String {
    format!("{PREFIX}momentum.{param}")
}

/// The images of a batch.
fn batch_of(cx: Cx, batch: usize, shape: [usize; 3]) -> Tensor {
    cx.input(BATCH, DType::F32, &[&[batch][..], &shape].concat())
}

/// Numbers that decide the graph of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepShape {
    /// Images of the batch.
    pub batch: usize,
    /// Whether labels are probabilities of all classes.
    pub is_soft: bool,
}

/// Adds a step by SGD with momentum and weight decay of all parameters, as `torch.optim.SGD`.
pub(crate) fn add_step(
    cx: Cx,
    network: &dyn Network,
    params: &[ParamSpec],
    StepShape { batch, is_soft }: StepShape,
    (shape, settings): ([usize; 3], &TrainingSettings),
) -> Vec<(String, Tensor)> {
    let logits = network.logits(cx, batch_of(cx, batch, shape));
    let loss = if is_soft {
        let targets = cx.input(TARGETS, DType::F32, &logits.shape());
        (logits.log_softmax() * targets).sum() * (-1.0 / batch as f64)
    } else {
        logits.cross_entropy(cx.input(CLASSES, DType::I32, &[batch]))
    };
    let descent = Descent {
        rate: RATE,
        momentum_of,
        momentum: settings.momentum,
        weight_decay: settings.weight_decay,
        clip: None,
    };
    descent.add(cx, params, loss);
    vec![(LOSS.to_string(), loss), (LOGITS.to_string(), logits)]
}

/// What is asked of a trained network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    /// The logits.
    Logits,
    /// The features that the last layer reads.
    Features,
}

impl Question {
    /// The name of the answer.
    pub fn result(self) -> &'static str {
        match self {
            Question::Logits => LOGITS,
            Question::Features => FEATURES,
        }
    }

    /// Adds the answer for a batch of images.
    pub fn add(self, cx: Cx, network: &dyn Network, (batch, shape): (usize, [usize; 3])) -> Vec<(String, Tensor)> {
        let outputs = network.forward(cx, batch_of(cx, batch, shape));
        let answer = match (self, outputs.features) {
            (Question::Features, Some(features)) => features,
            (Question::Features, None) => cx.trace().fail("the network tells no features"),
            (Question::Logits, _) => outputs.logits,
        };
        vec![(self.result().to_string(), answer)]
    }
}
