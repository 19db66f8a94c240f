//! Profiles: the time in kernels, by nodes.

use std::collections::HashMap;

use lessen_cpu::{Device, Executable};
use lessen_graph::{DType, Trace};

use crate::plans::runner::{Options, compile, run, store};
use crate::random::Random;

#[test]
fn times_of_nodes_add_up_to_those_of_products_and_of_kernels() {
    let (rows, width) = (300, 64);
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[rows, width]);
    let (w, gamma) = (
        trace.state("w", DType::F32, &[width, width]),
        trace.state("gamma", DType::F32, &[width]),
    );
    trace.output("y", x.layer_norm(gamma, gamma, 1e-5).matmul(w).softmax());
    let graph = trace.finish();
    let mut random = Random::new(1);
    let shapes = [("x", &[rows, width][..]), ("w", &[width, width]), ("gamma", &[width])];
    let inputs: HashMap<_, _> = shapes
        .map(|(name, shape)| (name.to_string(), random.array(shape, 1.0)))
        .into();
    let threads = 2;
    let plan = compile(
        &graph,
        &Options {
            threads,
            ..Options::default()
        },
    )
    .unwrap();
    let (mut executable, mut device) = (Executable::load(plan), Device::new(threads).unwrap());
    let mut store = store(&graph, &inputs);
    assert!(executable.node_seconds().is_empty());
    executable.set_profiling(true);
    run(&mut executable, &mut device, &mut store, &inputs).unwrap();

    let (seconds, profile) = (executable.node_seconds(), executable.profile());
    let nodes = &executable.plan().graph().nodes;
    assert_eq!(seconds.len(), nodes.len());
    for step in executable.plan().steps() {
        assert!(step.nodes.iter().all(|node| seconds[node.index()] > 0.0), "{seconds:?}");
    }
    let products = nodes.iter().zip(&seconds).filter(|(node, _)| node.op.is_contraction());
    let products: f64 = products.map(|(_, seconds)| seconds).sum();
    let is_close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b;
    assert!(
        is_close(seconds.iter().sum(), profile.kernels) && is_close(products, profile.products),
        "{profile:?}"
    );
    executable.set_profiling(true);
    assert!(executable.node_seconds().iter().all(|seconds| *seconds == 0.0));
}
