//! Words of codes: pads runs of codes to whole words, so that a kernel that reads a word at once has no remainder.

use std::sync::Arc;

use lessen_graph::{Graph, ops};

use crate::target::Target;
use lessen_rewrite::Rewriter;

/// Pads the inputs of operations with their [`fillings`](lessen_graph::Op::fillings), which change no result.
pub fn fill_words(graph: &Graph, target: &dyn Target) -> Graph {
    let word = target.limits().word_codes;
    let mut rewriter = Rewriter::new(graph);
    for node in &graph.nodes {
        let (types, outputs) = (graph.input_types(node), graph.output_types(node));
        let fillings = graph.ask(node, &types, &outputs).fillings(word);
        rewriter.stage = node.stage;
        let mut inputs: Vec<_> = node.inputs.iter().map(|&input| rewriter.get(input)).collect();
        for filling in fillings {
            let pad = ops::Pad {
                axis: filling.axis,
                before: 0,
                after: filling.count,
                value: filling.value,
            };
            let input = &mut inputs[filling.input];
            *input = rewriter.push(Arc::new(pad), &[*input], node.phase, &node.scope)[0];
        }
        rewriter.copy_with(node, &inputs, node.phase);
    }
    rewriter.finish()
}
