//! Plans a graph as it is: schedule, state writes, storage and cost.

use std::time::Duration;

use lessen_graph::{Graph, InputKind, Node, NodeId, RowWise, ValueId};

use crate::bytes;
use crate::cost::Costed;
use crate::indices::{IndexUse, index_uses_of};
use crate::lane;
use crate::node_types::NodeTypes;
use crate::offsets::aligned;
use crate::options::Options;
use crate::passes;
use crate::place::{Place, is_view, places_of};
use crate::plan::Plan;
use crate::schedule::{Step, schedule};
use crate::state::{StateWrites, state_writes};
use crate::storage::{Program, assign_storage};
use crate::target::{KernelKind, Scratch, Target};

/// How the device runs the nodes of a graph.
struct Kernels {
    row_wise: Vec<RowWise>,
    /// For each node whether it must run on tiles of rows.
    tiled: Vec<bool>,
    reference: Vec<bool>,
    /// For each node the scratch memory of its kernel.
    scratch: Vec<Scratch>,
}

fn kernels(graph: &Graph, types: &NodeTypes, target: &dyn Target) -> Kernels {
    let n = graph.nodes.len();
    let mut kernels = Kernels {
        row_wise: vec![RowWise::No; n],
        tiled: vec![false; n],
        reference: vec![false; n],
        scratch: Vec::with_capacity(n),
    };
    for (i, node) in graph.nodes.iter().enumerate() {
        let (inputs, outputs) = types.of_node(i);
        let lowering = target.lower(node.op.as_ref(), inputs, outputs);
        kernels.scratch.push(lowering.scratch);
        match lowering.kind {
            KernelKind::Rows { tiled } => {
                // Values without elements have no rows to cut: such an operation runs by itself.
                if inputs.iter().chain(outputs).all(|ty| ty.numel() > 0) {
                    kernels.row_wise[i] = graph.ask(node, inputs, outputs).row_wise();
                    kernels.tiled[i] = tiled;
                }
            }
            KernelKind::Whole => {}
            KernelKind::Reference => kernels.reference[i] = true,
        }
    }
    kernels
}

/// A graph with its schedule.
struct Scheduled {
    graph: Graph,
    types: NodeTypes,
    places: Vec<Place>,
    indices: Vec<IndexUse>,
    writes: StateWrites,
    kernels: Kernels,
    steps: Vec<Step>,
}

impl Scheduled {
    fn new(graph: Graph, options: &Options, target: &dyn Target) -> Scheduled {
        let types = NodeTypes::of(&graph);
        let places = places_of(&graph, &types);
        let indices = index_uses_of(&graph, &places, &types);
        let writes = state_writes(&graph, &places, &indices, &types);
        let kernels = kernels(&graph, &types, target);
        let (row_wise, after) = (&kernels.row_wise, &writes.after);
        let steps = schedule((&graph, &types), &places, row_wise, after, options, target);
        Scheduled {
            types,
            places,
            indices,
            writes,
            kernels,
            steps,
            graph,
        }
    }
}

/// Plans a graph. Values that are widened from `bf16` are widened in each row group that reads them.
pub(crate) fn plan_graph(graph: Graph, options: &Options, target: &dyn Target) -> Plan {
    let scheduled = Scheduled::new(graph, options, target);
    match passes::widen_where_read(&scheduled.graph, &scheduled.kernels.row_wise, &scheduled.steps) {
        Some(graph) => plan_scheduled(Scheduled::new(graph, options, target), options, target),
        None => plan_scheduled(scheduled, options, target),
    }
}

/// Assigns storage to a scheduled graph, and estimates its time.
fn plan_scheduled(scheduled: Scheduled, options: &Options, target: &dyn Target) -> Plan {
    let Scheduled {
        graph,
        types,
        places,
        indices,
        writes,
        kernels,
        steps,
    } = scheduled;
    let states = graph.inputs.iter().filter(|i| i.kind == InputKind::State);
    let result_bytes = bytes::of_results(&graph);
    let state_bytes = bytes::sum(states.map(|i| graph.ty(i.value).bytes()));
    let sources = graph.nodes.iter().filter(|n| n.inputs.is_empty());
    let constants: Vec<ValueId> = sources.flat_map(|n| n.outputs.clone()).collect();
    let constant_bytes = bytes::sum(constants.iter().map(|&v| aligned(graph.ty(v).bytes())));
    let program = Program {
        graph: &graph,
        types: &types,
        places: &places,
        row_wise: &kernels.row_wise,
        tiled: &kernels.tiled,
        scratch: &kernels.scratch,
        steps: &steps,
        constants: &constants,
    };
    let memory = assign_storage(&program, &writes, target);
    let runs = |node: &Node| !node.inputs.is_empty() && !is_view(&places, node);
    let reference_nodes = (0..graph.nodes.len())
        .filter(|&i| kernels.reference[i] && runs(&graph.nodes[i]))
        .map(|i| NodeId(i as u32))
        .collect();
    let costed = Costed {
        graph: &graph,
        types: &types,
        places: &places,
        storage: &memory.storage,
        target,
        source: options.cost,
    };
    let computed = costed.seconds(&memory.steps);
    let waits = lane::waits(&graph, &types, &memory.steps, &computed);
    let step_seconds: Vec<f64> = computed.iter().zip(&waits).map(|(own, wait)| own + wait).collect();
    Plan {
        seconds: step_seconds.iter().sum(),
        least_seconds: None,
        step_seconds,
        waits,
        places,
        storage: memory.storage,
        row_wise: kernels.row_wise,
        steps: memory.steps,
        constants,
        copies: writes.copies,
        indices,
        lifetimes: memory.lifetimes,
        arena_bytes: memory.arena_bytes,
        arena_lower_bound: memory.lower_bound,
        state_bytes,
        result_bytes,
        constant_bytes,
        recomputed: Vec::new(),
        inverted: Vec::new(),
        rounded: Default::default(),
        sliced: 0,
        packed: Vec::new(),
        reference_nodes,
        workers: target.limits().workers,
        compile_time: Duration::ZERO,
        graph,
    }
}
