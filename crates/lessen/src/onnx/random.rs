//! Random inputs.

use lessen_compile::{Backend, HostArray, IndexSource, Plan};
use lessen_graph::InputKind;
use lessen_onnx::Executable;

/// Integers of inputs that are no indices are below this: masks are, and tables have so many rows.
const MOST_INTEGER: u64 = 2;

/// Random arrays for the inputs of a model: floats of mean 0 and deviation 1, indices that are valid, truth.
pub fn random_inputs<B: Backend + ?Sized>(executable: &Executable<B>, seed: u64) -> Vec<(String, HostArray)> {
    let plan = executable.plan();
    let graph = plan.graph();
    let inputs = graph
        .inputs
        .iter()
        .enumerate()
        .filter(|(_, input)| input.kind == InputKind::Data);
    let arrays = inputs.map(|(i, input)| {
        let mut all = lessen_onnx::random_inputs(graph, seed, most_index(plan, i));
        let array = all.remove(&input.name).expect("an input of the graph");
        (input.name.clone(), HostArray::of(array.ty.dtype, &array.data))
    });
    arrays.collect()
}

/// What the integers of an input have to be below.
fn most_index(plan: &Plan, input: usize) -> u64 {
    let uses = plan
        .indices()
        .iter()
        .filter(|index| index.source == IndexSource::Input(input));
    uses.map(|index| index.limit as u64).min().unwrap_or(MOST_INTEGER)
}
