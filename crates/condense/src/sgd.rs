//! Gradient descent with momentum in a graph, of networks and of what is learned.

use lessen_graph::{DType, Tensor};
use lessen_nn::Cx;

/// State with the momentum of a parameter.
pub(crate) fn momentum_of(param: &str) -> String {
    format!("condensed.momentum.{param}")
}

/// Moves a parameter by its gradient: `momentum = carried momentum + gradient`, `parameter -= rate momentum`.
pub(crate) fn descend(cx: Cx, (name, param): (&str, Tensor), gradient: Tensor, [rate, carried]: [Tensor; 2]) {
    let momentum = cx.trace().state(&momentum_of(name), DType::F32, &param.shape());
    let [moved, new] = descended([param, momentum], gradient, [rate, carried]);
    cx.trace().assign(momentum, moved);
    cx.trace().assign(param, new);
}

/// The momentum and the parameter after a step.
pub(crate) fn descended([param, momentum]: [Tensor; 2], gradient: Tensor, [rate, carried]: [Tensor; 2]) -> [Tensor; 2] {
    let moved = momentum * carried + gradient;
    [moved, param - moved * rate]
}
