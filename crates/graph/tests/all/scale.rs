//! Large graphs: tracing and differentiating take no stack per node. Work that grows with the square of the size would
//! take minutes here, and the runner of tests ends it.

use lessen_graph::{DType, Graph, Registry, Trace, parse, print, verify};

/// A chain of `n` layers with a state, an output and an assignment each; every third layer is differentiated through
/// its decomposition.
fn network(n: usize) -> Graph {
    let trace = Trace::new();
    let mut x = trace.input("x", DType::F32, &[2, 2]);
    let states: Vec<_> = (0..n)
        .map(|i| trace.state(&format!("layers.{i}.weight"), DType::F32, &[2]))
        .collect();
    for (i, w) in states.iter().enumerate() {
        x = match i % 3 {
            0 => x.rms_norm(*w, 1e-5),
            1 => x.softmax() * *w,
            _ => trace.apply1(lessen_graph::ops::GeluBackward { tanh: true }, &[x, x + *w]),
        };
        trace.output(&format!("layers.{i}"), x);
    }
    let gradients = x.sum().grad(&states);
    for (w, g) in states.into_iter().zip(gradients) {
        trace.assign(w, w - g * 0.1);
    }
    trace.finish()
}

#[test]
fn a_deep_network_is_differentiated_printed_and_parsed_on_a_small_stack() {
    let work = || {
        let graph = network(3_000);
        verify(&graph).unwrap();
        let text = print(&graph);
        assert_eq!(print(&parse(&text, &Registry::standard()).unwrap()), text);
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_graph_has_many_names() {
    const NAMES: usize = 100_000;
    let trace = Trace::new();
    for i in 0..NAMES {
        let state = trace.state(&format!("state {i}"), DType::F32, &[]);
        trace.output(&format!("output {i}"), state);
        trace.assign(state, state);
    }
    assert_eq!(trace.finish().outputs.len(), NAMES);
}
