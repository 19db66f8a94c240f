//! Cost: how long a step of a schedule takes by the rates of the device. Times are sums over steps, so that two ways to
//! the same values can be compared without running either.

use std::collections::BTreeSet;

use lessen_graph::{DType, Graph, ValueId};

use crate::place::Place;
use crate::planned::{PlannedStep, Storage};
use crate::target::Rates;

/// A planned graph, as far as its cost depends on it.
pub(crate) struct Costed<'a> {
    pub graph: &'a Graph,
    pub places: &'a [Place],
    pub storage: &'a [Storage],
}

impl Costed<'_> {
    /// Seconds of a step: its products, its other operations, what it reads from memory and writes there, and its
    /// begin. Blocks of rows that never leave a group's scratch are in a cache and cost nothing.
    pub fn seconds(&self, step: &PlannedStep, rates: &Rates) -> f64 {
        let mut seconds = rates.begin;
        let mut touched: BTreeSet<ValueId> = BTreeSet::new();
        for id in &step.nodes {
            let node = &self.graph.nodes[id.index()];
            let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
            let cost = node.op.cost(&inputs, &outputs);
            let is_narrow = inputs.iter().any(|ty| ty.dtype == DType::BF16);
            let products = if is_narrow {
                rates.narrow_products
            } else {
                rates.products
            };
            seconds += cost.product_flops / products + cost.vector_flops / rates.others;
            touched.extend(node.inputs.iter().map(|&v| self.places[v.index()].base));
            touched.extend(node.outputs.iter().map(|&v| self.places[v.index()].base));
        }
        let in_memory = |base: &&ValueId| !matches!(self.storage[base.index()], Storage::Local(_) | Storage::None);
        let bytes: usize = (touched.iter().filter(in_memory))
            .map(|&base| self.graph.ty(base).bytes())
            .sum();
        seconds + bytes as f64 / rates.memory
    }
}
