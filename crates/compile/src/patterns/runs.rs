//! What the patterns of norms share: numbers that are known, rows of parameters, and the graph with norms in place.

use std::sync::Arc;

use lessen_graph::ops::{Broadcast, Full, Reshape};
use lessen_graph::{Fold, Graph, Node, Op, Type, ValueId};

use crate::rewrite::Rewriter;

/// A norm of the runs of a base along its last axis.
pub(super) struct Norm {
    pub op: Arc<dyn Op>,
    pub base: ValueId,
    /// The rows of parameters, and the number that stands in a row that is absent.
    pub rows: Vec<(Option<ValueId>, f64)>,
}

impl Norm {
    fn inputs(&self) -> impl Iterator<Item = ValueId> {
        let rows = self.rows.iter().filter_map(|(row, _)| *row);
        std::iter::once(self.base).chain(rows)
    }
}

/// The graph in which values that are norms are operations, without what nothing reads any more, and for each old value
/// the new one, if it is there.
pub(super) fn with_norms(graph: &Graph, norm: impl Fn(ValueId) -> Option<Norm>) -> (Graph, Vec<Option<ValueId>>) {
    let is_live = live(graph, &norm);
    let mut rewriter = Rewriter::new(graph);
    for node in graph
        .nodes
        .iter()
        .filter(|node| node.outputs.iter().any(|v| is_live[v.index()]))
    {
        match norm(node.outputs[0]) {
            Some(norm) => write(&mut rewriter, graph, node, norm),
            None => rewriter.copy(node),
        }
    }
    let values = (0..graph.values.len()).map(|i| ValueId(i as u32));
    let map = values
        .map(|value| rewriter.has(value).then(|| rewriter.get(value)))
        .collect();
    (rewriter.finish(graph), map)
}

/// Which values results follow from, where norms are operations.
fn live(graph: &Graph, norm: impl Fn(ValueId) -> Option<Norm>) -> Vec<bool> {
    let mut is_live = vec![false; graph.values.len()];
    let outputs = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().flat_map(|assign| [assign.target, assign.value]);
    outputs.chain(assigned).for_each(|value| is_live[value.index()] = true);
    for node in graph.nodes.iter().rev() {
        if !node.outputs.iter().any(|v| is_live[v.index()]) {
            continue;
        }
        match norm(node.outputs[0]) {
            Some(norm) => norm.inputs().for_each(|v| is_live[v.index()] = true),
            None => node.inputs.iter().for_each(|v| is_live[v.index()] = true),
        }
    }
    is_live
}

/// Writes a norm in place of the node that ends it.
fn write(rewriter: &mut Rewriter, graph: &Graph, node: &Node, norm: Norm) {
    let (phase, scope) = (node.phase, &node.scope);
    let ty = graph.ty(norm.base);
    let row = Type::new(ty.dtype, &[ty.last()]);
    let mut parameter = |value: Option<ValueId>, absent: f64| match value {
        Some(value) => {
            let mut new = rewriter.get(value);
            if graph.ty(value).shape != row.shape {
                let reshape = Reshape {
                    shape: row.shape.clone(),
                };
                new = rewriter.push(Arc::new(reshape), &[new], phase, scope)[0];
            }
            new
        }
        None => {
            let full = Full {
                ty: row.clone(),
                value: absent,
            };
            rewriter.push(Arc::new(full), &[], phase, scope)[0]
        }
    };
    let rows: Vec<ValueId> = norm.rows.iter().map(|(row, absent)| parameter(*row, *absent)).collect();
    let inputs = [vec![rewriter.get(norm.base)], rows].concat();
    let y = rewriter.push(norm.op, &inputs, phase, scope)[0];
    rewriter.set(node.outputs[0], y);
}

/// For each value the number that all its elements are, where that is known.
pub(super) fn known_numbers(graph: &Graph) -> Vec<Option<f64>> {
    let mut numbers = vec![None; graph.values.len()];
    for node in &graph.nodes {
        let known: Vec<Option<f64>> = node.inputs.iter().map(|v| numbers[v.index()]).collect();
        let fold = node
            .op
            .fold(&known, &graph.input_types(node), &graph.output_types(node));
        numbers[node.outputs[0].index()] = match fold {
            Fold::Splat(number) => Some(number),
            Fold::Input(input) => known[input],
            Fold::No => None,
        };
    }
    numbers
}

/// The value of as many elements as a run of a base has, which a value repeats for each run.
pub(super) fn row(graph: &Graph, base: ValueId, value: ValueId) -> Option<ValueId> {
    let width = graph.ty(base).last();
    let node = &graph.nodes[graph.producer(value)?.index()];
    let from = graph.ty(*node.inputs.first()?);
    let is_row = node.op.is::<Broadcast>() && from.numel() == width && from.last() == width;
    is_row.then(|| node.inputs[0])
}

/// Whether a number for each run of a base stays one between two values: its axis of extent 1 is added, widened or left
/// out.
pub(super) fn keeps_runs(graph: &Graph, base: ValueId, (from, to): (ValueId, ValueId), is_widened: bool) -> bool {
    let shape = |value: ValueId| graph.ty(value).shape.as_slice();
    let Some((width, lead)) = shape(base).split_last() else {
        return false;
    };
    let is = |value: ValueId, extent: usize| shape(value).split_last() == Some((&extent, lead));
    match is_widened {
        // Shapes are aligned at the last axis, so that one has to be there.
        true => is(from, 1) && is(to, *width) || shape(from) == shape(to),
        false => shape(to) == lead || is(to, 1) || shape(from) == shape(to),
    }
}
