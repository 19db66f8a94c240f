//! Operations of several ranks as a begin and an end, between which the program computes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{Begun, Carrier, Ended, Graph, MOST_UNDER_WAY, Node, Op, Phase, ValueId};
use lessen_rewrite::Rewriter;

/// Operations that may be under way whatever their size: what a carrier holds of one is outside the plan.
const UNDER_WAY: usize = 2;

/// Replaces each operation of several ranks by one that begins it, where its inputs are there, and one that ends it,
/// just before its result is read or one begins that does not fit beside those before ([`MOST_UNDER_WAY`]). Tokens keep
/// all of them in one order, which is the same on all ranks: an operation that needs the result of another one comes
/// after the one that follows that, so that its messages need not wait for those before.
///
/// # Errors
/// Such an operation without a carrier, or of another dtype than `f32`.
pub fn carry(graph: &Graph, carrier: Option<&Arc<dyn Carrier>>) -> Result<Graph> {
    let Some(first) = graph.nodes.iter().find(|node| is_of_several(node)) else {
        return Ok(graph.clone());
    };
    let Some(carrier) = carrier else {
        return Err(Error::user(format!(
            "the operation `{}` is of several ranks, which take part in steps of a training with a group alone",
            first.op.name()
        )));
    };
    let mut carrying = Carrying {
        graph,
        rewriter: Rewriter::new(graph),
        under_way: VecDeque::new(),
        results: HashSet::new(),
        token: None,
    };
    for number in in_order(graph, &of_several(graph)) {
        let node = &graph.nodes[number];
        carrying.rewriter.stage = node.stage;
        carrying.end_before(node.phase);
        carrying.end_for(&node.inputs);
        if is_of_several(node) {
            carrying.end_for_room(node);
            let begun = Begun {
                op: node.op.clone(),
                number,
                inputs: node.inputs.len(),
                carrier: carrier.clone(),
            };
            carrying.begin(node, begun)?;
        } else {
            let inputs: Vec<ValueId> = node.inputs.iter().map(|v| carrying.rewriter.get(*v)).collect();
            carrying.rewriter.copy_with(node, &inputs, node.phase);
        }
    }
    while !carrying.under_way.is_empty() {
        carrying.end_first();
    }
    Ok(carrying.rewriter.finish())
}

/// Whether an operation is of several ranks.
fn is_of_several(node: &Node) -> bool {
    node.op.ranks().is_some_and(|ranks| ranks.count > 1)
}

/// What a node depends on.
#[derive(Clone, Copy, Default)]
struct Depends {
    /// How often an update with operations of several ranks comes before forward and backward, on a way to the node.
    updates: usize,
    /// The number of the last node of forward and backward.
    at: usize,
    /// The place of the last operation of several ranks in the same update.
    in_update: Option<usize>,
    /// The place of the last such operation in forward and backward.
    in_pass: Option<usize>,
}

impl Depends {
    fn of(node: &Node, number: usize, read: impl Iterator<Item = Depends> + Clone) -> Depends {
        let is_update = node.phase == Phase::Update;
        let after = |own: &Depends| own.updates + usize::from(!is_update && own.in_update.is_some());
        let updates = read.clone().map(|own| after(&own)).max().unwrap_or(0);
        let same = read.clone().filter(|own| is_update && own.updates == updates);
        Depends {
            updates,
            at: if is_update {
                read.clone().map(|own| own.at).max().unwrap_or(0)
            } else {
                number
            },
            in_update: same.filter_map(|own| own.in_update).max(),
            in_pass: read.filter_map(|own| own.in_pass).max(),
        }
    }
}

/// The place after an operation, or after all those that depend on none.
fn next_place(before: Option<usize>, independent: &mut usize) -> usize {
    match before {
        Some(before) => before + 1,
        None => {
            *independent += 1;
            *independent - 1
        }
    }
}

/// The operations of several ranks in the order in which they begin. Those of updates come among those of forward and
/// backward as soon as what they read is there, in an order of their own that does not depend on when that is.
fn of_several(graph: &Graph) -> Vec<usize> {
    let mut all: Vec<Depends> = Vec::with_capacity(graph.nodes.len());
    let (mut updates, mut passes) = (Vec::new(), Vec::new());
    let (mut of_updates, mut of_passes): (BTreeMap<usize, usize>, usize) = (BTreeMap::new(), 0);
    for (number, node) in graph.nodes.iter().enumerate() {
        let producers = node.inputs.iter().filter_map(|v| graph.producer(*v));
        let mut own = Depends::of(node, number, producers.map(|id| all[id.index()]));
        if is_of_several(node) && node.phase == Phase::Update {
            let place = next_place(own.in_update, of_updates.entry(own.updates).or_default());
            updates.push(((own.updates, place, own.in_update.is_some(), number), own.at));
            own.in_update = Some(place);
        } else if is_of_several(node) {
            let place = next_place(own.in_pass, &mut of_passes);
            passes.push((place, own.in_pass.is_some(), number));
            own.in_pass = Some(place);
        }
        all.push(own);
    }
    updates.sort_unstable();
    passes.sort_unstable();
    let (mut updates, mut latest) = (updates.into_iter().peekable(), 0);
    let mut order = Vec::new();
    for (.., other) in passes {
        while let Some(((.., number), at)) = updates.next_if(|(_, at)| latest.max(*at) < other) {
            latest = latest.max(at);
            order.push(number);
        }
        order.push(other);
    }
    order.extend(updates.map(|((.., number), _)| number));
    order
}

/// The nodes of a graph in the order of their numbers, as far as these operations follow each other.
fn in_order(graph: &Graph, operations: &[usize]) -> Vec<usize> {
    let mut waits = vec![0; graph.nodes.len()];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    let edges = graph.nodes.iter().enumerate().flat_map(|(number, node)| {
        let producers = node.inputs.iter().filter_map(|v| graph.producer(*v));
        producers.map(move |id| (id.index(), number))
    });
    for (from, to) in edges.chain(operations.windows(2).map(|pair| (pair[0], pair[1]))) {
        waits[to] += 1;
        next[from].push(to);
    }
    let ready = (0..waits.len()).filter(|number| waits[*number] == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse(number)) = ready.pop() {
        order.push(number);
        for &to in &next[number] {
            waits[to] -= 1;
            if waits[to] == 0 {
                ready.push(Reverse(to));
            }
        }
    }
    order
}

struct Carrying<'a> {
    graph: &'a Graph,
    rewriter: Rewriter<'a>,
    under_way: VecDeque<(&'a Node, Begun)>,
    /// The results of operations that are begun.
    results: HashSet<ValueId>,
    /// The token of the operation before.
    token: Option<ValueId>,
}

impl<'a> Carrying<'a> {
    /// The inputs of a node, and the token of the operation before.
    fn inputs(&self, node: &Node) -> Vec<ValueId> {
        let own = node.inputs.iter().map(|v| self.rewriter.get(*v));
        own.chain(self.token).collect()
    }

    fn begin(&mut self, node: &'a Node, begun: Begun) -> Result<()> {
        let inputs = self.inputs(node);
        let types: Vec<_> = inputs.iter().map(|v| self.rewriter.new.ty(*v).clone()).collect();
        begun.infer(&types)?;
        let token = self
            .rewriter
            .push(Arc::new(begun.clone()), &inputs, node.phase, &node.scope);
        self.token = token.first().copied();
        self.results.extend(&node.outputs);
        self.under_way.push_back((node, begun));
        Ok(())
    }

    /// Ends the operation that was begun first.
    fn end_first(&mut self) {
        let Some((node, begun)) = self.under_way.pop_front() else {
            return;
        };
        let inputs = self.inputs(node);
        let ended = self
            .rewriter
            .push(Arc::new(Ended(begun)), &inputs, node.phase, &node.scope);
        for (old, new) in node.outputs.iter().zip(&ended) {
            self.results.remove(old);
            self.rewriter.set(*old, *new);
        }
        self.token = ended.last().copied();
    }

    /// Ends operations, the first one first, until another one fits beside those that are under way.
    fn end_for_room(&mut self, node: &Node) {
        let bytes_of = |node: &Node| {
            let values = node.inputs.iter().chain(&node.outputs);
            values.map(|v| self.graph.ty(*v).bytes()).max().unwrap_or(0)
        };
        let mut sizes: VecDeque<usize> = self.under_way.iter().map(|(node, _)| bytes_of(node)).collect();
        let own = bytes_of(node);
        while sizes.len() >= UNDER_WAY && sizes.iter().fold(own, |all, size| all.saturating_add(*size)) > MOST_UNDER_WAY
        {
            sizes.pop_front();
            self.end_first();
        }
    }

    /// Ends the operations of forward before backward begins, whose values are told from those of forward.
    fn end_before(&mut self, phase: Phase) {
        let is_over = |node: &Node| node.phase == Phase::Forward && phase == Phase::Backward;
        while self.under_way.iter().any(|(node, _)| is_over(node)) {
            self.end_first();
        }
    }

    /// Ends the operations whose results are among these values.
    fn end_for(&mut self, values: &[ValueId]) {
        while values.iter().any(|v| self.results.contains(v)) {
            self.end_first();
        }
    }
}
