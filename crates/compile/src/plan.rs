//! The plan: a graph, its schedule, and the place of every value. A device needs nothing else to run the graph.
//!
//! Only this crate makes and changes plans, so a device may rely on them.

use std::time::Duration;

use lessen_graph::{Assign, Graph, NodeId, RowWise, ValueId};

use crate::bytes;
use crate::indices::IndexUse;
use crate::passes::{Packed, Recompute, StorageFormat};
use crate::place::Place;
use crate::planned::{PlannedStep, Storage};

/// A compiled graph.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) graph: Graph,
    pub(crate) places: Vec<Place>,
    pub(crate) storage: Vec<Storage>,
    pub(crate) row_wise: Vec<RowWise>,
    pub(crate) steps: Vec<PlannedStep>,
    pub(crate) constants: Vec<ValueId>,
    pub(crate) copies: Vec<Assign>,
    pub(crate) indices: Vec<IndexUse>,
    pub(crate) lifetimes: Vec<Option<(usize, usize)>>,
    pub(crate) arena_bytes: usize,
    pub(crate) arena_lower_bound: usize,
    pub(crate) state_bytes: usize,
    pub(crate) constant_bytes: usize,
    pub(crate) result_bytes: usize,
    pub(crate) recomputed: Vec<Recompute>,
    pub(crate) inverted: Vec<Recompute>,
    pub(crate) rounded: [Vec<Recompute>; StorageFormat::ALL.len()],
    pub(crate) sliced: usize,
    pub(crate) packed: Vec<Packed>,
    pub(crate) reference_nodes: Vec<NodeId>,
    pub(crate) seconds: f64,
    /// Lower bound on the seconds of the plans within the budget.
    pub(crate) least_seconds: Option<f64>,
    pub(crate) step_seconds: Vec<f64>,
    /// For each step the seconds among these for which it waits for messages.
    pub(crate) waits: Vec<f64>,
    pub(crate) workers: usize,
    pub(crate) compile_time: Duration,
}

impl Plan {
    /// The graph after all passes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The indices that operations read, and which of them are valid.
    pub fn indices(&self) -> &[IndexUse] {
        &self.indices
    }

    /// The place of a value.
    pub fn place(&self, value: ValueId) -> &Place {
        &self.places[value.index()]
    }

    /// The storage of a value that is its own base; [`Storage::None`] for a view.
    pub fn storage(&self, value: ValueId) -> Storage {
        self.storage[value.index()]
    }

    /// How the device runs a node by rows.
    pub fn row_wise(&self, node: NodeId) -> &RowWise {
        &self.row_wise[node.index()]
    }

    /// Steps in order.
    pub fn steps(&self) -> &[PlannedStep] {
        &self.steps
    }

    /// The outputs of nodes without inputs.
    pub fn constants(&self) -> &[ValueId] {
        &self.constants
    }

    /// Assignments that copy after the last step.
    pub fn copies(&self) -> &[Assign] {
        &self.copies
    }

    /// First and last step of a value in the arena; the last is the number of steps for a result.
    pub fn lifetime(&self, value: ValueId) -> Option<(usize, usize)> {
        self.lifetimes[value.index()]
    }

    /// Bytes of the arena.
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// The least bytes that any packing of the same lifetimes could take.
    pub fn arena_lower_bound(&self) -> usize {
        self.arena_lower_bound
    }

    /// Bytes of all states.
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    /// Bytes of constants, each aligned as values in the arena are.
    pub fn constant_bytes(&self) -> usize {
        self.constant_bytes
    }

    /// Bytes of the results, which outlive a run: each is a dense array of its own.
    pub fn result_bytes(&self) -> usize {
        self.result_bytes
    }

    /// Bytes that a run takes: states, constants, arena and results.
    pub fn peak_bytes(&self) -> usize {
        self.working_bytes().saturating_add(self.result_bytes)
    }

    /// Bytes that the memory planner decides about: states, constants and arena.
    pub(crate) fn working_bytes(&self) -> usize {
        bytes::sum([self.state_bytes, self.constant_bytes, self.arena_bytes])
    }

    /// Forward values that backward recomputes.
    pub fn recomputed(&self) -> &[Recompute] {
        &self.recomputed
    }

    /// Forward values that backward inverts: it computes them from the output of an operation that read them.
    pub fn inverted(&self) -> &[Recompute] {
        &self.inverted
    }

    /// Forward values that are kept in this storage format.
    pub fn rounded(&self, format: StorageFormat) -> &[Recompute] {
        &self.rounded[format as usize]
    }

    /// The number of blocks whose stage runs in slices.
    pub fn sliced(&self) -> usize {
        self.sliced
    }

    /// Forward values that are kept as one bit for each element.
    pub fn packed(&self) -> &[Packed] {
        &self.packed
    }

    /// Nodes that the device runs by their reference evaluation, which is slow, because it has no kernel for their
    /// types.
    pub fn reference_nodes(&self) -> &[NodeId] {
        &self.reference_nodes
    }

    /// The number of workers that the plan has scratch for.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Estimated seconds of a run, by the device's rates or by measured times: the sum over plan steps of products,
    /// other operations, bytes read from memory and written to it, and waits for messages of other ranks.
    pub fn estimated_seconds(&self) -> f64 {
        self.seconds
    }

    /// By what share of its time the fastest choice within the budget may at most be faster than this plan: `t / b - 1`
    /// for the estimated seconds `t` and a lower bound `b` by Lagrangian relaxation, at least 0.
    ///
    /// It counts the choices that the planner knows of this graph, by the figures that it has of them: blocks with the
    /// ways of their samples that take at most 1.05 times the budget. It is 0 where all sets of values were planned.
    /// Waits for messages of other ranks do not count. None without a budget, for a fixed policy, and for a graph of
    /// too few blocks with too many values for that.
    pub fn slower_than_best(&self) -> Option<f64> {
        let least = self.least_seconds.filter(|least| *least > 0.0)?;
        Some(((self.seconds - self.waiting_seconds()) / least - 1.0).max(0.0))
    }

    /// Estimated seconds of each plan step.
    pub fn estimated_step_seconds(&self) -> &[f64] {
        &self.step_seconds
    }

    /// Estimated seconds for which a run waits for messages.
    pub(crate) fn waiting_seconds(&self) -> f64 {
        self.waits.iter().sum()
    }

    /// Estimated seconds for which a step computes.
    pub(crate) fn computing_seconds(&self, step: usize) -> f64 {
        self.step_seconds[step] - self.waits[step]
    }

    /// Time that compiling took.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }
}
