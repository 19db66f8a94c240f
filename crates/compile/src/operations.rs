//! The operations that the plans of a graph are made of, for a device that measures them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lessen_graph::{Graph, InputKind, Layout, NodeId, Op, Phase, Type, ValueId};

use crate::bytes;
use crate::costs::{Operands, Rates};
use crate::options::Options;
use crate::place::{Place, is_view, places};
use crate::target::Target;

/// An operation on values of given types, as it runs in a plan.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The operation.
    pub op: Arc<dyn Op>,
    /// Types of its inputs.
    pub inputs: Vec<Type>,
    /// Layouts of its inputs in their base arrays.
    pub layouts: Vec<Layout>,
    /// Types of its results.
    pub outputs: Vec<Type>,
    /// Seconds that it takes in a run of the graph, by the device's rates.
    pub share: f64,
    /// A graph of this operation alone, its last node, and of the views that it reads.
    pub graph: Graph,
}

impl Operation {
    /// A node of a graph.
    pub fn of(graph: &Graph, id: NodeId) -> Operation {
        Operation::with_places(graph, &places(graph), id)
    }

    fn with_places(graph: &Graph, places: &[Place], id: NodeId) -> Operation {
        let node = &graph.nodes[id.index()];
        let mut own = Own {
            graph,
            places,
            new: Graph::with_operations_of(graph),
            values: HashMap::new(),
        };
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| own.value(v)).collect();
        let made = own
            .new
            .add_node(node.op.clone(), &inputs, Phase::Forward, Arc::from(""));
        made.expect("a copy of a node keeps its types");
        Operation {
            op: node.op.clone(),
            inputs: graph.input_types(node),
            layouts: node.inputs.iter().map(|v| places[v.index()].layout.clone()).collect(),
            outputs: graph.output_types(node),
            share: 0.0,
            graph: own.new,
        }
    }

    /// Inputs and outputs of the operation.
    pub fn operands(&self) -> Operands<'_> {
        Operands {
            inputs: &self.inputs,
            layouts: self.layouts.iter().collect(),
            outputs: &self.outputs,
        }
    }

    /// Bytes of its inputs and of its results.
    pub fn bytes(&self) -> usize {
        bytes::sum(self.inputs.iter().chain(&self.outputs).map(Type::bytes))
    }

    fn seconds(&self, rates: &Rates) -> f64 {
        // The operation is the last node of its own graph.
        let node = self.graph.nodes.last().expect("the operation's node");
        let cost = self.graph.ask(node, &self.inputs, &self.outputs).cost();
        cost.product_flops / rates.products + cost.vector_flops / rates.others + cost.bytes / rates.memory
    }
}

/// The graph of an operation alone, while it is made.
struct Own<'a> {
    graph: &'a Graph,
    places: &'a [Place],
    new: Graph,
    values: HashMap<ValueId, ValueId>,
}

impl Own<'_> {
    /// A value that the operation reads: a view, or an input.
    fn value(&mut self, old: ValueId) -> ValueId {
        if let Some(&known) = self.values.get(&old) {
            return known;
        }
        if let Some(id) = self
            .graph
            .producer(old)
            .filter(|_| self.places[old.index()].base != old)
        {
            let node = &self.graph.nodes[id.index()];
            let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| self.value(v)).collect();
            let made = self
                .new
                .add_node(node.op.clone(), &inputs, Phase::Forward, Arc::from(""));
            let made = made.expect("a copy of a node keeps its types");
            self.values.extend(node.outputs.iter().copied().zip(made));
            return self.values[&old];
        }
        let name = format!("input {}", self.new.inputs.len());
        let new = self.new.add_input(&name, InputKind::Data, self.graph.ty(old).clone());
        let new = new.expect("a value of a graph has a size that can be counted");
        self.values.insert(old, new);
        new
    }
}

/// The operations that run in any plan of a graph, each once, in the order of their shares, largest first.
pub fn operations(graph: &Graph, options: &Options, target: &dyn Target) -> Vec<Operation> {
    let rates = target.costs().rates();
    let mut found: Vec<Operation> = Vec::new();
    let mut known: HashMap<u64, usize> = HashMap::new();
    for graph in crate::compiler::planned_graphs(graph, options, target) {
        let places = places(&graph);
        for (i, node) in graph.nodes.iter().enumerate() {
            if node.inputs.is_empty() || is_view(&places, node) {
                continue;
            }
            let operation = Operation::with_places(&graph, &places, NodeId(i as u32));
            let mut hasher = DefaultHasher::new();
            (
                operation.op.name(),
                operation.op.fingerprint(),
                &operation.inputs,
                &operation.outputs,
            )
                .hash(&mut hasher);
            operation
                .layouts
                .iter()
                .for_each(|layout| (layout.offset, &layout.strides).hash(&mut hasher));
            let share = operation.seconds(&rates);
            let at = *known.entry(hasher.finish()).or_insert(found.len());
            if at == found.len() {
                found.push(operation);
            }
            found[at].share += share;
        }
    }
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}
