//! Cost: how long a step of a schedule takes, by the rates of the device or by what was measured of its operations.
//! Times are sums over steps, so that two ways to the same values can be compared without running either.

use std::collections::BTreeSet;

use lessen_graph::{DType, Graph, Node, NodeId, Type, ValueId};

use crate::options::CostModel;
use crate::place::Place;
use crate::planned::{PlannedStep, Storage};
use crate::target::{Measured, MeasuredMemory, Operands, Rates, Target};

/// A planned graph, as far as its cost depends on it.
pub(crate) struct Costed<'a> {
    pub graph: &'a Graph,
    pub places: &'a [Place],
    pub storage: &'a [Storage],
    pub target: &'a dyn Target,
    pub model: CostModel,
}

impl Costed<'_> {
    /// Seconds of a step: its products, its other operations, what it reads from memory and writes there, and its
    /// begin. Blocks of rows that never leave a group's scratch are in a cache and cost nothing.
    pub fn seconds(&self, step: &PlannedStep) -> f64 {
        let rates = self.target.rates();
        if self.model == CostModel::Measured
            && let Some(memory) = self.target.measured_memory()
        {
            return self.measured(step, &rates, &memory);
        }
        let nodes = step.nodes.iter().map(|id| self.node(*id));
        let computed = nodes.fold(rates.begin, |seconds, node| seconds + self.by_rates(node, &rates));
        let Touched { read, written } = self.touched(step);
        let bytes: usize = read.union(&written).map(|&base| self.graph.ty(base).bytes()).sum();
        computed + bytes as f64 / rates.memory
    }

    /// The same where the device has measured its operations and its memory. Where it has not measured one, its rates
    /// stand in.
    fn measured(&self, step: &PlannedStep, rates: &Rates, memory: &MeasuredMemory) -> f64 {
        let (mut in_cache, mut whole) = (0.0, 0.0);
        for id in &step.nodes {
            let node = self.node(*id);
            let (inputs, outputs) = self.types(node);
            let operands = Operands {
                inputs: &inputs,
                layouts: node.inputs.iter().map(|v| &self.places[v.index()].layout).collect(),
                outputs: &outputs,
            };
            match self.target.measured(node.op.as_ref(), &operands) {
                Some(Measured::InCache(seconds)) => in_cache += seconds,
                Some(Measured::Whole(seconds)) => whole += seconds,
                None => in_cache += self.by_rates(node, rates),
            }
        }
        let moved = self.moved(step) / memory.rate;
        memory.begin + (in_cache + moved).max(whole)
    }

    /// Seconds of what a node computes.
    fn by_rates(&self, node: &Node, rates: &Rates) -> f64 {
        let (inputs, outputs) = self.types(node);
        let cost = node.op.cost(&inputs, &outputs);
        let is_narrow = inputs.iter().any(|ty| ty.dtype == DType::BF16);
        let products = if is_narrow {
            rates.narrow_products
        } else {
            rates.products
        };
        cost.product_flops / products + cost.vector_flops / rates.others
    }

    /// Bytes that a step moves between memory and caches.
    fn moved(&self, step: &PlannedStep) -> f64 {
        let Touched { read, written } = self.touched(step);
        let bytes = |base: &ValueId| self.graph.ty(*base).bytes() as f64;
        let storage = |base: &ValueId| self.storage[base.index()];
        let again = |base: &&ValueId| read.iter().any(|other| storage(other) == storage(base));
        let reads: f64 = read.difference(&written).map(bytes).sum();
        let in_place: f64 = written.iter().filter(again).map(bytes).sum();
        let all: f64 = written.iter().map(bytes).sum();
        reads + 2.0 * all - in_place
    }

    /// The arrays in memory that a step reads, and those that it writes.
    fn touched(&self, step: &PlannedStep) -> Touched {
        let base = |v: &ValueId| self.places[v.index()].base;
        let in_memory = |base: &ValueId| !matches!(self.storage[base.index()], Storage::Local(_) | Storage::None);
        let nodes = || step.nodes.iter().map(|id| self.node(*id));
        Touched {
            read: nodes()
                .flat_map(|node| &node.inputs)
                .map(base)
                .filter(in_memory)
                .collect(),
            written: nodes()
                .flat_map(|node| &node.outputs)
                .map(base)
                .filter(in_memory)
                .collect(),
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id.index()]
    }

    fn types(&self, node: &Node) -> (Vec<Type>, Vec<Type>) {
        (self.graph.input_types(node), self.graph.output_types(node))
    }
}

/// Bases of the values that a step reads and writes.
struct Touched {
    read: BTreeSet<ValueId>,
    written: BTreeSet<ValueId>,
}
