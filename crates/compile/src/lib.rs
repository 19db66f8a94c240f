//! What is the best equivalent program and schedule? Passes rewrite a [`Graph`]; the planner orders it, groups
//! row-wise operations, and gives every value its place in one arena, so that the peak is known before the first step.
//!
//! Nothing here knows a device's instructions; what a plan must know of a device is behind [`Target`].

#![forbid(unsafe_code)]

mod backend;
mod choices;
mod host;
mod layout;
mod offsets;
pub mod passes;
mod plan;
mod report;
mod rewrite;
mod schedule;
mod state;
mod storage;

use lessen_base::{Error, Result};
use std::time::Instant;

use lessen_graph::{Graph, Op, Type, ValueId, verify};

pub use backend::{Backend, DeviceMemory, ProgramId};
use choices::Choices;
pub use host::Host;
pub use layout::{Place, RowLayout, places, row_layout};
pub use offsets::{ALIGNMENT, Buffer, lower_bound, pack};
pub use plan::{Partial, Plan, PlannedStep, RowsPlan, Storage};
pub use report::ValueReport;
pub use schedule::Step;

/// Rows of one tile: products and sums over rows are cut at multiples of it, whatever block a group runs in, so that
/// their bits depend on shapes alone.
pub const TILE_ROWS: usize = 128;

/// When the update of a parameter runs. It changes no bit of any result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Placement {
    /// All updates after the whole backward phase.
    Separate,
    /// Each update as soon as its gradient is complete and nobody reads the old parameter any more; the gradient's
    /// memory is free at once.
    #[default]
    BackwardFused,
}

/// What a plan must know of the device.
pub trait Target {
    /// Threads that run at once, each with scratch of its own.
    fn threads(&self) -> usize;

    /// Bytes of the cache that one thread has for itself.
    fn cache_bytes(&self) -> usize;

    /// Whether there is a kernel that runs this operation on a block of rows; if not, it runs by itself.
    fn runs_rows(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> bool;

    /// Scratch bytes that a thread needs while it runs this operation.
    fn scratch_bytes(&self, op: &dyn Op, inputs: &[Type]) -> usize;
}

/// What the user may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads; the plan gives each its scratch.
    pub threads: usize,
    /// When updates run.
    pub placement: Placement,
    /// The most bytes that state and arena may take together; none for as much as is fastest.
    pub budget: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            placement: Placement::default(),
            budget: None,
        }
    }
}

/// Compiles a graph into a plan.
///
/// # Errors
/// A sentence: the graph is malformed, or the budget is below the floor, which is named.
pub fn compile(graph: &Graph, options: &Options, target: &dyn Target) -> Result<Plan> {
    let start = Instant::now();
    verify(graph)?;
    let simple = simplify(graph);
    debug_assert_eq!(verify(&simple), Ok(()));
    let try_out = |chosen| plan_recomputing(&simple, chosen, options, target);
    let budget = options.budget.unwrap_or(usize::MAX);
    let mut plan = Choices::of(&simple).within(budget, try_out).map_err(|floor| {
        Error::user(format!(
            "the budget of {budget} bytes is below the floor of {floor} bytes; allow at least that, or take a smaller \
             batch"
        ))
    })?;
    plan.compile_time = start.elapsed();
    Ok(plan)
}

/// The least peak that recomputation reaches for a graph: the floor of every budget.
///
/// # Errors
/// As [`compile`].
pub fn floor_bytes(graph: &Graph, options: &Options, target: &dyn Target) -> Result<usize> {
    verify(graph)?;
    let simple = simplify(graph);
    let try_out = |chosen| plan_recomputing(&simple, chosen, options, target);
    Ok(Choices::of(&simple).floor(try_out))
}

fn plan_recomputing(
    graph: &Graph,
    chosen: Vec<passes::Recompute>,
    options: &Options,
    target: &dyn Target,
) -> Plan {
    let values: Vec<ValueId> = chosen.iter().map(|c| c.value).collect();
    let graph = if values.is_empty() {
        graph.clone()
    } else {
        passes::eliminate_dead_code(&passes::recompute(graph, &values))
    };
    debug_assert_eq!(verify(&graph), Ok(()));
    Plan {
        recomputed: chosen,
        ..plan::plan(graph, options, target)
    }
}

/// The passes that change no memory decision.
fn simplify(graph: &Graph) -> Graph {
    let graph = passes::lower(graph);
    let graph = passes::eliminate_dead_code(&graph);
    let graph = passes::fold_constants(&graph);
    let graph = passes::eliminate_common_subexpressions(&graph);
    let graph = passes::eliminate_dead_code(&graph);
    passes::materialize(&graph)
}
