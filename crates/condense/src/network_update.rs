//! The update of the network on the synthetic images (line 13 of algorithm 1), and its loss on real images.

use crate::network::Network;
use crate::sgd::descend;
use crate::siamese::Strategy;
use crate::siamese_graph::Changes;
use crate::synthetic_set::SyntheticSet;
use lessen_base::SplitMix64;
use lessen_graph::{DType, Phase, Tensor};
use lessen_nn::{Cx, ParamSpec};
use lessen_train::gradients;

/// Data input with the numbers of the synthetic images of a batch, `i32[batch]`.
pub(crate) const CHOSEN: &str = "condensed.chosen";

/// Data input with their classes, `i32[batch]`.
pub(crate) const CLASSES: &str = "condensed.classes";

/// Data input with real images, `[batch, H, W, C]`.
pub(crate) const SEEN: &str = "condensed.seen";

/// Data input with the learning rate of the network, `f32[]`.
pub(crate) const NETWORK_RATE: &str = "condensed.network_rate";

/// Data input with the momentum of the network, `f32[]`: 0 in the first step of a network.
pub(crate) const NETWORK_MOMENTUM_RATE: &str = "condensed.network_momentum";

/// Result with the mean loss of a batch.
pub(crate) const LOSS: &str = "loss";

/// The key of dropout, if the network has any, in a run before which the random numbers are these. They stay what they
/// are.
pub(crate) fn dropout_key(random: &SplitMix64) -> [u32; 2] {
    let bits = random.clone().next_u64();
    [bits as u32, (bits >> 32) as u32]
}

/// Adds a step of the network on `batch` synthetic images by SGD with momentum; each image is changed as `augment`
/// says.
pub(crate) fn add_step(
    cx: Cx,
    network: &dyn Network,
    params: &[ParamSpec],
    (set, batch): (SyntheticSet, usize),
    augment: Option<Strategy>,
) -> Vec<(String, Tensor)> {
    let rows = set.chosen(cx, cx.input(CHOSEN, DType::I32, &[batch]));
    let seen = augment.map_or(rows.images, |strategy| {
        Changes::declare(cx, strategy, batch, set.shape).of_each(rows.images, 0)
    });
    let logits = network.logits(cx, seen);
    let loss = rows.loss(logits, cx.input(CLASSES, DType::I32, &[batch]));
    descend_all(cx, params, loss);
    vec![(LOSS.to_string(), loss)]
}

/// Adds a step of the network on `batch` real images of a shape by SGD with momentum; each image is changed as
/// `augment` says.
pub(crate) fn add_real_step(
    cx: Cx,
    network: &dyn Network,
    params: &[ParamSpec],
    (batch, shape): (usize, [usize; 3]),
    augment: Option<Strategy>,
) -> Vec<(String, Tensor)> {
    let images = cx.input(SEEN, DType::F32, &[&[batch][..], &shape].concat());
    let seen = augment.map_or(images, |strategy| {
        Changes::declare(cx, strategy, batch, shape).of_each(images, 0)
    });
    let labels = cx.input(CLASSES, DType::I32, &[batch]);
    let loss = network.logits(cx, seen).cross_entropy(labels);
    descend_all(cx, params, loss);
    vec![(LOSS.to_string(), loss)]
}

/// Adds the update of all parameters so that the loss falls.
fn descend_all(cx: Cx, params: &[ParamSpec], loss: Tensor) {
    let gradients = gradients(cx, params, loss);
    cx.trace().in_phase(Phase::Update, || {
        let rates = [NETWORK_RATE, NETWORK_MOMENTUM_RATE].map(|name| cx.input(name, DType::F32, &[]));
        for (param, tensor, gradient) in gradients {
            descend(cx, (&param.name, tensor), gradient, rates);
        }
    });
}

/// Adds the loss of real images.
pub(crate) fn add_loss(cx: Cx, network: &dyn Network, (batch, shape): (usize, [usize; 3])) -> Vec<(String, Tensor)> {
    let images = cx.input(SEEN, DType::F32, &[&[batch][..], &shape].concat());
    let labels = cx.input(CLASSES, DType::I32, &[batch]);
    vec![(LOSS.to_string(), network.logits(cx, images).cross_entropy(labels))]
}
