//! The updates of a search as graphs: of the weights on training images, and of the architecture on validation images.

use crate::gates::Gates;
use crate::settings::Settings;
use crate::space::Space;
use crate::variables::Variables;
use lessen_graph::ops::Adam;
use lessen_graph::{DType, Phase, Tensor, vjp};
use lessen_nn::{Cx, ParamSpec};
use lessen_train::Descent;
use std::collections::BTreeMap;

/// State with the logits of the choices, `f32[logits]`.
pub const LOGITS: &str = "search.logits";

/// States with the moments of the logits.
pub(crate) const MOMENTS: [&str; 2] = ["search.logits.mean", "search.logits.square"];

/// Data input with the images of a batch, `[N, H, W, C]`: those on which the weights are trained.
pub const IMAGES: &str = "search.images";

/// Data input with the shares of their classes, `f32[N, classes]`.
pub const TARGETS: &str = "search.targets";

/// Data input with the images on which the architecture is updated.
pub const VALIDATION_IMAGES: &str = "search.validation_images";

/// Data input with the shares of their classes.
pub const VALIDATION_TARGETS: &str = "search.validation_targets";

/// Data input with numbers of the Gumbel distribution, `f32[samples, logits]`.
pub const NOISE: &str = "search.noise";

/// Data input with the inverse of the temperature, `f32[]`.
pub const INVERSE_TEMPERATURE: &str = "search.inverse_temperature";

/// Data input with the learning rate of the weights, `f32[]`.
pub const WEIGHT_RATE: &str = "search.weight_rate";

/// Data input with the learning rate of the logits, `f32[]`.
pub const LOGIT_RATE: &str = "search.logit_rate";

/// Data input with the number of the update of the logits, from 1, `f32[]`.
pub const LOGIT_STEP: &str = "search.logit_step";

/// Data input with the derivative of the cost by the logits, which is added to that of the loss, `f32[logits]`.
pub const COST_GRADIENT: &str = "search.cost_gradient";

/// Result with the mean loss.
pub const LOSS: &str = "loss";

/// Result with the logits of the classes, `[N, classes]`.
pub(crate) const CLASS_LOGITS: &str = "class_logits";

/// Result with the derivative of the loss by the logits of the choices.
pub const GRADIENT: &str = "gradient";

/// State with the momentum of a weight.
pub(crate) fn momentum_of(param: &str) -> String {
    format!("search.momentum.{param}")
}

/// The graphs of a search for images of a shape and number of classes.
pub(crate) struct Steps<'a> {
    pub space: &'a Space,
    pub variables: &'a Variables,
    pub settings: &'a Settings,
    pub shape: [usize; 3],
    pub classes: usize,
}

/// The cross entropy of logits `[N, classes]` with shares of classes.
#[track_caller]
pub(crate) fn soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor {
    (logits.log_softmax() * targets).sum() * (-1.0 / logits.dim(0) as f64)
}

impl Steps<'_> {
    /// A batch of images and shares of classes.
    fn batch(&self, cx: Cx, [images, targets]: [&str; 2]) -> [Tensor; 2] {
        let batch = self.settings.batch;
        [
            cx.input(images, DType::F32, &[&[batch][..], &self.shape].concat()),
            cx.input(targets, DType::F32, &[batch, self.classes]),
        ]
    }

    /// The shares of each sample.
    fn gates(&self, cx: Cx, samples: usize) -> (Tensor, Vec<Gates>) {
        let count = self.variables.len();
        let logits = cx.trace().state(LOGITS, DType::F32, &[count]);
        let noise = cx.input(NOISE, DType::F32, &[samples, count]);
        let inverse = cx.input(INVERSE_TEMPERATURE, DType::F32, &[]);
        let sample = |number| {
            let own = noise.slice(0, number, 1).reshape(&[count]);
            Gates::sampled(self.variables, logits, own, inverse)
        };
        (logits, (0..samples).map(sample).collect())
    }

    /// The logits of the classes, and the loss.
    fn loss(&self, cx: Cx, [images, targets]: [Tensor; 2], gates: &Gates) -> [Tensor; 2] {
        let logits = self
            .space
            .supernet(cx, images, (self.classes, self.settings.spread), gates);
        [logits, soft_cross_entropy(logits, targets)]
    }

    /// Adds an update of the weights by SGD.
    pub fn add_weights(&self, cx: Cx, params: &[ParamSpec]) -> Vec<(String, Tensor)> {
        let batch = self.batch(cx, [IMAGES, TARGETS]);
        let (_, gates) = self.gates(cx, 1);
        let [_, loss] = self.loss(cx, batch, &gates[0]);
        add_descent(cx, params, loss, self.settings);
        vec![(LOSS.to_string(), loss)]
    }

    /// Adds an update of the logits by Adam (equations 2.32 to 2.34).
    pub fn add_architecture(&self, cx: Cx, params: &[ParamSpec]) -> Vec<(String, Tensor)> {
        let batch = self.batch(cx, [VALIDATION_IMAGES, VALIDATION_TARGETS]);
        let (logits, gates) = self.gates(cx, self.settings.samples);
        let (settings, trace) = (self.settings, cx.trace());
        let (mut losses, mut class_logits) = (Vec::new(), None);
        for gates in &gates {
            let moved = if settings.unrolled {
                let training = self.batch(cx, [IMAGES, TARGETS]);
                cx.with_values(self.unrolled(cx, params, training, gates))
            } else {
                cx
            };
            let [answer, loss] = self.loss(moved, batch, gates);
            class_logits.get_or_insert(answer);
            losses.push(loss);
        }
        let count = losses.len() as f64;
        let total = losses.into_iter().reduce(|a, b| a + b);
        let loss = total.unwrap_or_else(|| trace.full(DType::F32, &[], 0.0)) * (1.0 / count);
        let gradient = loss.grad(&[logits])[0];
        trace.in_phase(Phase::Update, || {
            let of_cost = cx.input(COST_GRADIENT, DType::F32, &[self.variables.len()]);
            let scalar = |name: &str| cx.input(name, DType::F32, &[]);
            let rule = Adam {
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: settings.logit_decay,
            };
            let [mean, square] = MOMENTS.map(|name| trace.state(name, DType::F32, &logits.shape()));
            let inputs = [
                logits,
                gradient + of_cost,
                mean,
                square,
                scalar(LOGIT_RATE),
                scalar(LOGIT_STEP),
            ];
            let new = trace.apply(rule, &inputs);
            for (state, value) in [logits, mean, square].into_iter().zip(new) {
                trace.assign(state, value);
            }
        });
        let answers = class_logits.map(|answer| (CLASS_LOGITS.to_string(), answer));
        let results = [(LOSS.to_string(), loss), (GRADIENT.to_string(), gradient)];
        results.into_iter().chain(answers).collect()
    }

    /// The weights after one step of gradient descent on a batch (equation 2.31), as functions of the logits.
    fn unrolled(&self, cx: Cx, params: &[ParamSpec], batch: [Tensor; 2], gates: &Gates) -> BTreeMap<String, Tensor> {
        let [_, loss] = self.loss(cx, batch, gates);
        let tensors = declared(cx, params);
        let rate = cx.input(WEIGHT_RATE, DType::F32, &[]);
        // The gradient belongs to the forward phase: the derivative by the logits is backward.
        let gradients = vjp(&[loss], &[Some(loss.full_like(1.0))], &tensors);
        let moved = tensors
            .into_iter()
            .zip(gradients)
            .map(|(tensor, gradient)| match gradient {
                Some(gradient) => tensor - gradient * rate,
                None => tensor,
            });
        params.iter().map(|param| param.name.clone()).zip(moved).collect()
    }
}

/// The weights as tensors.
fn declared(cx: Cx, params: &[ParamSpec]) -> Vec<Tensor> {
    let of = |param: &ParamSpec| cx.param(&param.name, &param.shape, param.init);
    params.iter().map(of).collect()
}

/// Adds an update of the weights by SGD so that a loss falls.
pub(crate) fn add_descent(cx: Cx, params: &[ParamSpec], loss: Tensor, settings: &Settings) {
    let descent = Descent {
        rate: WEIGHT_RATE,
        momentum_of,
        momentum: settings.weight_momentum,
        weight_decay: settings.weight_decay,
        clip: Some(settings.clip),
    };
    descent.add(cx, params, loss);
}
