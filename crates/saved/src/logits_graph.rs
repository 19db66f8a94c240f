//! The graph of what a model answers on a small batch, to find out how it uses its parameters.

use lessen_graph::{Graph, Tensor, Trace};
use lessen_nn::{BatchShape, Cx, Model};

/// The graph of a model's logits for two short texts, or two images.
pub(crate) fn logits_graph(model: &Model) -> Graph {
    graph_of("logits", model, |cx, batch| Some(model.logits(cx, batch)))
}

/// The graph of a model's last states of two short texts.
pub(crate) fn states_graph(model: &Model) -> Graph {
    graph_of("states", model, |cx, batch| model.states(cx, batch))
}

fn graph_of(name: &str, model: &Model, of: impl Fn(Cx, BatchShape) -> Option<Tensor>) -> Graph {
    let batch = match model.smallest_batch() {
        BatchShape::Images { image, mixed, .. } => BatchShape::Images { size: 2, image, mixed },
        _ => BatchShape::Padded {
            size: 2,
            length: model.max_length().map_or(8, |most| most.min(8)),
        },
    };
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    if let Some(answer) = of(cx, batch) {
        trace.output(name, answer);
    }
    trace.finish()
}
