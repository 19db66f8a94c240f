//! The lane of the network: what a program computes while messages are under way, and how long it waits for them.

use std::collections::HashMap;

use lessen_graph::{Begun, DType, Ended, Graph, NodeId, Transfer};

use crate::node_types::NodeTypes;
use crate::planned::PlannedStep;
use crate::target::Target;

/// The most operations of several ranks that wait to begin while the program computes on: each keeps its inputs.
const WAITING: usize = 4;

/// The part of a node in an exchange.
#[derive(Clone, Copy)]
enum Part {
    /// It begins operation `number`.
    Begin { number: usize, transfer: Transfer },
    /// It ends operation `number`.
    End { number: usize },
}

/// The exchanges of a program, and the time at which each is over.
pub(crate) struct Lane {
    parts: Vec<Option<Part>>,
    now: f64,
    /// When the messages before are sent.
    free: f64,
    over: HashMap<usize, f64>,
}

impl Lane {
    /// The exchanges of a graph; none where it has no operation of several ranks.
    pub fn of(graph: &Graph, types: &NodeTypes) -> Option<Lane> {
        let part = |(at, node): (usize, &lessen_graph::Node)| {
            if let Some(begun) = node.op.downcast_ref::<Begun>() {
                let (inputs, _) = types.of_node(at);
                return Some(Part::Begin {
                    number: begun.number,
                    transfer: begun.transfer(inputs).unwrap_or_default(),
                });
            }
            let Ended(begun) = node.op.downcast_ref::<Ended>()?;
            Some(Part::End { number: begun.number })
        };
        let parts: Vec<Option<Part>> = graph.nodes.iter().enumerate().map(part).collect();
        parts.iter().any(Option::is_some).then(|| Lane {
            parts,
            now: 0.0,
            free: 0.0,
            over: HashMap::new(),
        })
    }

    /// Whether a node begins an exchange.
    pub fn begins(&self, node: usize) -> bool {
        matches!(self.parts[node], Some(Part::Begin { .. }))
    }

    /// Seconds for which the program waits now if it runs this node.
    fn wait(&self, node: usize) -> f64 {
        match self.parts[node] {
            Some(Part::End { number }) => self.over.get(&number).map_or(0.0, |over| (over - self.now).max(0.0)),
            _ => 0.0,
        }
    }

    /// Passes a node that computes for `seconds`, and returns the seconds for which it waits.
    fn pass(&mut self, node: usize, seconds: f64) -> f64 {
        let wait = self.wait(node);
        self.now += wait + seconds;
        if let Some(Part::Begin { number, transfer }) = self.parts[node] {
            self.free = self.free.max(self.now) + transfer.sending;
            self.over.insert(number, self.free + transfer.latency);
        }
        wait
    }
}

/// Seconds for which each step of a program waits for messages, where step number `i` computes for `seconds[i]`.
pub(crate) fn waits(graph: &Graph, types: &NodeTypes, steps: &[PlannedStep], seconds: &[f64]) -> Vec<f64> {
    let Some(mut lane) = Lane::of(graph, types) else {
        return vec![0.0; steps.len()];
    };
    let wait = |(step, seconds): (&PlannedStep, &f64)| {
        let nodes = step.nodes.iter().enumerate();
        let waits = nodes.map(|(at, id)| lane.pass(id.index(), if at == 0 { *seconds } else { 0.0 }));
        waits.sum()
    };
    steps.iter().zip(seconds).map(wait).collect()
}

/// The lane of a program that is being scheduled.
pub(crate) struct Overlap {
    lane: Lane,
    /// Estimated seconds of each node.
    seconds: Vec<f64>,
    /// For each operation that is begun, the nodes of its inputs that have not run.
    missing: Vec<usize>,
    /// Operations whose inputs are there, and which have not begun.
    waiting: usize,
}

impl Overlap {
    /// The lane of a graph whose nodes wait for the nodes in `predecessors`; none where it has no operation of several
    /// ranks.
    pub fn of(graph: &Graph, types: &NodeTypes, predecessors: &[Vec<usize>], target: &dyn Target) -> Option<Overlap> {
        let lane = Lane::of(graph, types)?;
        let rates = target.costs().rates();
        let seconds = graph.nodes.iter().enumerate().map(|(at, node)| {
            let (inputs, outputs) = types.of_node(at);
            let cost = graph.ask(node, inputs, outputs).cost();
            let is_narrow = inputs.iter().any(|ty| ty.dtype == DType::BF16);
            let products = if is_narrow {
                rates.narrow_products
            } else {
                rates.products
            };
            cost.product_flops / products + cost.vector_flops / rates.others
        });
        let seconds = seconds.collect();
        let own = |before: &usize| !is_exchange(graph, *before);
        let missing = |(at, before): (usize, &Vec<usize>)| match lane.begins(at) {
            true => before.iter().copied().filter(own).count(),
            false => 0,
        };
        let missing: Vec<usize> = predecessors.iter().enumerate().map(missing).collect();
        Some(Overlap {
            waiting: 0,
            seconds,
            missing,
            lane,
        })
    }

    /// Whether a node would wait for messages, and better waits itself.
    pub fn holds(&self, node: usize) -> bool {
        self.waiting < WAITING && self.lane.wait(node) > 0.0
    }

    /// Notes that a node runs, for which `successors` have waited.
    pub fn take(&mut self, graph: &Graph, node: usize, successors: &[usize]) {
        if self.lane.begins(node) {
            self.waiting = self.waiting.saturating_sub(1);
        }
        self.lane.pass(node, self.seconds[node]);
        if is_exchange(graph, node) {
            return;
        }
        for &next in successors.iter().filter(|next| self.lane.begins(**next)) {
            self.missing[next] = self.missing[next].saturating_sub(1);
            self.waiting += usize::from(self.missing[next] == 0);
        }
    }
}

/// Whether a node begins or ends an exchange.
fn is_exchange(graph: &Graph, node: usize) -> bool {
    let op = graph.nodes[node].op.as_ref();
    op.is::<Begun>() || op.is::<Ended>()
}

/// Whether a node reads no value of another one but its token.
pub(crate) fn reads_token_alone(graph: &Graph, node: NodeId, of: NodeId) -> bool {
    let [node, of] = [node, of].map(|id| &graph.nodes[id.index()]);
    let is_exchange = of.op.is::<Begun>() || of.op.is::<Ended>();
    let mut read = node.inputs.iter().filter(|v| of.outputs.contains(v));
    is_exchange && read.all(|v| of.outputs.last() == Some(v))
}
