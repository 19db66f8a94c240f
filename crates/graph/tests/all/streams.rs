//! Random numbers that decompositions draw: other ones for every node, and the same in every program made of a graph.

use std::collections::HashMap;

use lessen_graph::{
    Array, DType, Graph, Op, Result, Tensor, Trace, Type, evaluate, evaluate_exactly, evaluate_op, lower, verify,
};

/// Random bits from a key, drawn by the decomposition.
#[derive(PartialEq, Debug)]
struct Noise;

impl Op for Noise {
    fn name(&self) -> &'static str {
        "noise"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let _ = inputs;
        Ok(vec![Type::new(DType::U32, &[4])])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0].random_bits(&[4])])
    }
}

/// An operation whose decomposition draws through another one from outside.
#[derive(PartialEq, Debug)]
struct NoiseTwice;

impl Op for NoiseTwice {
    fn name(&self) -> &'static str {
        "noise_twice"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let _ = inputs;
        Ok(vec![Type::new(DType::U32, &[4]); 2])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let trace = inputs[0].trace();
        Some(vec![trace.apply1(Noise, inputs), trace.apply1(Noise, inputs)])
    }
}

/// Random bits of the graph and of three operations from outside, all from one key.
fn graph() -> Graph {
    let trace = Trace::new();
    let key = trace.input("key", DType::U32, &[2]);
    let twice = trace.apply(NoiseTwice, &[key]);
    let all = [
        trace.apply1(Noise, &[key]),
        key.random_bits(&[4]),
        trace.apply1(Noise, &[key]),
        twice[0],
        twice[1],
        key.random_bits(&[4]),
    ];
    for (i, bits) in all.into_iter().enumerate() {
        trace.output(&i.to_string(), bits);
    }
    trace.finish()
}

fn key() -> HashMap<String, Array> {
    let key = Array::new(Type::new(DType::U32, &[2]), vec![3.0, 4.0]);
    HashMap::from([("key".to_string(), key)])
}

#[test]
fn decompositions_draw_other_numbers_than_the_graph_and_each_other() {
    let found = evaluate(&graph(), &key()).unwrap();
    assert_eq!(found.len(), 6);
    for i in 0..6 {
        for j in 0..i {
            let [a, b] = [i, j].map(|k| &found[&k.to_string()].data);
            assert_ne!(a, b, "draws {i} and {j}");
        }
    }
}

#[test]
fn a_lowered_graph_draws_what_the_evaluator_draws() {
    let graph = graph();
    let lowered = lower(&graph, &<dyn Op>::is_standard);
    verify(&lowered).unwrap();
    assert!(lowered.nodes.iter().all(|n| n.op.name() == "random_bits"));
    let expected = evaluate(&graph, &key()).unwrap();
    assert_eq!(evaluate(&lowered, &key()).unwrap(), expected);
    assert_eq!(evaluate_exactly(&graph, &key()).unwrap(), expected);
}

#[test]
fn one_operation_alone_draws_from_the_first_stream() {
    let key = &key()["key"];
    let alone = evaluate_op(&Noise, &[key]).unwrap();
    let bits = lessen_graph::ops::RandomBits {
        stream: 0,
        shape: vec![4],
    };
    assert_eq!(alone, evaluate_op(&bits, &[key]).unwrap());
}
