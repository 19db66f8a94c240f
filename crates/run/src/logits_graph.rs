//! The graph of what a model answers on a small batch, to find out how it uses its parameters.

use lessen_graph::{Graph, Trace};
use lessen_nn::{BatchShape, Context, Model};

/// The graph of a model's logits for two short texts, or two images.
pub(crate) fn logits_graph(model: &Model) -> Graph {
    let batch = match model.smallest_batch() {
        BatchShape::Images { image, mixed, .. } => BatchShape::Images { size: 2, image, mixed },
        _ => BatchShape::Padded {
            size: 2,
            length: model.max_length().map_or(8, |most| most.min(8)),
        },
    };
    let trace = Trace::new();
    let cx = Context::new(&trace, false);
    trace.output("logits", model.logits(&cx, batch));
    drop(cx);
    trace.finish()
}
