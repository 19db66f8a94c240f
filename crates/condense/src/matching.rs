//! Gradient matching as graphs: the gradients of the synthetic images of a class, their distance from those of real
//! images, its derivative by the images, and their update (lines 5 to 10 of algorithm 1).
//!
//! Each graph is for one class, whose number is an input, so the memory and the time of compiling do not grow with the
//! number of classes. The gradients of all classes together (equation 2.5) are a mean over the graphs of the classes:
//! [`Matching::add_mean`] makes it first. The derivative of their distance by the gradients of one class is then the
//! same for all classes, and enters the graph of a class as a linear term beside the distance of the class.

use crate::distance::Distance;
use crate::network::{Network, matched};
use crate::siamese::Strategy;
use crate::siamese_graph::Changes;
use crate::synthetic_set::{SetPart, SyntheticSet};
use lessen_graph::{DType, Phase, Tensor, concat};
use lessen_nn::{Cx, ParamSpec};

/// Data input with the number of the class, `i32[1]`.
pub(crate) const CLASS: &str = "condensed.class";

/// Data input that is 0 for the first class and 1 for others, `f32[]`.
pub(crate) const KEEP_SYNTHETIC: &str = "condensed.keep_synthetic";

/// Result with the distances of the gradients of the class, one for each matched parameter, `f32[parameters]`.
pub(crate) const INTRA: &str = "intra";

/// Result with the distances of the gradients of all classes together, one for each matched parameter.
pub(crate) const INTER: &str = "inter";

/// State with the gradients of a parameter by the real images of each class, `[classes, elements]`.
pub(crate) fn of_classes(param: &str) -> String {
    format!("condensed.real.{param}")
}

/// State with the gradient of a parameter by the real images of all classes.
pub(crate) fn of_all(param: &str) -> String {
    format!("condensed.real_mean.{param}")
}

/// State with the gradient of a parameter by the synthetic images of all classes.
fn of_synthetic(param: &str) -> String {
    format!("condensed.synthetic_mean.{param}")
}

/// Numbers that decide the graphs of an update of the images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Matching {
    /// The synthetic set.
    pub set: SyntheticSet,
    /// How real and synthetic images of a class are changed alike.
    pub augment: Option<Strategy>,
    /// Distance of gradients.
    pub distance: Distance,
    /// Weight of the gradients of each class; they are left out if `None`.
    pub intra: Option<f64>,
    /// Weight of the gradients of all classes together; they are left out if `None`.
    pub inter: Option<f64>,
}

/// The matched parameters of the network.
pub(crate) fn weights_of(cx: Cx, params: &[ParamSpec]) -> Vec<Tensor> {
    let declared = matched(params).map(|param| cx.param(&param.name, &param.shape, param.init));
    declared.collect()
}

/// The class of `count` images of one class, `i32[count]`.
pub(crate) fn labels_of(class: Tensor, count: usize) -> Tensor {
    class.broadcast_to(&[count])
}

/// The number of a class as an index, `i32[]`.
pub(crate) fn class_index(class: Tensor) -> Tensor {
    class.reshape(&[])
}

impl Matching {
    /// Images of a class, changed as the siamese augmentation says.
    pub fn changed(&self, cx: Cx, images: Tensor) -> Tensor {
        match self.augment {
            Some(strategy) => Changes::declare(cx, strategy, 1, self.set.shape).of_batch(images, 0),
            None => images,
        }
    }

    /// The synthetic images of a class, and the gradients of their loss by the matched parameters.
    fn gradients(&self, cx: Cx, network: &dyn Network, weights: &[Tensor], class: Tensor) -> (SetPart, Vec<Tensor>) {
        let rows = self.set.of_class(cx, class);
        let logits = network.logits(cx, self.changed(cx, rows.images));
        let loss = rows.loss(logits, labels_of(class, self.set.per_class));
        (rows, loss.grad(weights))
    }

    /// Adds the gradients of the synthetic images of a class to their mean over all classes.
    pub fn add_mean(&self, cx: Cx, network: &dyn Network, params: &[ParamSpec]) -> Vec<(String, Tensor)> {
        let class = cx.input(CLASS, DType::I32, &[1]);
        let (_, gradients) = self.gradients(cx, network, &weights_of(cx, params), class);
        cx.trace().in_phase(Phase::Update, || {
            let keep = cx.input(KEEP_SYNTHETIC, DType::F32, &[]);
            for (param, gradient) in matched(params).zip(gradients) {
                let state = cx.trace().state(&of_synthetic(&param.name), DType::F32, &param.shape);
                let part = gradient * (1.0 / self.set.classes as f64);
                cx.trace().assign(state, state * keep + part);
            }
        });
        Vec::new()
    }

    /// Adds the update of the images of a class, and returns the distances.
    pub fn add(&self, cx: Cx, network: &dyn Network, params: &[ParamSpec]) -> Vec<(String, Tensor)> {
        let trace = cx.trace();
        let class = cx.input(CLASS, DType::I32, &[1]);
        let (rows, gradients) = self.gradients(cx, network, &weights_of(cx, params), class);
        let (mut results, mut terms) = (Vec::new(), Vec::new());
        if let Some(weight) = self.intra {
            let distances: Vec<Tensor> = matched(params)
                .zip(&gradients)
                .map(|(param, gradient)| {
                    let table = [self.set.classes, param.shape.iter().product()];
                    let real = trace.state(&of_classes(&param.name), DType::F32, &table);
                    let real = real.gather(class).reshape(&param.shape);
                    self.distance.of_layer(*gradient, real) * weight
                })
                .collect();
            results.push((INTRA.to_string(), vector(&distances)));
            terms.extend(distances);
        }
        if let Some(weight) = self.inter {
            let distances: Vec<Tensor> = matched(params)
                .zip(&gradients)
                .map(|(param, gradient)| {
                    let state = |name: String| trace.state(&name, DType::F32, &param.shape);
                    let synthetic = state(of_synthetic(&param.name));
                    let distance = self.distance.of_layer(synthetic, state(of_all(&param.name))) * weight;
                    let slope = distance.grad(&[synthetic])[0] * (1.0 / self.set.classes as f64);
                    terms.push((*gradient * slope).sum());
                    distance
                })
                .collect();
            results.push((INTER.to_string(), vector(&distances)));
        }
        let total = terms.into_iter().reduce(|a, b| a + b);
        let total = total.unwrap_or_else(|| trace.full(DType::F32, &[], 0.0));
        self.set.update_class(cx, (class, rows), total);
        results
    }
}

/// Scalars as a vector.
fn vector(scalars: &[Tensor]) -> Tensor {
    let rows: Vec<Tensor> = scalars.iter().map(|scalar| scalar.reshape(&[1])).collect();
    concat(&rows, 0)
}
