//! Gradient descent with momentum in a graph, of networks and of what is learned.

use lessen_graph::{DType, Tensor};
use lessen_nn::Context;

/// State with the momentum of a parameter.
pub(crate) fn momentum_of(param: &str) -> String {
    format!("condensed.momentum.{param}")
}

/// Moves a parameter by its gradient: `momentum = carried momentum + gradient`, `parameter -= rate momentum`.
pub(crate) fn descend<'g>(
    cx: &Context<'g>,
    (name, param): (&str, Tensor<'g>),
    gradient: Tensor<'g>,
    [rate, carried]: [Tensor<'g>; 2],
) {
    let momentum = cx.trace().state(&momentum_of(name), DType::F32, &param.shape());
    let [moved, new] = descended([param, momentum], gradient, [rate, carried]);
    cx.trace().assign(momentum, moved);
    cx.trace().assign(param, new);
}

/// The momentum and the parameter after a step.
pub(crate) fn descended<'g>(
    [param, momentum]: [Tensor<'g>; 2],
    gradient: Tensor<'g>,
    [rate, carried]: [Tensor<'g>; 2],
) -> [Tensor<'g>; 2] {
    let moved = momentum * carried + gradient;
    [moved, param - moved * rate]
}
