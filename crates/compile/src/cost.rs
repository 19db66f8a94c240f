//! Cost: how long a step of a schedule takes, by the rates of the device or by what was measured of its operations.
//! Times are sums over steps, so that two ways to the same values can be compared without running either.

use std::collections::HashSet;

use lessen_graph::{DType, Graph, Node, NodeId, ValueId};

use crate::bytes;
use crate::costs::{Measured, MeasuredMemory, Operands, Rates};
use crate::node_types::NodeTypes;
use crate::options::CostSource;
use crate::place::Place;
use crate::planned::{PlannedStep, Storage};
use crate::target::Target;

/// A planned graph, as far as its cost depends on it.
pub(crate) struct Costed<'a> {
    pub graph: &'a Graph,
    pub types: &'a NodeTypes,
    pub places: &'a [Place],
    pub storage: &'a [Storage],
    pub target: &'a dyn Target,
    pub source: CostSource,
}

impl Costed<'_> {
    /// Seconds of each step: its products, its other operations, its reads from memory and writes to memory, and its
    /// begin. Row blocks that never leave the scratch of a row group are in a cache and cost nothing; arrays that the
    /// steps before have left in a cache cost nothing to read.
    pub fn seconds(&self, steps: &[PlannedStep]) -> Vec<f64> {
        let mut cache = Cache {
            bytes: self.target.limits().cache_bytes,
            passed: 0,
            touched: vec![None; self.graph.values.len()],
        };
        let seconds = steps.iter().map(|step| {
            let touched = self.touched(step, &cache);
            cache.pass(&touched, self.footprint(step, &touched));
            self.of_step(step, &touched)
        });
        seconds.collect()
    }

    fn of_step(&self, step: &PlannedStep, touched: &Touched) -> f64 {
        let rates = self.target.costs().rates();
        if self.source == CostSource::Measured
            && let Some(memory) = self.target.costs().measured_memory()
        {
            return self.measured(step, touched, &rates, &memory);
        }
        let nodes = step.nodes.iter();
        let computed = nodes.fold(rates.step_overhead_seconds, |seconds, id| {
            seconds + self.by_rates(*id, &rates)
        });
        let bytes: usize = touched
            .read_from_memory()
            .chain(&touched.written)
            .map(|base| self.bytes(base))
            .sum();
        computed + bytes as f64 / rates.memory
    }

    /// The same where the device has measured its operations and its memory. Where it has not measured one, its rates
    /// stand in.
    fn measured(&self, step: &PlannedStep, touched: &Touched, rates: &Rates, memory: &MeasuredMemory) -> f64 {
        let (mut in_cache, mut whole) = (0.0, 0.0);
        for id in &step.nodes {
            let node = self.node(*id);
            let (inputs, outputs) = self.types.of_node(id.index());
            let operands = Operands {
                inputs,
                layouts: node.inputs.iter().map(|v| &self.places[v.index()].layout).collect(),
                outputs,
            };
            match self.target.costs().measured(node.op.as_ref(), &operands) {
                Some(Measured::InCache(seconds)) => in_cache += seconds,
                Some(Measured::Whole(seconds)) => whole += seconds,
                None => in_cache += self.by_rates(*id, rates),
            }
        }
        let moved = self.moved(touched) / memory.rate;
        memory.step_overhead_seconds + (in_cache + moved).max(whole)
    }

    /// Seconds of the computation of a node, by the rates.
    fn by_rates(&self, id: NodeId, rates: &Rates) -> f64 {
        let (inputs, outputs) = self.types.of_node(id.index());
        let cost = self.graph.ask(self.node(id), inputs, outputs).cost();
        let is_narrow = inputs.iter().any(|ty| ty.dtype == DType::BF16);
        let products = if is_narrow {
            rates.narrow_products
        } else {
            rates.products
        };
        cost.product_flops / products + cost.vector_flops / rates.others
    }

    /// Bytes that a step moves between memory and caches.
    fn moved(&self, touched: &Touched) -> f64 {
        let written = &touched.written;
        let bytes = |base: &ValueId| self.bytes(base) as f64;
        let reads: f64 = touched.read_from_memory().map(bytes).sum();
        let in_place: f64 = touched.in_place.iter().map(bytes).sum();
        let all: f64 = written.iter().map(bytes).sum();
        reads + 2.0 * all - in_place
    }

    /// Bytes of all memory that a step touches, its scratch included.
    fn footprint(&self, step: &PlannedStep, touched: &Touched) -> usize {
        let Touched {
            read,
            written,
            in_place,
            ..
        } = touched;
        let new = written.iter().filter(|base| in_place.binary_search(base).is_err());
        let arrays = read.iter().chain(new).map(|base| self.bytes(base));
        let scratch = [step.scratch.bytes(self.target.limits().workers), step.shared_scratch];
        bytes::sum(arrays.chain(scratch))
    }

    fn bytes(&self, base: &ValueId) -> usize {
        self.graph.ty(*base).bytes()
    }

    /// Arrays in memory that a step reads, and arrays in memory that it writes.
    fn touched(&self, step: &PlannedStep, cache: &Cache) -> Touched {
        let base = |v: &ValueId| self.places[v.index()].base;
        let in_memory = |base: &ValueId| !matches!(self.storage[base.index()], Storage::Local(_) | Storage::None);
        let nodes = || step.nodes.iter().map(|id| self.node(*id));
        let inputs = nodes().flat_map(|node| &node.inputs).map(base);
        let read = sorted(inputs.filter(in_memory));
        let outputs = nodes().flat_map(|node| &node.outputs).map(base);
        let written = sorted(outputs.filter(in_memory));
        let storage = |base: &ValueId| self.storage[base.index()];
        let places: HashSet<Storage> = read.iter().map(storage).collect();
        let is_read = |base: &ValueId| places.contains(&storage(base));
        Touched {
            cached: read.iter().copied().filter(|base| cache.holds(base)).collect(),
            in_place: written.iter().copied().filter(is_read).collect(),
            written,
            read,
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id.index()]
    }
}

/// Bases of the values that a step reads and writes, each once, in order.
struct Touched {
    read: Vec<ValueId>,
    /// Bases that are read and in a cache before the step.
    cached: Vec<ValueId>,
    written: Vec<ValueId>,
    /// Written bases that take the place of a base that the step reads.
    in_place: Vec<ValueId>,
}

/// The values in order, each once.
fn sorted(values: impl Iterator<Item = ValueId>) -> Vec<ValueId> {
    let mut values: Vec<ValueId> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

impl Touched {
    /// Bases that the step reads from memory.
    fn read_from_memory(&self) -> impl Iterator<Item = &ValueId> {
        let is_in = |values: &[ValueId], base: &ValueId| values.binary_search(base).is_ok();
        (self.read.iter()).filter(move |base| !is_in(&self.cached, base) && !is_in(&self.written, base))
    }
}

/// The arrays that a schedule finds in the workers' caches. An array that a step has touched stays there as long as all
/// arrays that this step and the steps after it have touched fit there together.
struct Cache {
    bytes: usize,
    /// Bytes that the steps so far have touched.
    passed: usize,
    /// For each array, by its base, the value of `passed` before the last step that touched the array.
    touched: Vec<Option<usize>>,
}

impl Cache {
    fn holds(&self, base: &ValueId) -> bool {
        self.touched[base.index()].is_some_and(|before| self.passed - before <= self.bytes)
    }

    /// Goes on past a step that touches `bytes` bytes.
    fn pass(&mut self, touched: &Touched, bytes: usize) {
        for base in touched.read.iter().chain(&touched.written) {
            self.touched[base.index()] = Some(self.passed);
        }
        self.passed = self.passed.saturating_add(bytes);
    }
}
