//! Recomputation (activation checkpointing of single values): backward recomputes a forward value from values that it
//! reads anyway, instead of keeping it.
//!
//! Recomputing runs the same operations on the same inputs, so only memory and time change. Row-wise values
//! (activations, norms, sums) whose inputs are kept or can be recomputed are always recomputed, where Tempo (NeurIPS
//! 2022) keeps outputs and masks. Products are recomputed only under a budget, each at its price in floating-point
//! operations. The same holds for a row-wise value at the end of a long chain of recomputed values: without that, a
//! residual network would be recomputed from its beginning.

use std::collections::HashMap;

use lessen_graph::{Def, Graph, InputKind, Node, NodeId, Phase, RowWise, ValueId};

use super::narrow::widened_from;
use super::saved::{Packed, Recompute};
use crate::node_types::NodeTypes;
use crate::place::{Place, places_of};
use crate::value_name::describe;

/// Smaller values are not worth recomputing.
pub(crate) const SMALLEST: usize = 16 << 10;

/// The longest chain of row-wise operations to a value that is always recomputed.
const LONGEST_CHAIN: usize = 7;

/// The forward values of a graph: which ones backward reads, and what recomputing each costs.
pub(crate) struct Forward<'a> {
    pub graph: &'a Graph,
    pub types: NodeTypes,
    pub places: Vec<Place>,
    /// For each base whether backward reads it.
    pub kept: Vec<bool>,
}

impl Forward<'_> {
    pub fn new(graph: &Graph) -> Forward<'_> {
        let types = NodeTypes::of(graph);
        let places = places_of(graph, &types);
        let mut kept = vec![false; graph.values.len()];
        for node in graph.nodes.iter().filter(|n| n.phase != Phase::Forward) {
            for input in &node.inputs {
                let base = places[input.index()].base;
                kept[base.index()] = true;
                // Keeping the `bf16` value that it is widened from takes half the bytes.
                let is_forward = |id: NodeId| graph.nodes[id.index()].phase == Phase::Forward;
                if let Some(narrow) = widened_from(graph, base)
                    && graph.producer(base).is_some_and(is_forward)
                {
                    kept[places[narrow.index()].base.index()] = true;
                }
            }
        }
        Forward {
            graph,
            types,
            places,
            kept,
        }
    }

    pub fn base(&self, value: ValueId) -> ValueId {
        self.places[value.index()].base
    }

    pub fn producer(&self, base: ValueId) -> Option<&Node> {
        self.graph.producer(base).map(|id| &self.graph.nodes[id.index()])
    }

    /// Whether a base cannot be recomputed, because it is an input, a constant, a value of a later phase, or the result
    /// of an operation of several ranks.
    pub fn source(&self, base: ValueId) -> bool {
        self.producer(base)
            .is_none_or(|n| n.inputs.is_empty() || n.phase != Phase::Forward || n.op.ranks().is_some())
    }

    /// Whether backward can read a base without recomputing it, whatever else is recomputed. It cannot read data: that
    /// lies in the arena until its last reader.
    fn available(&self, base: ValueId) -> bool {
        let data = matches!(self.graph.values[base.index()].def,
            Def::Input(i) if self.graph.inputs[i].kind == InputKind::Data);
        self.kept[base.index()] || self.source(base) && !data
    }

    /// For each base the cost of recomputing it from values that backward reads anyway; none where that is not
    /// possible. Products are recomputed only if `products` is set.
    pub fn prices(&self, products: bool) -> Vec<Option<f64>> {
        let mut prices = vec![None; self.graph.values.len()];
        // A value comes after the values that it is computed from.
        for i in 0..prices.len() {
            prices[i] = self.price(ValueId(i as u32), products, &prices);
        }
        prices
    }

    fn price(&self, base: ValueId, products: bool, prices: &[Option<f64>]) -> Option<f64> {
        let id = self.graph.producer(base)?;
        let (node, (inputs, outputs)) = (&self.graph.nodes[id.index()], self.types.of_node(id.index()));
        let product = node.op.is_contraction();
        let asked = self.graph.ask(node, inputs, outputs);
        if product && !products || asked.row_wise() == RowWise::No {
            return None;
        }
        let own = if product { asked.cost().flops() } else { 0.0 };
        node.inputs.iter().try_fold(own, |sum, &input| {
            let input = self.base(input);
            if self.available(input) {
                Some(sum)
            } else if self.source(input) {
                None
            } else {
                Some(sum + prices[input.index()]?)
            }
        })
    }

    /// For each candidate, in order, the number of operations that lead to it from kept values, where candidates with a
    /// short chain are recomputed.
    fn chains(&self, candidates: &[Recompute]) -> Vec<usize> {
        let mut candidates = candidates.iter().map(|candidate| candidate.value).peekable();
        let (mut chains, mut found) = (vec![0; self.graph.values.len()], Vec::new());
        // A value comes after the values that it is computed from.
        for i in 0..chains.len() {
            let value = ValueId(i as u32);
            let is_candidate = candidates.next_if_eq(&value).is_some();
            let inputs = self.producer(value).map(|node| node.inputs.as_slice());
            if self.source(value) || (self.kept[i] && !is_candidate) {
                continue;
            }
            let longest = |inputs: &[ValueId]| inputs.iter().map(|&input| chains[self.base(input).index()]).max();
            let chain = 1 + inputs.and_then(longest).unwrap_or(0);
            if is_candidate {
                found.push(chain);
            }
            chains[i] = if is_candidate && chain > LONGEST_CHAIN {
                0
            } else {
                chain
            };
        }
        found
    }

    fn candidates(&self, products: bool, bits: &[Packed]) -> Vec<Recompute> {
        let prices = self.prices(products);
        let packed: HashMap<ValueId, usize> = bits.iter().map(|packed| (packed.value, packed.bytes)).collect();
        let candidate = |i: usize| {
            let value = ValueId(i as u32);
            let bytes = packed.get(&value).copied().unwrap_or(self.graph.ty(value).bytes());
            if !self.kept[i] || self.source(value) || bytes < SMALLEST {
                return None;
            }
            Some(Recompute {
                value,
                name: describe(self.graph, value).0,
                bytes,
                flops: prices[i]?,
                error: 0.0,
            })
        };
        (0..prices.len()).filter_map(candidate).collect()
    }
}

/// Forward values that backward can recompute with short chains of row-wise operations.
pub(crate) fn free(forward: &Forward<'_>) -> Vec<Recompute> {
    let (near, _) = row_wise(forward);
    near
}

/// The outputs of operations whose derivative can be computed from the output instead of the input. Tempo keeps one of
/// the two.
pub(crate) fn tempo_values(forward: &Forward<'_>) -> Vec<Recompute> {
    let graph = forward.graph;
    let mut is_side = vec![false; graph.values.len()];
    for backward in graph.nodes.iter().filter(|node| node.phase == Phase::Backward) {
        let (inputs, outputs) = (graph.input_types(backward), graph.output_types(backward));
        let Some(rule) = graph.ask(backward, &inputs, &outputs).from_output() else {
            continue;
        };
        let before = graph.nodes.iter().filter(|node| node.phase == Phase::Forward);
        for node in before.filter(|node| rule.fits(backward, node)) {
            is_side[node.outputs[0].index()] = true;
        }
    }
    let mut found = forward.candidates(false, &[]);
    found.retain(|candidate| is_side[candidate.value.index()]);
    found
}

/// Forward values that backward can recompute with row-wise operations alone: values at the end of a short chain, and
/// the other values at the price of their chain.
fn row_wise(forward: &Forward<'_>) -> (Vec<Recompute>, Vec<Recompute>) {
    let candidates = forward.candidates(false, &[]);
    let chains = forward.chains(&candidates);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (candidate, chain) in candidates.into_iter().zip(chains) {
        if chain <= LONGEST_CHAIN {
            near.push(candidate);
        } else {
            let flops = (forward.graph.ty(candidate.value).numel() * chain) as f64;
            far.push(Recompute { flops, ..candidate });
        }
    }
    (near, far)
}

/// Forward values whose recomputation takes matrix products or a long chain of operations, the cheapest per byte first.
/// `bits` are values that take only the bytes of their bits.
pub(crate) fn priced(forward: &Forward<'_>, bits: &[Packed]) -> Vec<Recompute> {
    let products = forward.candidates(true, bits).into_iter().filter(|c| c.flops > 0.0);
    let mut found: Vec<Recompute> = products.chain(row_wise(forward).1).collect();
    // Among equal prices the earlier value comes first: a later one is read again soon, at the peak.
    found.sort_by(|a, b| {
        let rate = |c: &Recompute| c.flops / c.bytes as f64;
        rate(a).total_cmp(&rate(b)).then(a.value.cmp(&b.value))
    });
    found
}

/// Whether a graph trains: whether it has a backward phase and states.
pub(crate) fn trains(graph: &Graph) -> bool {
    graph.nodes.iter().any(|n| n.phase == Phase::Backward) && graph.inputs.iter().any(|i| i.kind == InputKind::State)
}
