//! Sparse gradients: a large value that is zero except in a few rows is computed as its nonzero rows alone.
//!
//! The gradient of an embedding is such a value. Its norm, clipping and update then take time and memory in proportion
//! to the tokens of a batch, not to the vocabulary; only the moments and the weight decay touch all rows.
//!
//! Results equal the results of the dense gradient while the numbers that multiply it are finite. Times NaN or an
//! infinity, a row that is not there stays zeros, where the dense gradient is NaN; see [`OnRows`].

use std::sync::Arc;

use lessen_graph::ops::{Broadcast, Reshape};
use lessen_graph::{Graph, Node, OnRows, Op, ValueId, numel};

use crate::bytes;
use crate::place::{Place, places as places_of};
use crate::target::Target;
use lessen_rewrite::Rewriter;

/// Least ratio of the bytes of a sparse value to the bytes of its rows.
const RATIO: usize = 4;

/// The rows of a value of the old graph, as values of the new one.
#[derive(Clone, Copy)]
struct Rows {
    ids: ValueId,
    rows: ValueId,
}

/// Computes sparse values as rows where all their readers accept rows.
pub fn sparsify(graph: &Graph, target: &dyn Target) -> Graph {
    let sparse = Sparse::of(graph, target);
    if sparse.origin.iter().all(Option::is_none) {
        return graph.clone();
    }
    let mut rewriter = Rewriter::new(graph);
    let mut rows: Vec<Option<Rows>> = vec![None; graph.values.len()];
    for node in &graph.nodes {
        let marked: Vec<bool> = node.inputs.iter().map(|v| sparse.is(*v)).collect();
        let found = node.inputs.iter().find_map(|input| rows[input.index()]);
        if let Some(rows_of) = combined(graph, node).filter(|_| sparse.is(node.outputs[0])) {
            let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| rewriter.get(v)).collect();
            let made = rewriter.push(rows_of, &inputs, node.phase, &node.scope)[0];
            let ids = inputs[0];
            rows[node.outputs[0].index()] = Some(Rows { ids, rows: made });
            continue;
        }
        let Some(found) = found else {
            rewriter.copy(node);
            continue;
        };
        let shape = rewriter.new.ty(found.rows).shape.clone();
        let mut inputs = Vec::with_capacity(node.inputs.len() + 1);
        let on_rows = on_rows(graph, node, &marked);
        for (&input, &is_sparse) in node.inputs.iter().zip(&marked) {
            match (&on_rows, is_sparse.then(|| rows[input.index()]).flatten()) {
                (OnRows::By(_), Some(Rows { ids, rows })) => inputs.extend([ids, rows]),
                (_, Some(Rows { rows, .. })) => inputs.push(rows),
                (OnRows::Rows, None) => inputs.push(filled(&mut rewriter, &sparse, node, input, &shape)),
                (_, None) => inputs.push(rewriter.get(input)),
            }
        }
        let op = match &on_rows {
            OnRows::By(other) => other.clone(),
            _ => node.op.clone(),
        };
        let outputs = rewriter.push(op, &inputs, node.phase, &node.scope);
        match on_rows {
            OnRows::Rows => {
                let rows_of = Rows {
                    rows: outputs[0],
                    ..found
                };
                rows[node.outputs[0].index()] = Some(rows_of);
            }
            _ => {
                for (&old, new) in node.outputs.iter().zip(outputs) {
                    rewriter.set(old, new);
                }
            }
        }
    }
    rewriter.finish()
}

/// The number that fills a value, as a value of this shape.
fn filled(rewriter: &mut Rewriter<'_>, sparse: &Sparse<'_>, node: &Node, value: ValueId, shape: &[usize]) -> ValueId {
    let base = rewriter.get(sparse.places[value.index()].base);
    let (phase, scope) = (node.phase, &node.scope);
    let scalar = rewriter.push(Arc::new(Reshape { shape: Vec::new() }), &[base], phase, scope)[0];
    let broadcast = Broadcast { shape: shape.to_vec() };
    rewriter.push(Arc::new(broadcast), &[scalar], phase, scope)[0]
}

/// The operation that computes the rows of a node's only output, if that is sparse.
pub(super) fn combined(graph: &Graph, node: &Node) -> Option<Arc<dyn Op>> {
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    graph.ask(node, &inputs, &outputs).sparse_rows()
}

/// The rule of a node for the sparse inputs that are marked.
pub(super) fn on_rows(graph: &Graph, node: &Node, marked: &[bool]) -> OnRows {
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    graph.ask(node, &inputs, &outputs).on_rows(marked)
}

/// The values that are computed as rows.
struct Sparse<'a> {
    graph: &'a Graph,
    places: Vec<Place>,
    /// For each value that is computed as rows the value that it takes its row numbers from.
    origin: Vec<Option<ValueId>>,
}

impl Sparse<'_> {
    fn of<'a>(graph: &'a Graph, target: &dyn Target) -> Sparse<'a> {
        let origin = vec![None; graph.values.len()];
        let places = places_of(graph);
        let mut sparse = Sparse { graph, places, origin };
        for node in &graph.nodes {
            sparse.mark(node, target);
        }
        // A value that some reader needs whole is computed whole, and so are the values that it is computed from.
        while let Some(value) = sparse.needed_whole(target) {
            let origin = sparse.origin[value.index()];
            sparse
                .origin
                .iter_mut()
                .filter(|other| **other == origin)
                .for_each(|other| *other = None);
        }
        sparse
    }

    fn is(&self, value: ValueId) -> bool {
        self.origin[value.index()].is_some()
    }

    /// Marks a node's output if it is sparse.
    fn mark(&mut self, node: &Node, target: &dyn Target) {
        if let Some(rows_of) = combined(self.graph, node) {
            let (output, operands) = (node.outputs[0], self.graph.input_types(node));
            let whole = self.graph.ty(output).bytes();
            let few = bytes::sum(operands.iter().map(|ty| ty.bytes())).saturating_mul(RATIO) <= whole;
            if few && numel(&operands[0].shape) > 0 && target.supports(rows_of.as_ref()) {
                self.origin[output.index()] = Some(output);
            }
        } else if let (Some(origin), OnRows::Rows) = (self.origin_of(node), self.on_rows(node)) {
            self.origin[node.outputs[0].index()] = Some(origin);
        }
    }

    /// The origin of a node's sparse inputs.
    fn origin_of(&self, node: &Node) -> Option<ValueId> {
        node.inputs.iter().find_map(|input| self.origin[input.index()])
    }

    /// The result of a node on sparse inputs. It has none if their rows differ, or if a dense input had to be a single
    /// number and is not.
    fn on_rows(&self, node: &Node) -> OnRows {
        let marked: Vec<bool> = node.inputs.iter().map(|v| self.is(*v)).collect();
        let of = |value: &ValueId| self.origin[value.index()];
        let mut origins = node.inputs.iter().filter_map(of);
        let first = origins.next();
        if !origins.all(|other| Some(other) == first) {
            return OnRows::No;
        }
        let dense = node.inputs.iter().filter(|input| !self.is(**input));
        match on_rows(self.graph, node, &marked) {
            OnRows::Rows if !dense.clone().all(|input| self.is_filled(*input)) => OnRows::No,
            OnRows::Whole if dense.count() > 0 => OnRows::No,
            on_rows => on_rows,
        }
    }

    /// Whether all elements of a value are one number.
    fn is_filled(&self, value: ValueId) -> bool {
        let Place { base, layout } = &self.places[value.index()];
        self.graph.ty(*base).numel() == 1 && layout.strides.iter().all(|stride| *stride == 0)
    }

    /// A value that is marked although some reader needs it whole.
    fn needed_whole(&self, target: &dyn Target) -> Option<ValueId> {
        let graph = self.graph;
        let results = graph.outputs.iter().map(|output| output.value);
        let assigned = graph.assigns.iter().map(|assign| assign.value);
        let mut kept = results.chain(assigned).filter(|value| self.is(*value));
        let kept = kept.next();
        kept.or_else(|| {
            graph.nodes.iter().find_map(|node| {
                let input = *node.inputs.iter().find(|input| self.is(**input))?;
                let fits = match self.on_rows(node) {
                    OnRows::No => false,
                    OnRows::Rows => self.is(node.outputs[0]),
                    OnRows::Whole => true,
                    OnRows::By(other) => target.supports(other.as_ref()),
                };
                (!fits).then_some(input)
            })
        })
    }
}
