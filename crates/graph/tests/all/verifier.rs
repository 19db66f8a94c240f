//! The verifier finds every way in which a graph can be broken.

use std::sync::Arc;

use lessen_graph::ops::{Cast, Relu};
use lessen_graph::{Assign, DType, Graph, Output, Trace, Type, ValueId, verify};

/// `x`, `w`, `y = x * w` (values 2 to 4: broadcast, product, relu), `w` assigned its double.
fn graph() -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 3]);
    let w = trace.state("w", DType::F32, &[3]);
    trace.output("y", (x * w).relu());
    trace.assign(w, w + w);
    trace.finish()
}

/// Asserts that the graph broken by `f` is refused with this sentence.
#[track_caller]
fn refused(sentence: &str, f: impl FnOnce(&mut Graph)) {
    let mut broken = graph();
    f(&mut broken);
    assert_eq!(verify(&broken).unwrap_err().message(), sentence);
}

#[test]
fn whole_graphs_pass() {
    verify(&graph()).unwrap();
    verify(&Graph::default()).unwrap();
}

#[test]
fn names_are_unique() {
    refused("two inputs are called `x`", |g| g.inputs[1].name = "x".to_string());
    refused("two outputs are called `y`", |g| g.outputs.push(g.outputs[0].clone()));
}

#[test]
fn values_are_defined_once_and_before_their_use() {
    refused("the input `w` does not define its value", |g| {
        g.inputs[1].value = ValueId(0)
    });
    refused("node 0 (broadcast) reads %4 before it is defined", |g| {
        g.nodes[0].inputs[0] = ValueId(4)
    });
    refused("node 0 (broadcast) reads %99 before it is defined", |g| {
        g.nodes[0].inputs[0] = ValueId(99)
    });
    refused("node 1 (binary) does not define its output %4", |g| {
        g.nodes[1].outputs[0] = ValueId(4)
    });
    refused("node 0 (binary) reads %2 before it is defined", |g| g.nodes.swap(0, 1));
    refused("the output `y` is not defined", |g| g.outputs[0].value = ValueId(99));
}

#[test]
fn types_follow_from_the_rules() {
    refused("node 1 (binary): f32[2,3] and f32[3] differ", |g| {
        g.nodes[1].inputs[1] = ValueId(1)
    });
    refused("node 2 (relu): %4 has type f32[3,2], its rule gives f32[2,3]", |g| {
        g.values[4].ty = Type::f32(&[3, 2]);
    });
    refused("node 2 (cast): %4 has type f32[2,3], its rule gives f64[2,3]", |g| {
        g.nodes[2].op = Arc::new(Cast { dtype: DType::F64 });
    });
    refused("node 1 (relu): needs 1 inputs, not 2", |g| {
        g.nodes[1].op = Arc::new(Relu)
    });
    refused("node 2 (relu) has 0 outputs, its rule gives 1", |g| {
        g.nodes[2].outputs.clear()
    });
}

#[test]
fn assignments_target_states_once_and_keep_their_type() {
    refused("%0 is assigned but is no state", |g| g.assigns[0].target = ValueId(0));
    refused("%4 is assigned but is no state", |g| g.assigns[0].target = ValueId(4));
    refused("%1 is assigned twice", |g| g.assigns.push(g.assigns[0]));
    refused("%1 is assigned a value of another type", |g| {
        g.assigns[0].value = ValueId(4)
    });
    refused("%1 is assigned a value that is not defined", |g| {
        g.assigns[0] = Assign {
            target: ValueId(1),
            value: ValueId(99),
        };
    });
    refused("two outputs are called `z`", |g| {
        g.outputs = vec![
            Output {
                name: "z".to_string(),
                value: ValueId(4)
            };
            2
        ];
    });
}
