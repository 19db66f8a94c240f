//! Branches, loops, scans, functions of the file, and the order of nodes.

use lessen_cpu::CpuBackend;
use lessen_onnx::proto::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, SparseTensorProto,
    TensorProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use lessen_onnx::{HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;
use prost::Message;
use std::sync::Arc;

use crate::builder::{Builder, F32, I64, float, int, ints};

pub(crate) const BOOL: i32 = 9;

/// What is added after a model: sets of operators and functions.
#[derive(Clone, PartialEq, Message)]
struct Functions {
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "25")]
    functions: Vec<FunctionProto>,
}

pub(crate) fn value(name: &str, elem_type: i32) -> ValueInfoProto {
    let tensor_type = Some(TensorTypeProto { elem_type, shape: None });
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto {
            tensor_type,
            ..TypeProto::default()
        }),
    }
}

pub(crate) fn node(op_type: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        op_type: op_type.to_string(),
        attribute,
        ..NodeProto::default()
    }
}

pub(crate) fn graph(nodes: Vec<NodeProto>, inputs: Vec<ValueInfoProto>, outputs: Vec<ValueInfoProto>) -> GraphProto {
    GraphProto {
        node: nodes,
        input: inputs,
        output: outputs,
        ..GraphProto::default()
    }
}

pub(crate) fn body(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Graph.into(),
        g: Some(graph),
        ..AttributeProto::default()
    }
}

/// The outputs of a model for these inputs.
fn outputs(bytes: &[u8], inputs: Vec<(&str, HostTensor)>) -> lessen_base::Result<Vec<HostValue>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    let session = Session::new(Arc::new(Model::open_to_run(&path)?), Box::new(CpuBackend::new(1)?))?;
    let inputs = inputs
        .into_iter()
        .map(|(name, tensor)| (name.to_string(), tensor.into()));
    Ok(session
        .run(inputs.collect())?
        .into_iter()
        .map(|(_, value)| value)
        .collect())
}

/// A model whose outputs may have any type.
pub(crate) fn model(inputs: &[(&str, i32)], nodes: Vec<NodeProto>, results: &[&str]) -> Builder {
    let mut b = Builder::new(17);
    b.graph = graph(
        nodes,
        inputs.iter().map(|(name, ty)| value(name, *ty)).collect(),
        results.iter().map(|name| value(name, 0)).collect(),
    );
    b
}

pub(crate) fn floats(shape: &[usize], all: &[f32]) -> HostTensor {
    HostTensor::new(shape, all.to_vec()).unwrap()
}

pub(crate) fn vector(all: &[f32]) -> HostTensor {
    floats(&[all.len()], all)
}

fn assert_outputs(b: &Builder, inputs: Vec<(&str, HostTensor)>, right: Vec<HostTensor>) {
    let right: Vec<HostValue> = right.into_iter().map(HostValue::from).collect();
    assert_eq!(outputs(&b.bytes(), inputs).unwrap(), right);
}

fn refused(b: &Builder, inputs: Vec<(&str, HostTensor)>, part: &str) {
    let error = outputs(&b.bytes(), inputs).expect_err(part);
    assert!(error.exit_code() == 2 && error.message().contains(part), "{error}");
}

/// A loop that adds `x` to `s` and gives the square of each sum, until `i` is 4 or more. Its nodes are in no order.
fn counting(trips: &str, condition: &str) -> Builder {
    let inner = graph(
        vec![
            node("Mul", &["s2", "s2"], &["square"], vec![]),
            node("Less", &["i", "four"], &["goes_on"], vec![]),
            node("Add", &["s", "x"], &["s2"], vec![]),
        ],
        vec![value("i", I64), value("c", BOOL), value("s", F32)],
        vec![value("goes_on", BOOL), value("s2", F32), value("square", F32)],
    );
    let nodes = vec![
        node(
            "Loop",
            &[trips, condition, "begin"],
            &["end", "squares"],
            vec![body("body", inner)],
        ),
        node("Neg", &["x"], &["begin"], vec![]),
    ];
    let mut b = model(&[("m", I64), ("c0", BOOL), ("x", F32)], nodes, &["end", "squares"]);
    b.graph.initializer.push(HostTensor::scalar(4i64).to_message("four"));
    b
}

#[test]
fn loops_end_by_number_or_condition_and_stack_what_they_give() {
    let given = |m: i64, c: bool| {
        vec![
            ("m", HostTensor::scalar(m)),
            ("c0", HostTensor::scalar(c)),
            ("x", vector(&[1.0, 2.0])),
        ]
    };
    let all = [0.0, 0.0, 1.0, 4.0, 4.0, 16.0, 9.0, 36.0, 16.0, 64.0];
    for (trips, condition, m, c, count) in [
        ("m", "c0", 3, true, 3),
        ("m", "c0", 30, true, 5),
        ("m", "", 2, false, 2),
        ("", "c0", 0, true, 5),
        ("m", "c0", 0, true, 0),
        ("m", "c0", 9, false, 0),
    ] {
        let last = count as f32 - 1.0;
        let squares = floats(&[count, 2], &all[..2 * count]);
        assert_outputs(
            &counting(trips, condition),
            given(m, c),
            vec![vector(&[last, 2.0 * last]), squares],
        );
    }
}

#[test]
fn scans_go_along_axes_in_both_directions() {
    let inner = graph(
        vec![
            node("Add", &["s", "a"], &["s2"], vec![]),
            node("Identity", &["s2"], &["sum"], vec![]),
        ],
        vec![value("s", F32), value("a", F32)],
        vec![value("s2", F32), value("sum", F32)],
    );
    let a = floats(&[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    for (axis, backwards, out_axis, out_backwards, end, sums) in [
        (
            1,
            0,
            0,
            0,
            [6.0, 60.0],
            floats(&[3, 2], &[1.0, 10.0, 3.0, 30.0, 6.0, 60.0]),
        ),
        (
            -1,
            1,
            1,
            0,
            [6.0, 60.0],
            floats(&[2, 3], &[3.0, 5.0, 6.0, 30.0, 50.0, 60.0]),
        ),
        (
            1,
            0,
            -1,
            1,
            [6.0, 60.0],
            floats(&[2, 3], &[6.0, 3.0, 1.0, 60.0, 30.0, 10.0]),
        ),
    ] {
        let attributes = vec![
            body("body", inner.clone()),
            int("num_scan_inputs", 1),
            ints("scan_input_axes", &[axis]),
            ints("scan_input_directions", &[backwards]),
            ints("scan_output_axes", &[out_axis]),
            ints("scan_output_directions", &[out_backwards]),
        ];
        let nodes = vec![node("Scan", &["s0", "a"], &["end", "sums"], attributes)];
        let b = model(&[("s0", F32), ("a", F32)], nodes, &["end", "sums"]);
        let given = vec![("s0", vector(&[0.0, 0.0])), ("a", a.clone())];
        assert_outputs(&b, given, vec![vector(&end), sums]);
    }
}

#[test]
fn bodies_read_what_is_around_them_unless_they_define_it() {
    // The branch of the inner node has an `x` of its own; the one around it is the loop's.
    let mut own = graph(
        vec![node("Add", &["x", "s"], &["r"], vec![])],
        vec![],
        vec![value("r", F32)],
    );
    own.initializer.push(vector(&[100.0]).to_message("x"));
    let other = graph(
        vec![node("Add", &["x", "s"], &["q"], vec![])],
        vec![],
        vec![value("q", F32)],
    );
    let branches = vec![body("then_branch", own), body("else_branch", other)];
    let inner = graph(
        vec![
            node("Identity", &["c"], &["c2"], vec![]),
            node("Greater", &["s", "limit"], &["is_large"], vec![]),
            node("If", &["is_large"], &["s2"], branches),
        ],
        vec![value("i", I64), value("c", BOOL), value("s", F32)],
        vec![value("c2", BOOL), value("s2", F32)],
    );
    let nodes = vec![node("Loop", &["m", "", "x"], &["y"], vec![body("body", inner)])];
    let mut b = model(&[("m", I64), ("x", F32)], nodes, &["y"]);
    b.graph.initializer.push(vector(&[2.5]).to_message("limit"));
    // 1, 2, 3 by the outer one, then 103 and 203.
    let given = vec![("m", HostTensor::scalar(4i64)), ("x", vector(&[1.0]))];
    assert_outputs(&b, given, vec![vector(&[203.0])]);
}

/// A function of the domain `own` whose nodes are of version 17.
fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    let import = |domain: &str, version| OperatorSetIdProto {
        domain: domain.to_string(),
        version,
    };
    FunctionProto {
        name: name.to_string(),
        domain: "own".to_string(),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        node: nodes,
        opset_import: vec![import("", 17), import("own", 1)],
        ..FunctionProto::default()
    }
}

fn call(name: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        domain: "own".to_string(),
        ..node(name, inputs, outputs, attribute)
    }
}

/// An attribute that the call gives.
fn given(name: &str, from: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Float.into(),
        ref_attr_name: from.to_string(),
        ..AttributeProto::default()
    }
}

fn with_functions(b: &Builder, functions: Vec<FunctionProto>) -> Vec<u8> {
    let opset_import = vec![OperatorSetIdProto {
        domain: "own".to_string(),
        version: 1,
    }];
    let mut bytes = b.bytes();
    bytes.extend(
        Functions {
            opset_import,
            functions,
        }
        .encode_to_vec(),
    );
    bytes
}

#[test]
fn functions_take_attributes_call_each_other_and_keep_their_versions() {
    let twice = function("Twice", &["a"], &["b"], vec![node("Add", &["a", "a"], &["b"], vec![])]);
    let mut leaky = function(
        "Leaky",
        &["a"],
        &["b", "a"],
        vec![
            call("Twice", &["a"], &["t"], vec![]),
            node("LeakyRelu", &["t"], &["b"], vec![given("alpha", "slope")]),
        ],
    );
    leaky.attribute_proto = vec![float("slope", 0.5)];
    // Axes are an attribute up to version 12.
    let mut sum = function(
        "Sum",
        &["a"],
        &["b"],
        vec![node("ReduceSum", &["a"], &["b"], vec![ints("axes", &[0])])],
    );
    sum.opset_import[0].version = 11;
    let nodes = vec![
        call("Leaky", &["x"], &["y", "x_again"], vec![float("slope", 0.25)]),
        call("Leaky", &["x"], &["z"], vec![]),
        call("Sum", &["x"], &["s"], vec![]),
    ];
    let b = model(&[("x", F32)], nodes, &["y", "x_again", "z", "s"]);
    let bytes = with_functions(&b, vec![twice, leaky, sum]);
    let found = outputs(&bytes, vec![("x", vector(&[-2.0, 3.0]))]).unwrap();
    let right = [&[-1.0, 6.0][..], &[-2.0, 3.0], &[-2.0, 6.0], &[1.0]];
    let right: Vec<HostValue> = right.iter().map(|all| vector(all).into()).collect();
    assert_eq!(found, right);
}

#[test]
fn functions_that_call_themselves_or_grow_without_end_are_refused() {
    let b = model(&[("x", F32)], vec![call("F0", &["x"], &["y"], vec![])], &["y"]);
    let itself = function("F0", &["a"], &["b"], vec![call("F0", &["a"], &["b"], vec![])]);
    let sentence = |functions| {
        let error = outputs(&with_functions(&b, functions), vec![("x", vector(&[1.0]))]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.message().to_string()
    };
    assert!(sentence(vec![itself]).contains("calls itself"));
    let doubling = (0..31).map(|i| {
        let next = format!("F{}", i + 1);
        let twice = vec![call(&next, &["a"], &["t"], vec![]), call(&next, &["t"], &["b"], vec![])];
        function(&format!("F{i}"), &["a"], &["b"], twice)
    });
    assert!(sentence(doubling.collect()).contains("too large"));
    let takes_one = function("F0", &["a"], &[], vec![]);
    assert!(sentence(vec![takes_one]).contains("has 0 outputs"));
}

#[test]
fn initializers_are_sparse_texts_or_given_anew() {
    let nodes = vec![
        node("Add", &["x", "w"], &["y"], vec![]),
        node("Equal", &["text", "other"], &["same"], vec![]),
    ];
    let mut b = model(&[("x", F32), ("w", F32), ("other", 8)], nodes, &["y", "same"]);
    b.opset = 19;
    let texts = |all: &[&str]| HostTensor::vector(all.iter().map(|text| text.to_string()).collect::<Vec<_>>());
    b.graph.initializer.push(texts(&["a", "bc"]).to_message("text"));
    b.graph.initializer.push(vector(&[1.0, 2.0, 3.0]).to_message("w"));
    let same = HostTensor::vector(vec![true, false]);
    let given = || vec![("x", vector(&[0.0, 0.0, 1.0])), ("other", texts(&["a", "x"]))];
    assert_outputs(&b, given(), vec![vector(&[1.0, 2.0, 4.0]), same.clone()]);
    let mut anew = given();
    anew.push(("w", vector(&[7.0, 7.0, 7.0])));
    assert_outputs(&b, anew, vec![vector(&[7.0, 7.0, 8.0]), same.clone()]);
    b.graph.initializer.pop();
    b.graph.input.remove(1);
    b.graph.sparse_initializer.push(SparseTensorProto {
        values: Some(vector(&[5.0]).to_message("w")),
        indices: Some(TensorProto {
            dims: vec![1],
            data_type: I64,
            int64_data: vec![2],
            ..TensorProto::default()
        }),
        dims: vec![3],
    });
    assert_outputs(&b, given(), vec![vector(&[0.0, 0.0, 6.0]), same]);
}

#[test]
fn circles_wrong_conditions_and_wrong_bodies_are_named() {
    let empty = graph(vec![], vec![], vec![]);
    let both = vec![body("then_branch", empty.clone()), body("else_branch", empty.clone())];
    let b = model(&[("x", F32)], vec![node("If", &["x"], &["y"], both)], &["y"]);
    refused(&b, vec![("x", vector(&[1.0]))], "truth value");
    let b = model(
        &[("x", F32)],
        vec![node("Loop", &["", "", "x"], &["y"], vec![body("body", empty)])],
        &["y"],
    );
    refused(&b, vec![("x", vector(&[1.0]))], "0 inputs and 0 outputs");
    let circle = graph(
        vec![node("Neg", &["p"], &["q"], vec![]), node("Neg", &["q"], &["p"], vec![])],
        vec![],
        vec![value("p", F32)],
    );
    let both = vec![body("then_branch", circle.clone()), body("else_branch", circle)];
    let b = model(&[("x", BOOL)], vec![node("If", &["x"], &["y"], both)], &["y"]);
    refused(&b, vec![("x", HostTensor::scalar(true))], "reads what follows from it");
    let mut deep = graph(vec![node("Neg", &["x"], &["q"], vec![])], vec![], vec![value("q", F32)]);
    for _ in 0..33 {
        let both = vec![body("then_branch", deep.clone())];
        deep = graph(vec![node("If", &["x"], &["q"], both)], vec![], vec![value("q", F32)]);
    }
    let b = model(&[("x", BOOL)], deep.node, &["q"]);
    refused(&b, vec![("x", HostTensor::scalar(true))], "");
}
