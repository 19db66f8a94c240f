//! The graphs of several leaves as the graph of the one rank that has them.

use std::collections::HashMap;

use lessen_base::{Error, Result};

use crate::builder::GraphBuilder;
use crate::graph::{Assign, Graph, InputKind, Node, ValueId};
use crate::ranks::Ranks;
use crate::tensor::Tensor;
use crate::trace::Trace;

/// A graph of a leaf, of which a part is copied.
struct Leaf<'g> {
    graph: &'g Graph,
    /// Copies of its values.
    copies: Vec<Option<ValueId>>,
    nodes: std::slice::Iter<'g, Node>,
}

impl<'g> Leaf<'g> {
    fn copies(&self, values: &[ValueId]) -> Result<Vec<ValueId>> {
        let copy = |value: &ValueId| self.copies.get(value.index()).copied().flatten();
        let unknown = || Error::internal("a graph reads a value that is not there");
        values.iter().map(|value| copy(value).ok_or_else(unknown)).collect()
    }

    fn set(&mut self, node: &Node, copies: &[ValueId]) {
        for (value, copy) in node.outputs.iter().zip(copies) {
            self.copies[value.index()] = Some(*copy);
        }
    }

    /// Copies nodes up to the next collective, which is returned; none at the end.
    fn run(&mut self, builder: &mut GraphBuilder) -> Result<Option<&'g Node>> {
        while let Some(node) = self.nodes.next() {
            if node.op.ranks().is_some() {
                return Ok(Some(node));
            }
            let inputs = self.copies(&node.inputs)?;
            builder.set_phase(node.phase);
            builder.set_scope(node.scope.clone());
            let outputs = builder.push(node.op.clone(), &inputs)?;
            self.set(node, &outputs);
        }
        Ok(None)
    }
}

/// Graphs of leaves as one.
#[derive(Debug)]
pub struct SideBySide {
    /// The graph of the rank.
    pub graph: Graph,
    /// For each leaf, the copies of its graph's values there.
    pub copies: Vec<Vec<Option<ValueId>>>,
}

/// The graphs of the leaves of the rank `ranks`, whose collectives are of ranks with one leaf each, as one graph with
/// collectives of this rank: sums over its leaves have the shape of the tree, so no bit depends on the number of ranks.
/// States are shared; `name` gives data inputs and outputs their names, from the place of the leaf among those of the
/// rank and the name in its graph.
///
/// # Errors
/// Graphs of another number of leaves; graphs that do not have the same collectives in one order, or other types of
/// one state; names that are given twice; a state that is assigned.
pub fn side_by_side(graphs: &[Graph], ranks: Ranks, name: impl Fn(usize, &str) -> String) -> Result<SideBySide> {
    if graphs.len() != ranks.own_leaves().len() {
        return Err(Error::internal("another number of graphs than of leaves"));
    }
    let mut builder = GraphBuilder::new();
    let mut states = HashMap::new();
    let mut leaves = Vec::with_capacity(graphs.len());
    for (place, graph) in graphs.iter().enumerate() {
        if let Some(Assign { target, .. }) = graph.assigns.first() {
            let state = graph.input(*target).map_or("", |input| &input.name);
            return Err(Error::internal(format!(
                "the state `{state}` is assigned by several leaves"
            )));
        }
        let mut copies = vec![None; graph.values.len()];
        for input in &graph.inputs {
            let ty = graph.ty(input.value);
            let name = match input.kind {
                InputKind::State => input.name.clone(),
                InputKind::Data => name(place, &input.name),
            };
            let known = states.get(&name).filter(|state| builder.graph().ty(**state) == ty);
            let copy = match known {
                Some(state) => *state,
                None => builder.declare(name.clone(), input.kind, ty.clone())?,
            };
            if input.kind == InputKind::State {
                states.insert(name, copy);
            }
            copies[input.value.index()] = Some(copy);
        }
        leaves.push(Leaf {
            graph,
            copies,
            nodes: graph.nodes.iter(),
        });
    }
    loop {
        let next = leaves.iter_mut().map(|leaf| leaf.run(&mut builder));
        let next: Vec<Option<&Node>> = next.collect::<Result<_>>()?;
        let Some(nodes) = next.iter().copied().collect::<Option<Vec<&Node>>>() else {
            if next.iter().all(Option::is_none) {
                break;
            }
            return Err(differ(&next));
        };
        let fits = |node: &&Node| {
            let own = node.op.ranks();
            node.op.name() == nodes[0].op.name()
                && own.is_some_and(|own| own.count == ranks.leaves && own.leaves == ranks.leaves)
        };
        if !nodes.iter().all(fits) {
            return Err(differ(&next));
        }
        builder.set_phase(nodes[0].phase);
        builder.set_scope(nodes[0].scope.clone());
        let trace = Trace::building(builder);
        let of_leaf = |(leaf, node): (&Leaf<'_>, &&Node)| {
            let copies = leaf.copies(&node.inputs)?.into_iter();
            Ok(copies.map(|copy| trace.tensor(copy)).collect())
        };
        let inputs = leaves
            .iter()
            .zip(&nodes)
            .map(of_leaf)
            .collect::<Result<Vec<Vec<Tensor>>>>()?;
        let outputs = trace.attempt(|| nodes[0].op.of_leaves(&inputs, ranks))?;
        builder = trace.into_builder();
        for ((leaf, node), outputs) in leaves.iter_mut().zip(nodes).zip(outputs) {
            let outputs: Vec<ValueId> = outputs.into_iter().map(Tensor::id).collect();
            leaf.set(node, &outputs);
        }
    }
    for (place, leaf) in leaves.iter().enumerate() {
        for output in &leaf.graph.outputs {
            let value = leaf.copies(&[output.value])?[0];
            builder.output(name(place, &output.name), value)?;
        }
    }
    Ok(SideBySide {
        graph: builder.finish(),
        copies: leaves.into_iter().map(|leaf| leaf.copies).collect(),
    })
}

fn differ(next: &[Option<&Node>]) -> Error {
    let names: Vec<_> = next.iter().map(|node| node.map(|node| node.op.name())).collect();
    Error::user(format!(
        "the graphs of {} leaves do not have the same operations of several ranks in one order: {names:?} come next",
        next.len()
    ))
}
