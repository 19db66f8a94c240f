//! A student in a graph: its training on the synthetic images, step after step, its distance from an expert, and the
//! update of the images (Cazenavette et al. 2022, algorithm 1).
//!
//! The parameters of a step are one vector, so that they alone lead from a step to the next: the memory planner cuts
//! the graph there, and computes a step anew for its derivative where memory is short.

use crate::network::Network;
use crate::siamese::Strategy;
use crate::siamese_graph::Changes;
use crate::synthetic_set::SyntheticSet;
use lessen_graph::{DType, Tensor, concat, vjp};
use lessen_nn::{Cx, ParamSpec};
use std::collections::BTreeMap;

/// Data input with the numbers of the synthetic images of each step, `i32[steps, batch]`.
pub(crate) const CHOSEN: &str = "condensed.chosen";

/// Data input with their classes, `i32[steps, batch]`.
pub(crate) const CLASSES: &str = "condensed.classes";

/// State with the parameters that the student is to reach, one after another, `f32[elements]`.
pub(crate) const TARGET: &str = "condensed.target";

/// Result with the squared distance of the student from the target, as a part of that of its beginning, `f32[]`.
pub(crate) const DISTANCE: &str = "distance";

/// Numbers that decide the graph of a student.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Student {
    /// The synthetic set.
    pub set: SyntheticSet,
    /// How images are changed, each in its own way.
    pub augment: Option<Strategy>,
    /// Steps.
    pub steps: usize,
    /// Images of a step.
    pub batch: usize,
}

/// The parameters of a network that are trained, in their order in a vector.
pub(crate) fn trained(params: &[ParamSpec]) -> impl Iterator<Item = &ParamSpec> {
    params.iter().filter(|param| !param.is_buffer)
}

impl Student {
    /// Adds the training and the update of what is learned to a graph that begins with the parameters of the network.
    pub fn add(&self, cx: Cx, network: &dyn Network, params: &[ParamSpec]) -> Vec<(String, Tensor)> {
        let trace = cx.trace();
        let flat = |tensor: Tensor| tensor.reshape(&[tensor.ty().numel()]);
        let declared = trained(params).map(|param| flat(cx.param(&param.name, &param.shape, param.init)));
        let first = concat(&declared.collect::<Vec<_>>(), 0);
        let input = |name: &str| cx.input(name, DType::I32, &[self.steps, self.batch]);
        let (chosen, classes) = (input(CHOSEN), input(CLASSES));
        let changes = self
            .augment
            .map(|strategy| Changes::declare(cx, strategy, self.steps * self.batch, self.set.shape));
        let rate = self.set.rate(cx);
        let mut vector = first;
        for step in 0..self.steps {
            vector = trace.in_scope(&format!("step.{step}"), || {
                let of_step = |input: Tensor| input.slice(0, step, 1).reshape(&[self.batch]);
                let part = self.set.chosen(cx, of_step(chosen));
                let seen = changes.map_or(part.images, |changes| changes.of_each(part.images, step * self.batch));
                let logits = network.logits(cx.with_values(values(vector, params)), seen);
                let loss = part.loss(logits, of_step(classes));
                // The gradient of a step belongs to the forward phase: the derivative by the images is backward.
                let gradient = vjp(&[loss], &[Some(loss.full_like(1.0))], &[vector])[0];
                gradient.map_or(vector, |gradient| vector - gradient * rate)
            });
        }
        let target = trace.state(TARGET, DType::F32, &first.shape());
        let square = |vector: Tensor| {
            let difference = vector - target;
            (difference * difference).sum()
        };
        let distance = square(vector) / square(first);
        self.set.update(cx, distance);
        vec![(DISTANCE.to_string(), distance)]
    }
}

/// The parameters in a vector, by name.
fn values(vector: Tensor, params: &[ParamSpec]) -> BTreeMap<String, Tensor> {
    let sizes: Vec<usize> = trained(params).map(|param| param.shape.iter().product()).collect();
    let parts = vector.split(0, &sizes);
    let named = trained(params).zip(parts);
    named
        .map(|(param, part)| (param.name.clone(), part.reshape(&param.shape)))
        .collect()
}
