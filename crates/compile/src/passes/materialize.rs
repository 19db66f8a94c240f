//! Materialization: inserts dense copies where an operation cannot read a view in place, where a reshape cannot be a
//! view, and where an input, a constant or a strided view is assigned to a state.

use std::sync::Arc;

use lessen_graph::ops::Identity;
use lessen_graph::{Graph, Layout, Phase};

use crate::place::places as places_of;
use crate::target::Target;
use lessen_rewrite::Rewriter;

/// Inserts the copies that the layouts of views require.
pub fn materialize(graph: &Graph, target: &dyn Target) -> Graph {
    let places = places_of(graph);
    let mut rewriter = Rewriter::new(graph);
    for node in &graph.nodes {
        rewriter.stage = node.stage;
        let (in_types, out_types) = (graph.input_types(node), graph.output_types(node));
        let asked = graph.ask(node, &in_types, &out_types);
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (i, &input) in node.inputs.iter().enumerate() {
            let place = &places[input.index()];
            let dense = Layout::dense(&in_types[i].shape);
            let base = graph.ty(place.base).numel();
            let as_view = i == 0 && asked.view(&place.layout, base).is_some();
            let could_view = i == 0 && asked.view(&dense, in_types[i].numel()).is_some();
            let copy = if could_view {
                !as_view
            } else {
                !place.layout.is_dense(&in_types[i].shape)
                    && !target.lower(node.op.as_ref(), &in_types, &out_types).accepts(
                        i,
                        &in_types[i].shape,
                        &place.layout,
                    )
            };
            let value = rewriter.get(input);
            inputs.push(if copy {
                rewriter.push(Arc::new(Identity), &[value], node.phase, &node.scope)[0]
            } else {
                value
            });
        }
        rewriter.copy_with(node, &inputs, node.phase);
    }
    let mut graph = rewriter.finish();
    let places = places_of(&graph);
    for i in 0..graph.assigns.len() {
        let value = graph.assigns[i].value;
        let place = &places[value.index()];
        let computed = graph
            .producer(place.base)
            .is_some_and(|p| !graph.nodes[p.index()].inputs.is_empty());
        if !computed || !place.layout.is_dense(&graph.ty(value).shape) {
            let copy = graph.add_node(Arc::new(Identity), &[value], Phase::Update, Arc::from(""));
            graph.assigns[i].value = copy.expect("a copy fits any value")[0];
        }
    }
    graph
}
