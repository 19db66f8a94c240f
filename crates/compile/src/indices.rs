//! Indices: where the operations that read rows by number have the numbers from, and so when a wrong one is found out.

use std::collections::HashSet;

use lessen_graph::{Def, Fold, Graph, Layout, Node, NodeId, ValueId};

use crate::node_types::NodeTypes;
use crate::place::Place;

/// Source of indices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexSource {
    /// An input, data or state, whose indices exist before the run begins. A position in
    /// [`Graph::inputs`](lessen_graph::Graph::inputs).
    Input(usize),
    /// A constant.
    Constant(ValueId),
    /// The run computes the indices. The node that reads them checks them, and no state is updated before this node has
    /// run.
    Computed(NodeId),
}

/// Indices that an operation reads, and the numbers that are valid among them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexUse {
    /// Source of the indices.
    pub source: IndexSource,
    /// Shape of the indices.
    pub shape: Vec<usize>,
    /// Layout of the indices in the source's dense array.
    pub layout: Layout,
    /// Indices are valid from 0 up to and excluding this number.
    pub limit: usize,
    /// One more valid number, which stands for no index.
    pub ignored: Option<i64>,
}

/// All indices that a graph reads. Indices that several nodes read under the same conditions are listed once, with the
/// first node that reads them.
pub fn index_uses(graph: &Graph, places: &[Place]) -> Vec<IndexUse> {
    index_uses_of(graph, places, &NodeTypes::of(graph))
}

/// Does the work of [`index_uses`] with the types of the graph's nodes given.
pub(crate) fn index_uses_of(graph: &Graph, places: &[Place], types: &NodeTypes) -> Vec<IndexUse> {
    let mut uses = Vec::new();
    let mut seen = HashSet::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        let (inputs, outputs) = types.of_node(i);
        let Some(index) = graph.ask(node, inputs, outputs).index_input() else {
            continue;
        };
        let value = node.inputs[index.input];
        let (base, layout) = origin(graph, places, value);
        let key = (base, layout.offset, layout.strides.clone(), index.limit, index.ignored);
        let shape = graph.ty(value).shape.to_vec();
        if !seen.insert((key, shape.clone())) {
            continue;
        }
        let source = match graph.producer(base) {
            Some(p) if graph.nodes[p.index()].inputs.is_empty() => IndexSource::Constant(base),
            Some(_) => IndexSource::Computed(NodeId(i as u32)),
            None => match graph.values[base.index()].def {
                Def::Input(input) => IndexSource::Input(input),
                Def::Node(..) => unreachable!("the base has no producer"),
            },
        };
        uses.push(IndexUse {
            source,
            shape,
            layout,
            limit: index.limit,
            ignored: index.ignored,
        });
    }
    uses
}

/// The value whose array holds a value's elements, seen through views and through copies of whole values.
fn origin(graph: &Graph, places: &[Place], mut value: ValueId) -> (ValueId, Layout) {
    loop {
        let Place { base, layout } = &places[value.index()];
        let whole = layout.offset == 0
            && layout.is_dense(&graph.ty(value).shape)
            && graph.ty(value).shape == graph.ty(*base).shape;
        let producer = graph.producer(*base).map(|p| &graph.nodes[p.index()]);
        match producer {
            Some(node) if whole && copies(graph, node) => value = node.inputs[0],
            _ => return (*base, layout.clone()),
        }
    }
}

/// Whether a node returns its first input unchanged, whatever that is.
fn copies(graph: &Graph, node: &Node) -> bool {
    let known = vec![None; node.inputs.len()];
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    graph.ask(node, &inputs, &outputs).fold(&known) == Fold::Input(0)
}
