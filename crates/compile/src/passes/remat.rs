//! Recomputation: the backward phase recomputes a forward value from what is there anyway, instead of keeping it.
//!
//! Recomputing runs the same operations on the same inputs, so nothing changes but memory and time. Row-wise values
//! (activations, norms, sums) whose inputs are kept or recomputable are recomputed always: that is activation
//! checkpointing at the grain of single values, where Tempo (NeurIPS 2022) keeps outputs and masks instead. Products
//! are candidates for a tighter budget, each with its price.

use std::collections::HashMap;

use lessen_graph::ops::MatMul;
use lessen_graph::{Def, Graph, InputKind, Node, NodeId, Phase, RowWise, ValueId};

use crate::layout::{Place, places};
use crate::report::describe;
use crate::rewrite::Rewriter;

/// Values smaller than this are not worth a node.
const SMALLEST: usize = 16 << 10;

/// A forward value that backward could recompute.
#[derive(Clone, Debug)]
pub struct Recompute {
    /// The value, in the graph before recomputation.
    pub value: ValueId,
    /// Where in the model it is written, and the operation.
    pub name: String,
    /// Bytes that need not be kept.
    pub bytes: usize,
    /// Floating-point operations that recomputing it costs; 0 counts as free.
    pub flops: f64,
}

/// What backward reads of the forward phase, and how each of it could be had again.
struct Forward<'a> {
    graph: &'a Graph,
    places: Vec<Place>,
    /// Bases that backward reads.
    kept: Vec<bool>,
}

impl Forward<'_> {
    fn new(graph: &Graph) -> Forward<'_> {
        let places = places(graph);
        let mut kept = vec![false; graph.values.len()];
        for node in graph.nodes.iter().filter(|n| n.phase != Phase::Forward) {
            for input in &node.inputs {
                kept[places[input.index()].base.index()] = true;
            }
        }
        Forward { graph, places, kept }
    }

    fn base(&self, value: ValueId) -> ValueId {
        self.places[value.index()].base
    }

    fn producer(&self, base: ValueId) -> Option<&Node> {
        self.graph.producer(base).map(|id| &self.graph.nodes[id.index()])
    }

    /// Whether a base is no value of the forward phase that could be computed again: an input, a constant, a value of
    /// a later phase.
    fn source(&self, base: ValueId) -> bool {
        self.producer(base)
            .is_none_or(|n| n.inputs.is_empty() || n.phase != Phase::Forward)
    }

    /// Whether a base is there in backward whatever is decided. Data lies in the arena, until its last reader.
    fn there(&self, base: ValueId) -> bool {
        let data = matches!(self.graph.values[base.index()].def,
            Def::Input(i) if self.graph.inputs[i].kind == InputKind::Data);
        self.kept[base.index()] || self.source(base) && !data
    }

    /// What computing a base again costs, from what backward reads anyway; none if that is not possible.
    fn price(&self, base: ValueId, products: bool, memo: &mut HashMap<ValueId, Option<f64>>) -> Option<f64> {
        if let Some(&known) = memo.get(&base) {
            return known;
        }
        let price = self.producer(base).and_then(|node| {
            let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
            if node.op.row_wise(&inputs, &outputs) == RowWise::No {
                return None;
            }
            let product = node.op.as_ref().is::<MatMul>();
            if product && !products {
                return None;
            }
            let own = if product {
                node.op.cost(&inputs, &outputs).flops()
            } else {
                0.0
            };
            node.inputs.iter().try_fold(own, |sum, &input| {
                let input = self.base(input);
                if self.there(input) {
                    Some(sum)
                } else if self.source(input) {
                    None
                } else {
                    Some(sum + self.price(input, products, memo)?)
                }
            })
        });
        memo.insert(base, price);
        price
    }

    fn candidates(&self, products: bool) -> Vec<Recompute> {
        let mut memo = HashMap::new();
        let mut found = Vec::new();
        for i in 0..self.graph.values.len() {
            let value = ValueId(i as u32);
            let bytes = self.graph.ty(value).bytes();
            if !self.kept[i] || self.source(value) || bytes < SMALLEST {
                continue;
            }
            if let Some(flops) = self.price(value, products, &mut memo) {
                let name = describe(self.graph, value).0;
                found.push(Recompute {
                    value,
                    name,
                    bytes,
                    flops,
                });
            }
        }
        found
    }
}

/// Forward values that backward can recompute with row-wise operations alone.
pub(crate) fn free(graph: &Graph) -> Vec<Recompute> {
    Forward::new(graph).candidates(false)
}

/// Forward values whose recomputation takes matrix products, the cheapest per byte first.
pub(crate) fn priced(graph: &Graph) -> Vec<Recompute> {
    let mut found: Vec<Recompute> = Forward::new(graph)
        .candidates(true)
        .into_iter()
        .filter(|c| c.flops > 0.0)
        .collect();
    // Earlier values first among equals: the later ones are needed again at once, when the most is alive.
    found.sort_by(|a, b| {
        let rate = |c: &Recompute| c.flops / c.bytes as f64;
        rate(a).total_cmp(&rate(b)).then(a.value.cmp(&b.value))
    });
    found
}

/// Lets backward recompute these forward values. Each is recomputed once, just before its first reader in backward.
pub fn recompute(graph: &Graph, values: &[ValueId]) -> Graph {
    let forward = Forward::new(graph);
    let mut dropped = vec![false; graph.values.len()];
    for value in values {
        dropped[value.index()] = true;
    }
    let mut clones = Clones {
        forward: &forward,
        dropped,
        rewriter: Rewriter::new(graph),
        made: HashMap::new(),
    };
    for node in &graph.nodes {
        if node.phase == Phase::Forward {
            clones.rewriter.copy(node);
            continue;
        }
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| clones.read(v)).collect();
        let outputs = clones
            .rewriter
            .push(node.op.clone(), &inputs, node.phase, &node.scope);
        for (&old, new) in node.outputs.iter().zip(outputs) {
            clones.rewriter.set(old, new);
        }
    }
    clones.rewriter.finish(graph)
}

struct Clones<'a> {
    forward: &'a Forward<'a>,
    dropped: Vec<bool>,
    rewriter: Rewriter,
    made: HashMap<ValueId, ValueId>,
}

impl Clones<'_> {
    /// What backward reads for a value: a recomputation if it is dropped.
    fn read(&mut self, value: ValueId) -> ValueId {
        let base = self.forward.base(value);
        if self.forward.source(base) || !self.dropped[base.index()] {
            self.rewriter.get(value)
        } else {
            self.again(value)
        }
    }

    /// A recomputation of a value.
    fn again(&mut self, value: ValueId) -> ValueId {
        if let Some(&made) = self.made.get(&value) {
            return made;
        }
        let forward = self.forward;
        let node: NodeId = forward
            .graph
            .producer(value)
            .expect("sources are read, not recomputed");
        let node = &forward.graph.nodes[node.index()];
        let inputs: Vec<ValueId> = node
            .inputs
            .iter()
            .map(|&input| {
                let base = forward.base(input);
                let there =
                    forward.source(base) || (forward.kept[base.index()] && !self.dropped[base.index()]);
                if there {
                    self.rewriter.get(input)
                } else {
                    self.again(input)
                }
            })
            .collect();
        let outputs = self
            .rewriter
            .push(node.op.clone(), &inputs, Phase::Backward, &node.scope);
        for (&old, &new) in node.outputs.iter().zip(&outputs) {
            self.made.insert(old, new);
        }
        self.made[&value]
    }
}

/// Whether a graph has a backward phase that could recompute anything.
pub(crate) fn trains(graph: &Graph) -> bool {
    graph.nodes.iter().any(|n| n.phase == Phase::Backward)
        && graph.inputs.iter().any(|i| i.kind == InputKind::State)
}
