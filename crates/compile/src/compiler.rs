//! From a graph to a plan: the list of passes, and the search for a plan within the budget.

use std::time::Instant;

use lessen_base::{Error, Result};
use lessen_graph::{Graph, ValueId, verify};

use crate::choices::Choices;
use crate::options::Options;
use crate::passes::{self, Recompute};
use crate::plan::Plan;
use crate::planner::plan;
use crate::target::Target;

/// Compiles a graph into a plan for a device.
///
/// # Errors
/// A malformed graph; a budget below the floor, which is named.
pub fn compile(graph: &Graph, options: &Options, target: &dyn Target) -> Result<Plan> {
    let start = Instant::now();
    verify(graph)?;
    let simple = simplify(graph, target);
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
/// A malformed graph.
pub fn floor_bytes(graph: &Graph, options: &Options, target: &dyn Target) -> Result<usize> {
    verify(graph)?;
    let simple = simplify(graph, target);
    let try_out = |chosen| plan_recomputing(&simple, chosen, options, target);
    Ok(Choices::of(&simple).floor(try_out))
}

/// The passes that decide nothing about memory.
fn simplify(graph: &Graph, target: &dyn Target) -> Graph {
    let graph = checked(passes::lower(graph, &|op| target.supports(op)));
    let graph = checked(passes::eliminate_dead_code(&graph));
    let graph = checked(passes::fold_constants(&graph));
    let graph = checked(passes::eliminate_common_subexpressions(&graph));
    let graph = checked(passes::eliminate_dead_code(&graph));
    checked(passes::materialize(&graph, target))
}

fn plan_recomputing(graph: &Graph, chosen: Vec<Recompute>, options: &Options, target: &dyn Target) -> Plan {
    let values: Vec<ValueId> = chosen.iter().map(|c| c.value).collect();
    let graph = if values.is_empty() {
        graph.clone()
    } else {
        let graph = checked(passes::recompute(graph, &values));
        checked(passes::eliminate_dead_code(&graph))
    };
    Plan {
        recomputed: chosen,
        ..plan(graph, options, target)
    }
}

/// The graph that a pass returned, verified in debug builds.
fn checked(graph: Graph) -> Graph {
    debug_assert_eq!(verify(&graph), Ok(()));
    graph
}
