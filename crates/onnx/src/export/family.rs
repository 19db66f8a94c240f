//! The traces of a function for several sizes as one graph whose sizes depend on the dimensions.

use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::ops::Constant;
use lessen_graph::{Attr, Graph, InputKind, Node, Op, ValueId, lower};

use super::extent::{Extent, Polynomial};

/// A function at some sizes of its dimensions.
pub struct Sample {
    /// The sizes of the dimensions, one of [`points`](super::points).
    pub sizes: Vec<usize>,
    /// The graph.
    pub graph: Graph,
}

/// Graphs of one structure.
pub(super) struct Family {
    graphs: Vec<Graph>,
    points: Vec<Vec<usize>>,
    /// The extents of every value.
    shapes: Vec<Vec<Extent>>,
    /// For each node, whether an output depends on it.
    live: Vec<bool>,
}

impl Family {
    /// Lowers the graphs to operations that are `supported`, and finds how their sizes depend on the dimensions.
    ///
    /// # Errors
    /// An operation whose place or size does not follow from the dimensions.
    pub(super) fn new(samples: &[Sample], supported: &dyn Fn(&dyn Op) -> bool) -> Result<Family> {
        let graphs: Vec<Graph> = samples
            .iter()
            .map(|sample| lower(&sample.graph, supported).into_owned())
            .collect();
        let points: Vec<Vec<usize>> = samples.iter().map(|sample| sample.sizes.clone()).collect();
        let Some(first) = graphs.first() else {
            return Err(Error::internal("a function without traces"));
        };
        let live = live(first);
        for (index, node) in first.nodes.iter().enumerate().filter(|(index, _)| live[*index]) {
            let same = |graph: &Graph| {
                let other = graph.nodes.get(index);
                other.is_some_and(|other| other.op.name() == node.op.name() && other.inputs == node.inputs)
            };
            if !graphs.iter().all(same) {
                return Err(changes(node));
            }
        }
        let shape = |value: usize| -> Option<Vec<Extent>> {
            let rank = first.values[value].ty.rank();
            let extent = |axis: usize| {
                let sizes = graphs.iter().map(|graph| {
                    let shape = &graph.values.get(value)?.ty.shape;
                    (shape.len() == rank).then(|| shape[axis] as f64)
                });
                Polynomial::fit(&sizes.collect::<Option<Vec<f64>>>()?, &points)?.whole()
            };
            (0..rank).map(extent).collect()
        };
        let mut shapes = vec![Vec::new(); first.values.len()];
        let inputs = first.inputs.iter().map(|input| input.value);
        for value in inputs {
            shapes[value.index()] = shape(value.index()).ok_or_else(|| Error::internal("an input without sizes"))?;
        }
        for (node, _) in first.nodes.iter().zip(&live).filter(|(_, live)| **live) {
            for value in &node.outputs {
                shapes[value.index()] = shape(value.index()).ok_or_else(|| changes(node))?;
            }
        }
        Ok(Family {
            shapes,
            live,
            points,
            graphs,
        })
    }

    /// The graph at the first sizes.
    pub(super) fn graph(&self) -> &Graph {
        &self.graphs[0]
    }

    /// The number of dimensions.
    pub(super) fn dimensions(&self) -> usize {
        self.points[0].len()
    }

    /// Whether an output depends on a node.
    pub(super) fn is_live(&self, node: usize) -> bool {
        self.live[node]
    }

    /// The extents of a value.
    pub(super) fn shape(&self, value: ValueId) -> &[Extent] {
        &self.shapes[value.index()]
    }

    /// The extents of a value, where they are always the same.
    pub(super) fn fixed(&self, value: ValueId) -> Option<Vec<usize>> {
        let extents = self.shape(value).iter();
        extents
            .map(|extent| extent.constant().and_then(|extent| usize::try_from(extent).ok()))
            .collect()
    }

    /// Whether a node is the same operation at all sizes.
    pub(super) fn is_fixed(&self, node: usize) -> bool {
        let op = |graph: &Graph| -> Arc<dyn Op> { graph.nodes[node].op.clone() };
        let first = op(self.graph());
        self.graphs.iter().all(|graph| op(graph).same(first.as_ref()))
            && self.graph().nodes[node]
                .outputs
                .iter()
                .all(|value| self.fixed(*value).is_some())
    }

    /// The sizes in the attribute of a node: one, or a list.
    ///
    /// # Errors
    /// Sizes that do not follow from the dimensions.
    pub(super) fn sizes(&self, node: usize, name: &str) -> Result<Vec<Extent>> {
        let all: Option<Vec<Vec<i64>>> = self
            .graphs
            .iter()
            .map(|graph| match graph.nodes[node].op.attrs().get(name)? {
                Attr::Int(size) => Some(vec![*size]),
                Attr::Ints(sizes) => Some(sizes.clone()),
                _ => None,
            })
            .collect();
        let extents = all.and_then(|all| {
            let count = all.first()?.len();
            let extent = |i: usize| {
                let values: Option<Vec<f64>> = all.iter().map(|sizes| sizes.get(i).map(|size| *size as f64)).collect();
                Polynomial::fit(&values?, &self.points)?.whole()
            };
            (0..count).map(extent).collect()
        });
        extents.ok_or_else(|| changes(&self.graph().nodes[node]))
    }

    /// The number in the attribute of a node.
    ///
    /// # Errors
    /// A number that does not follow from the dimensions.
    pub(super) fn number(&self, node: usize, name: &str) -> Result<Polynomial> {
        let all: Option<Vec<f64>> = self
            .graphs
            .iter()
            .map(|graph| match graph.nodes[node].op.attrs().get(name)? {
                Attr::Float(number) => Some(*number),
                Attr::Int(number) => Some(*number as f64),
                _ => None,
            })
            .collect();
        let number = all.and_then(|values| Polynomial::fit(&values, &self.points));
        number.ok_or_else(|| changes(&self.graph().nodes[node]))
    }

    /// A constant, which has the same elements at all sizes.
    ///
    /// # Errors
    /// Elements that depend on the sizes.
    pub(super) fn constant(&self, node: usize) -> Result<Arc<lessen_graph::Array>> {
        let array = |graph: &Graph| Some(graph.nodes[node].op.downcast_ref::<Constant>()?.array.clone());
        let first = array(self.graph()).ok_or_else(|| Error::internal("a constant without elements"))?;
        if self.graphs.iter().all(|graph| array(graph).as_ref() == Some(&first)) {
            return Ok(first);
        }
        Err(changes(&self.graph().nodes[node]))
    }

    /// The names and values of the parameters.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (&str, ValueId)> {
        let states = self.graph().inputs.iter();
        states
            .filter(|input| input.kind == InputKind::State)
            .map(|input| (input.name.as_str(), input.value))
    }
}

/// The error of an operation whose sizes do not follow from the dimensions.
fn changes(node: &Node) -> Error {
    let place = if node.scope.is_empty() {
        String::new()
    } else {
        format!(" of {}", node.scope)
    };
    Error::user(format!(
        "the operation `{}`{place} depends on the sizes of the inputs in a way that cannot be exported",
        node.op.name()
    ))
}

/// For each node, whether an output depends on it.
fn live(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.nodes.len()];
    let mut pending: Vec<ValueId> = graph.outputs.iter().map(|output| output.value).collect();
    while let Some(value) = pending.pop() {
        if let Some(node) = graph.producer(value)
            && !std::mem::replace(&mut live[node.index()], true)
        {
            pending.extend(&graph.nodes[node.index()].inputs);
        }
    }
    live
}
