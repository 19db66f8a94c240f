//! The plan: a graph, its schedule, and where every value lies. It is all that a device needs to run the graph.

use std::time::Duration;

use lessen_graph::{Assign, Graph, InputKind, NodeId, RowWise, ValueId};

use crate::layout::{Place, places};
use crate::passes::Recompute;
use crate::schedule::schedule;
use crate::state::state_writes;
use crate::storage::assign_storage;
use crate::{ALIGNMENT, Options, Target};

/// Where the dense array of a value lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// Nowhere: the value is a view, or nothing reads it.
    None,
    /// In the state of this input (position in [`Graph::inputs`]).
    State(usize),
    /// At this byte of the arena.
    Arena(usize),
    /// At this byte of the running thread's scratch in its step; one block of rows.
    Local(usize),
    /// A constant, evaluated once when the plan is loaded; a position in [`Plan::constants`].
    Constant(usize),
}

/// How a group runs over its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowsPlan {
    /// Rows in all.
    pub rows: usize,
    /// Rows that a thread takes at a time.
    pub block: usize,
    /// Rows of one tile of products and sums; blocks are whole tiles.
    pub tile: usize,
}

/// The memory in which the tiles of a sum over rows collect their parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partial {
    /// The sum.
    pub value: ValueId,
    /// Byte of the arena.
    pub offset: usize,
    /// Number of parts, one for each tile.
    pub parts: usize,
}

/// A step with its memory.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// Nodes, in order.
    pub nodes: Vec<NodeId>,
    /// For a group, its rows.
    pub rows: Option<RowsPlan>,
    /// Byte of the arena where the threads' scratch begins.
    pub scratch_offset: usize,
    /// Scratch bytes of each thread.
    pub scratch_per_thread: usize,
    /// Byte within a thread's scratch where the kernels' own scratch begins, behind the local values.
    pub kernel_scratch: usize,
    /// Sums over rows.
    pub partials: Vec<Partial>,
}

/// A compiled graph.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The graph after all passes.
    pub graph: Graph,
    /// The place of every value.
    pub places: Vec<Place>,
    /// The storage of every value that is its own base.
    pub storage: Vec<Storage>,
    /// How the device runs each node.
    pub row_wise: Vec<RowWise>,
    /// Steps in order.
    pub steps: Vec<PlannedStep>,
    /// Nodes without inputs, whose outputs are constants.
    pub constants: Vec<ValueId>,
    /// Assignments that copy at the end.
    pub copies: Vec<Assign>,
    /// First and last step of each value that lies in the arena.
    pub lifetimes: Vec<Option<(usize, usize)>>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// The least that any packing of the same lifetimes could take.
    pub arena_lower_bound: usize,
    /// Bytes of all states.
    pub state_bytes: usize,
    /// Bytes of constants, each aligned as values in the arena are.
    pub constant_bytes: usize,
    /// Forward values that backward recomputes.
    pub recomputed: Vec<Recompute>,
    /// Threads that the plan is for.
    pub threads: usize,
    /// How long compiling took.
    pub compile_time: Duration,
}

impl Plan {
    /// The bytes that a run takes in all: state, constants and arena.
    pub fn peak_bytes(&self) -> usize {
        self.state_bytes + self.constant_bytes + self.arena_bytes
    }
}

/// Plans a graph as it is.
pub(crate) fn plan(graph: Graph, options: &Options, target: &dyn Target) -> Plan {
    let places = places(&graph);
    let writes = state_writes(&graph, &places);
    let row_wise: Vec<RowWise> = graph
        .nodes
        .iter()
        .map(|node| {
            let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
            // Values without elements have no rows to cut; such an operation runs by itself.
            let empty = inputs.iter().chain(&outputs).any(|ty| ty.numel() == 0);
            let runs = !empty && target.runs_rows(node.op.as_ref(), &inputs, &outputs);
            if runs {
                node.op.row_wise(&inputs, &outputs)
            } else {
                RowWise::No
            }
        })
        .collect();
    let steps = schedule(&graph, &places, &row_wise, &writes.after, options.placement);
    let state_bytes = graph
        .inputs
        .iter()
        .filter(|i| i.kind == InputKind::State)
        .map(|i| graph.ty(i.value).bytes())
        .sum();
    let constants: Vec<ValueId> = graph
        .nodes
        .iter()
        .filter(|n| n.inputs.is_empty())
        .flat_map(|n| n.outputs.clone())
        .collect();
    let aligned = |bytes: usize| bytes.div_ceil(ALIGNMENT) * ALIGNMENT;
    let constant_bytes = constants.iter().map(|&v| aligned(graph.ty(v).bytes())).sum();
    let memory = assign_storage(&graph, &places, &row_wise, &steps, &writes, &constants, target);
    Plan {
        places,
        storage: memory.storage,
        row_wise,
        steps: memory.steps,
        constants,
        copies: writes.copies,
        lifetimes: memory.lifetimes,
        arena_bytes: memory.arena_bytes,
        arena_lower_bound: memory.lower_bound,
        state_bytes,
        constant_bytes,
        recomputed: Vec::new(),
        threads: target.threads(),
        compile_time: Duration::ZERO,
        graph,
    }
}
