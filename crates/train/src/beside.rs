//! Plans of graphs that run beside other graphs on the same device.

use lessen_base::Result;
use lessen_compile::{Options, Plan};
use lessen_device::Backend;
use lessen_graph::{Graph, InputKind, Type};

/// Names and types of the states that a graph reads or writes.
pub(crate) fn states_of(graph: &Graph) -> impl Iterator<Item = (&str, &Type)> {
    let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
    states.map(|input| (input.name.as_str(), graph.ty(input.value)))
}

/// Names of the states that a graph assigns.
pub(crate) fn assigned(graph: &Graph) -> impl Iterator<Item = &str> {
    let targets = graph.assigns.iter().map(|assign| assign.target);
    targets.filter_map(|target| Some(graph.input(target)?.name.as_str()))
}

/// Compiles a graph within the budget, less `beside` bytes for everything else. The plan fits the present arena of
/// `arena` bytes, if it can.
pub(crate) fn compile_beside(
    backend: &dyn Backend,
    graph: &Graph,
    options: &Options,
    (beside, arena): (usize, Option<usize>),
) -> Result<Plan> {
    let within = |budget| {
        let options = Options {
            budget,
            ..options.clone()
        };
        backend.compile(graph, &options)
    };
    let plan = within(options.budget.map(|budget| budget.saturating_sub(beside)))?;
    Ok(match arena.filter(|arena| plan.arena_bytes() > *arena) {
        Some(arena) => {
            let lasting = plan.peak_bytes() - plan.arena_bytes();
            within(Some(lasting + arena)).unwrap_or(plan)
        }
        None => plan,
    })
}
