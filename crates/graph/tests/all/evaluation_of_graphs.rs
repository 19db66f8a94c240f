//! Hand-written cases: random bits, dropout and their streams; results and messages of evaluations.

use lessen_graph::ops::*;
use lessen_graph::philox::philox4x32;
use lessen_graph::{Array, DType, Graph, Op, Trace, Type, ValueId, evaluate, evaluate_op};

const NAN: f64 = f64::NAN;

fn eval(op: impl Op, inputs: &[&Array]) -> Vec<Array> {
    evaluate_op(&op, inputs).unwrap()
}

#[test]
fn random_bits_are_words_of_blocks() {
    let key = Array::new(Type::new(DType::U32, &[2]), vec![4294967295.0, 3.0]);
    let found = eval(
        RandomBits {
            stream: 6,
            shape: vec![2, 3],
        },
        &[&key],
    );
    let (first, second) = (
        philox4x32([u32::MAX, 3], [0, 0, 6, 0]),
        philox4x32([u32::MAX, 3], [1, 0, 6, 0]),
    );
    let expected: Vec<f64> = first.iter().chain(&second[..2]).map(|&w| f64::from(w)).collect();
    assert_eq!(found[0].data, expected);
}

#[test]
fn dropout_reads_half_words() {
    let key = Array::new(Type::new(DType::U32, &[2]), vec![1.0, 2.0]);
    let x = Array::f32(&[10], vec![NAN; 10]);
    let found = eval(
        Dropout {
            p: 0.25,
            stream: 4,
            first: 0,
        },
        &[&x, &key],
    );
    let words = [philox4x32([1, 2], [0, 0, 4, 0]), philox4x32([1, 2], [1, 0, 4, 0])].concat();
    for i in 0..10 {
        let half = if i % 2 == 0 {
            words[i / 2] & 0xFFFF
        } else {
            words[i / 2] >> 16
        };
        assert_eq!(found[0].data[i].is_nan(), half >= 16384, "element {i}");
        assert!(found[0].data[i].is_nan() || found[0].data[i] == 0.0);
    }
    let ones = eval(
        Dropout {
            p: 0.25,
            stream: 4,
            first: 0,
        },
        &[&Array::f32(&[10], vec![1.0; 10]), &key],
    );
    assert!(ones[0].data.iter().all(|&y| y == 0.0 || y == 65536.0 / 49152.0));
}

#[test]
fn every_draw_of_a_trace_has_its_own_stream() {
    let trace = Trace::new();
    let (x, key) = (trace.input("x", DType::F32, &[4]), trace.input("key", DType::U32, &[2]));
    let y = x.dropout(0.5, key).dropout(0.0, key).dropout(0.5, key);
    trace.output("y", y);
    let streams = |g: &Graph| {
        g.nodes
            .iter()
            .filter_map(|n| n.op.attrs().int("stream").ok())
            .collect::<Vec<_>>()
    };
    let graph = trace.finish();
    assert_eq!(streams(&graph), [0, 1]);
    let more = Trace::of(graph);
    let key = more.tensor(ValueId(1));
    key.random_bits(&[3]);
    assert_eq!(streams(&more.finish()), [0, 1, 2]);
}

#[test]
fn evaluation_names_what_is_missing() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2]);
    trace.output("y", x.relu());
    let graph = trace.finish();
    let error = evaluate(&graph, &Default::default()).unwrap_err();
    assert_eq!(error.message(), "no value is given for the input `x`");
    let given = [("x".to_string(), Array::scalar(1.0))].into();
    let error = evaluate(&graph, &given).unwrap_err();
    assert_eq!(
        error.message(),
        "the input `x` has type f32[2], the value given has type f32[]"
    );
}

#[test]
fn assigned_states_are_returned_under_their_names() {
    let trace = Trace::new();
    let w = trace.state("w", DType::F32, &[2]);
    trace.assign(w, w * 2.0);
    trace.output("old", w);
    let given = [("w".to_string(), Array::f32(&[2], vec![1.0, 3.0]))].into();
    let results = evaluate(&trace.finish(), &given).unwrap();
    assert_eq!(results["w"].data, [2.0, 6.0]);
    assert_eq!(results["old"].data, [1.0, 3.0]);
}

#[test]
fn an_output_with_the_name_of_an_assigned_state_is_refused() {
    let trace = Trace::new();
    let w = trace.state("w", DType::F32, &[2]);
    trace.assign(w, w * 2.0);
    trace.output("w", w);
    let given = [("w".to_string(), Array::f32(&[2], vec![1.0, 3.0]))].into();
    let error = evaluate(&trace.finish(), &given).unwrap_err();
    assert_eq!(
        error.message(),
        "an output and an assigned state are both called `w`; rename the output"
    );
}
