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

const BOOL: i32 = 9;

/// What is added after a model: sets of operators and functions.
#[derive(Clone, PartialEq, Message)]
struct Functions {
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "25")]
    functions: Vec<FunctionProto>,
}

fn value(name: &str, elem_type: i32) -> ValueInfoProto {
    let tensor_type = Some(TensorTypeProto { elem_type, shape: None });
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto {
            tensor_type,
            ..TypeProto::default()
        }),
    }
}

fn node(op_type: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        op_type: op_type.to_string(),
        attribute,
        ..NodeProto::default()
    }
}

fn graph(nodes: Vec<NodeProto>, inputs: Vec<ValueInfoProto>, outputs: Vec<ValueInfoProto>) -> GraphProto {
    GraphProto {
        node: nodes,
        input: inputs,
        output: outputs,
        ..GraphProto::default()
    }
}

fn body(name: &str, graph: GraphProto) -> AttributeProto {
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
fn model(inputs: &[(&str, i32)], nodes: Vec<NodeProto>, results: &[&str]) -> Builder {
    let mut b = Builder::new(17);
    b.graph = graph(
        nodes,
        inputs.iter().map(|(name, ty)| value(name, *ty)).collect(),
        results.iter().map(|name| value(name, 0)).collect(),
    );
    b
}

fn floats(shape: &[usize], all: &[f32]) -> HostTensor {
    HostTensor::new(shape, all.to_vec()).unwrap()
}

fn vector(all: &[f32]) -> HostTensor {
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

/// The session of a model.
fn session(b: &Builder) -> Session<CpuBackend> {
    let folder = tempfile::tempdir().unwrap();
    let path = b.write(folder.path(), "model.onnx");
    let model = Model::open_to_run(&path).unwrap();
    Session::new(Arc::new(model), Box::new(CpuBackend::new(2).unwrap())).unwrap()
}

/// The outputs of a session, and how many of its nodes were computed in memory.
fn ran(session: &Session<CpuBackend>, given: &[(&str, HostTensor)]) -> (Vec<HostTensor>, usize) {
    let given = given
        .iter()
        .map(|(name, tensor)| (name.to_string(), tensor.clone().into()));
    let found = session.run(given.collect()).unwrap();
    let found = found
        .iter()
        .map(|(_, value)| HostTensor::clone(value.tensor().unwrap()));
    (found.collect(), session.last_run().1.len())
}

#[test]
fn loops_of_a_known_number_of_turns_are_one_program() {
    // A state that stays as it is, one that grows by a row of `x` in each turn, and the rows so far.
    let inner = graph(
        vec![
            node("Gather", &["x", "i"], &["row"], vec![]),
            node("Mul", &["row", "w"], &["scaled"], vec![]),
            node("Add", &["s", "scaled"], &["s2"], vec![]),
            node("Identity", &["c"], &["c2"], vec![]),
            node("Neg", &["s2"], &["negative"], vec![]),
        ],
        vec![value("i", I64), value("c", BOOL), value("w", F32), value("s", F32)],
        vec![
            value("c2", BOOL),
            value("w", F32),
            value("s2", F32),
            value("negative", F32),
        ],
    );
    let nodes = vec![
        node("Shape", &["x"], &["shape"], vec![]),
        node("Gather", &["shape", "zero"], &["rows"], vec![]),
        node(
            "Loop",
            &["rows", "", "w0", "s0"],
            &["w1", "s1", "all"],
            vec![body("body", inner)],
        ),
    ];
    let mut b = model(&[("x", F32), ("w0", F32), ("s0", F32)], nodes, &["w1", "s1", "all"]);
    b.graph.initializer.push(HostTensor::scalar(0i64).to_message("zero"));
    let session = session(&b);
    for rows in [3usize, 5] {
        let x: Vec<f32> = (0..2 * rows).map(|i| i as f32).collect();
        let given = [
            ("x", floats(&[rows, 2], &x)),
            ("w0", vector(&[2.0, 0.5])),
            ("s0", vector(&[1.0, 0.0])),
        ];
        let (mut sums, mut all) = (vec![1.0, 0.0], Vec::new());
        for row in x.chunks(2) {
            sums = vec![sums[0] + 2.0 * row[0], sums[1] + 0.5 * row[1]];
            all.extend(sums.iter().map(|sum| -sum));
        }
        let right = vec![vector(&[2.0, 0.5]), vector(&sums), floats(&[rows, 2], &all)];
        for _ in 0..2 {
            assert_eq!(ran(&session, &given), (right.clone(), 0));
        }
    }
}

/// A loop that adds the rows of `x` up to its turn to a state, as long as the state's sum is below `limit`. A second
/// state has fixed extents, or one more row in each turn.
fn accumulating(grows: bool) -> Builder {
    let second = match grows {
        true => node("Concat", &["t", "row"], &["t2"], vec![int("axis", 0)]),
        false => node("Add", &["t", "product"], &["t2"], vec![]),
    };
    let inner = graph(
        vec![
            node("Reshape", &["i", "one"], &["number"], vec![]),
            node("Add", &["number", "one"], &["end"], vec![]),
            node("Slice", &["x", "none", "end"], &["rows"], vec![]),
            node("ReduceSum", &["rows", "none"], &["sum"], vec![int("keepdims", 0)]),
            node("Add", &["s", "sum"], &["s2"], vec![]),
            node("MatMul", &["s2", "w"], &["product"], vec![]),
            node("Unsqueeze", &["product", "none"], &["row"], vec![]),
            second,
            node("ReduceSum", &["s2"], &["total"], vec![int("keepdims", 0)]),
            node("Less", &["total", "limit"], &["goes_on"], vec![]),
        ],
        vec![value("i", I64), value("c", BOOL), value("s", F32), value("t", F32)],
        vec![
            value("goes_on", BOOL),
            value("s2", F32),
            value("t2", F32),
            value("product", F32),
        ],
    );
    let nodes = vec![node(
        "Loop",
        &["", "", "s0", "t0"],
        &["s1", "t1", "all"],
        vec![body("body", inner)],
    )];
    let mut b = model(
        &[("x", F32), ("limit", F32), ("s0", F32), ("t0", F32)],
        nodes,
        &["s1", "t1", "all"],
    );
    b.graph
        .initializer
        .push(HostTensor::vector(vec![1i64]).to_message("one"));
    b.graph
        .initializer
        .push(HostTensor::vector(vec![0i64]).to_message("none"));
    b.graph
        .initializer
        .push(floats(&[2, 2], &[2.0, 0.0, 1.0, -1.0]).to_message("w"));
    b
}

#[test]
fn loops_whose_end_is_computed_give_the_same_from_run_to_run() {
    let x = floats(&[6, 2], &[1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 2.0, 2.0, 1.0, 0.0, 4.0, 1.0]);
    for grows in [false, true] {
        let session = session(&accumulating(grows));
        for limit in [30.0f32, 1e3, 9.0, 30.0] {
            let t0 = if grows {
                floats(&[1, 2], &[5.0, 6.0])
            } else {
                vector(&[5.0, 6.0])
            };
            let given = [
                ("x", x.clone()),
                ("limit", HostTensor::scalar(limit)),
                ("s0", vector(&[0.0, 0.0])),
                ("t0", t0),
            ];
            let (mut s, mut t, mut all, mut turns) = ([0.0f32; 2], vec![5.0f32, 6.0], Vec::new(), 0);
            let numbers = x.data().to_f64();
            while turns == 0 || s[0] + s[1] < limit {
                turns += 1;
                for row in numbers.chunks(2).take(turns) {
                    s = [s[0] + row[0] as f32, s[1] + row[1] as f32];
                }
                let product = [2.0 * s[0] + s[1], -s[1]];
                all.extend(product);
                if grows {
                    t.extend(product);
                } else {
                    t = vec![t[0] + product[0], t[1] + product[1]];
                }
            }
            let t1 = if grows { floats(&[turns + 1, 2], &t) } else { vector(&t) };
            let right = vec![vector(&s), t1, floats(&[turns, 2], &all)];
            for _ in 0..2 {
                assert_eq!(ran(&session, &given).0, right, "{grows} {limit}");
            }
        }
    }
}

#[test]
fn positions_become_vectors_in_a_program() {
    let nodes = vec![
        node(
            "OneHot",
            &["ids", "depth", "numbers"],
            &["vectors"],
            vec![int("axis", 0)],
        ),
        node("Add", &["vectors", "x"], &["y"], vec![]),
    ];
    let mut b = model(&[("ids", I64), ("x", F32)], nodes, &["y"]);
    b.graph.initializer.push(HostTensor::scalar(3i64).to_message("depth"));
    b.graph.initializer.push(vector(&[-1.0, 4.0]).to_message("numbers"));
    let given = [
        ("ids", HostTensor::vector(vec![2i64, -3, 7, 1])),
        ("x", floats(&[3, 4], &[0.0; 12])),
    ];
    let right = [-1.0, 4.0, -1.0, -1.0, -1.0, -1.0, -1.0, 4.0, 4.0, -1.0, -1.0, -1.0];
    let session = session(&b);
    for _ in 0..2 {
        assert_eq!(ran(&session, &given), (vec![floats(&[3, 4], &right)], 0));
    }
}
