//! Parts that the patterns of norms share: known numbers, rows of parameters, and the replacement by a norm.

use std::sync::Arc;

use lessen_graph::ops::{Broadcast, Full, Reshape};
use lessen_graph::{Fold, Graph, Node, Op, Type, ValueId};

use super::replace::Pattern;
use crate::rewriter::Rewriter;

/// A norm of the rows of a base value, along its last axis.
pub(super) struct Norm {
    pub op: Arc<dyn Op>,
    pub base: ValueId,
    /// The parameters, each one row, and the number that fills a row that is absent.
    pub rows: Vec<(Option<ValueId>, f64)>,
}

impl Pattern for Norm {
    fn inputs(&self) -> Vec<ValueId> {
        let rows = self.rows.iter().filter_map(|(row, _)| *row);
        std::iter::once(self.base).chain(rows).collect()
    }

    fn write(&self, rewriter: &mut Rewriter<'_>, graph: &Graph, node: &Node) -> ValueId {
        let (phase, scope) = (node.phase, &node.scope);
        let ty = graph.ty(self.base);
        let row = Type::new(ty.dtype, &[ty.last()]);
        let mut parameter = |value: Option<ValueId>, absent: f64| match value {
            Some(value) => {
                let mut new = rewriter.get(value);
                if graph.ty(value).shape != row.shape {
                    let reshape = Reshape {
                        shape: row.shape.to_vec(),
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
        let rows: Vec<ValueId> = self.rows.iter().map(|(row, absent)| parameter(*row, *absent)).collect();
        let inputs = [vec![rewriter.get(self.base)], rows].concat();
        rewriter.push(self.op.clone(), &inputs, phase, scope)[0]
    }
}

/// For each value the number that all its elements equal, where it is known.
pub fn known_numbers(graph: &Graph) -> Vec<Option<f64>> {
    let mut numbers = vec![None; graph.values.len()];
    for node in &graph.nodes {
        let known: Vec<Option<f64>> = node.inputs.iter().map(|v| numbers[v.index()]).collect();
        let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
        let fold = graph.ask(node, &inputs, &outputs).fold(&known);
        numbers[node.outputs[0].index()] = match fold {
            Fold::Splat(number) => Some(number),
            Fold::Input(input) => known[input],
            Fold::No => None,
        };
    }
    numbers
}

/// The row of parameters that a value repeats for each row of a base.
pub(super) fn row(graph: &Graph, base: ValueId, value: ValueId) -> Option<ValueId> {
    let width = graph.ty(base).last();
    let node = &graph.nodes[graph.producer(value)?.index()];
    let from = graph.ty(*node.inputs.first()?);
    let is_row = node.op.is::<Broadcast>() && from.numel() == width && from.last() == width;
    is_row.then(|| node.inputs[0])
}

/// Whether one number for each row of a base stays one between two values: its axis of extent 1 is added, widened or
/// dropped.
pub(super) fn keeps_lines(graph: &Graph, base: ValueId, (from, to): (ValueId, ValueId), is_widened: bool) -> bool {
    let shape = |value: ValueId| graph.ty(value).shape.as_slice();
    let Some((width, lead)) = shape(base).split_last() else {
        return false;
    };
    let is = |value: ValueId, extent: usize| shape(value).split_last() == Some((&extent, lead));
    if is_widened {
        // Shapes are aligned at the last axis, so the axis of extent 1 has to be there.
        is(from, 1) && is(to, *width) || shape(from) == shape(to)
    } else {
        shape(to) == lead || is(to, 1) || shape(from) == shape(to)
    }
}
