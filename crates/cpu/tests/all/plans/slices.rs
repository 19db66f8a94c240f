//! Backward in slices of the rows: a GPT trains to the same bits with all of backward in slices, attention included.

use lessen_compile::{Plan, in_slices, passes, plan_as_it_is};
use lessen_cpu::{CpuTarget, Device, Executable};
use lessen_graph::{Graph, Phase, ValueId};

use crate::plans::gpt::{Size, Training, training};
use crate::plans::runner;

const TARGET: CpuTarget = CpuTarget { threads: 2 };

/// As many rows as two slices have, and weights whose gradients are added up slice by slice.
const TWO_SLICES: Size = Size {
    blocks: 2,
    batch: 16,
    length: 128,
    heads: 3,
    width: 192,
    vocabulary: 40,
    dropout: 0.0,
    clip: true,
};

/// The graph of a step that recomputes all of its blocks in backward.
fn recomputing(training: &Training) -> Graph {
    let graph = lessen_rewrite::eliminate_dead_code(&training.graph);
    let forward = graph.nodes.iter().filter(|node| node.phase == Phase::Forward);
    let values: Vec<ValueId> = forward
        .filter(|node| node.scope.starts_with("h."))
        .flat_map(|node| node.outputs.clone())
        .collect();
    lessen_rewrite::eliminate_dead_code(&passes::recompute(&graph, &values, &[]))
}

fn plan(graph: &Graph) -> Plan {
    plan_as_it_is(graph, &lessen_compile::Options::default(), &TARGET)
}

/// The results of two steps as bits.
fn trained(training: &Training, graph: &Graph, threads: usize) -> Vec<(String, Vec<u32>)> {
    let mut executable = Executable::load(plan(graph));
    let mut device = Device::new(threads).unwrap();
    let mut store = training.store();
    for step in 0..2 {
        runner::run(&mut executable, &mut device, &mut store, &training.batch(step)).unwrap();
    }
    runner::bits(&runner::results(&executable, &store))
}

/// Number of nodes of this name with results of at most `rows` rows.
fn count(graph: &Graph, name: &str, rows: usize) -> usize {
    let named = graph.nodes.iter().filter(|node| node.op.name() == name);
    let is_small = |shape: &[usize]| shape[0] <= rows;
    named.filter(|node| is_small(&graph.ty(node.outputs[0]).shape)).count()
}

fn check(size: Size) {
    let training = training(size);
    let graph = recomputing(&training);
    let sliced = in_slices(&graph, &TARGET).expect("slices spare memory");
    let Size { blocks, batch, .. } = size;
    for name in [
        "attention",
        "attention_backward",
        "gelu_backward",
        "layer_norm_backward",
    ] {
        let found = count(&sliced, name, batch / 2);
        assert!(found >= 2 * blocks, "{found} nodes of {name} run on slices");
    }
    assert!(count(&sliced, "add_matmul", usize::MAX) >= 3 * blocks);
    let (whole, parts) = (plan(&graph).arena_bytes(), plan(&sliced).arena_bytes());
    assert!(parts < whole * 4 / 5, "{parts} bytes in slices, {whole} without");
    let bits = trained(&training, &graph, 2);
    assert!(bits == trained(&training, &sliced, 2), "slices change bits");
    assert!(bits == trained(&training, &sliced, 1), "threads change bits");
}

#[test]
fn a_gpt_trains_to_the_same_bits_in_slices() {
    check(TWO_SLICES);
}

#[test]
fn slices_draw_the_random_numbers_of_the_whole() {
    check(Size {
        dropout: 0.1,
        ..TWO_SLICES
    });
}

#[test]
fn slices_of_many_rows_add_up_to_the_bits_of_the_whole() {
    check(Size {
        blocks: 1,
        batch: 128,
        heads: 2,
        width: 128,
        ..TWO_SLICES
    });
}
