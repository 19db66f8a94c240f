//! Random values that a graph can read, for checks and benchmarks.

use lessen_base::SplitMix64;
use lessen_compile::{IndexSource, index_uses, places};
use lessen_graph::{Array, DType, Graph, InputKind};

/// Limit of the integers of inputs that are no indices. Masks stay below it, and tables have at least this number of
/// rows, so that indices that are computed from such integers are valid.
const INTEGERS: u64 = 2;

/// The data inputs of a graph with random values, in the graph's order: floats of mean 0 and deviation 1, indices that
/// are valid, truth. Integers from which indices are computed are 0 or 1.
pub fn random_inputs(graph: &Graph, seed: u64) -> Vec<(String, Array)> {
    let mut random = SplitMix64::new(seed);
    let limits = index_limits(graph);
    let inputs = graph.inputs.iter().zip(limits);
    let inputs = inputs.filter(|(input, _)| input.kind == InputKind::Data);
    let inputs = inputs.map(|(input, limit)| {
        let ty = graph.ty(input.value).clone();
        let limit = limit.map_or(INTEGERS, |limit| limit.max(1) as u64);
        let mut number = || match ty.dtype {
            DType::Bool => 1.0,
            dtype if dtype.is_float() => 3f64.sqrt() * (2.0 * random.unit() - 1.0),
            DType::U8 => random.below(limit.min(256)) as f64,
            _ => random.below(limit) as f64,
        };
        let data = (0..ty.numel()).map(|_| number()).collect();
        (input.name.clone(), Array::new(ty, data))
    });
    inputs.collect()
}

/// Limit below which the integers of each input have to be, where they are indices.
fn index_limits(graph: &Graph) -> Vec<Option<usize>> {
    let mut limits: Vec<Option<usize>> = vec![None; graph.inputs.len()];
    for index in index_uses(graph, &places(graph)) {
        if let IndexSource::Input(input) = index.source {
            let limit = limits[input].map_or(index.limit, |limit| limit.min(index.limit));
            limits[input] = Some(limit);
        }
    }
    limits
}
