//! Sessions that run again: with other elements, extents, integers that decide shapes, and branches.

use std::sync::Arc;

use lessen_cpu::CpuBackend;
use lessen_onnx::proto::{AttributeProto, GraphProto, NodeProto, TensorTypeProto, TypeProto, ValueInfoProto};
use lessen_onnx::{HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;

use crate::builder::{Builder, F32, I64, branch};

const BOOL: i32 = 9;

fn value(name: &str, elem_type: i32) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto { elem_type, shape: None }),
            ..TypeProto::default()
        }),
    }
}

fn node(op_type: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: vec![output.to_string()],
        op_type: op_type.to_string(),
        attribute,
        ..NodeProto::default()
    }
}

/// Squares in a shape that is an input, the places of those that are not zero, and, by a truth value, the squares plus
/// or minus their sum.
fn session() -> Session<CpuBackend> {
    let mut b = Builder::new(17);
    let names = ["square", "total"];
    let branches = vec![
        branch("then_branch", "", ("Add", &names), "inner"),
        branch("else_branch", "", ("Sub", &names), "inner"),
    ];
    b.graph = GraphProto {
        node: vec![
            node("Mul", &["x", "x"], "square", vec![]),
            node("Reshape", &["square", "shape"], "shaped", vec![]),
            node("NonZero", &["shaped"], "places", vec![]),
            node("ReduceSum", &["shaped"], "sum", vec![]),
            node("Reshape", &["sum", "one"], "total", vec![]),
            node("If", &["adds"], "y", branches),
        ],
        input: vec![value("x", F32), value("shape", I64), value("adds", BOOL)],
        output: vec![value("shaped", F32), value("places", I64), value("y", F32)],
        ..GraphProto::default()
    };
    b.graph
        .initializer
        .push(HostTensor::vector(vec![1i64]).to_message("one"));
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open_to_run(&b.write(folder.path(), "model.onnx")).unwrap();
    Session::new(Arc::new(model), Box::new(CpuBackend::new(1).unwrap())).unwrap()
}

/// Runs a session and compares its outputs with those computed here.
fn check(session: &Session<CpuBackend>, x: &[f32], [rows, columns]: [usize; 2], adds: bool) {
    let given: [(&str, HostValue); 3] = [
        ("x", HostTensor::vector(x.to_vec()).into()),
        ("shape", HostTensor::vector(vec![rows as i64, columns as i64]).into()),
        ("adds", HostTensor::scalar(adds).into()),
    ];
    let given = given.map(|(name, value)| (name.to_string(), value)).to_vec();
    let found: Vec<HostValue> = session
        .run(given)
        .unwrap()
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
    let total: f32 = squares.iter().sum();
    let places: Vec<usize> = (0..x.len()).filter(|i| x[*i] != 0.0).collect();
    let each = |of: &dyn Fn(usize) -> usize| places.iter().map(|i| of(*i) as i64).collect::<Vec<i64>>();
    let both = [each(&|i| i / columns), each(&|i| i % columns)].concat();
    let y = squares
        .iter()
        .map(|square| if adds { square + total } else { square - total });
    let right = [
        HostTensor::new(&[rows, columns], squares.clone()),
        HostTensor::new(&[2, places.len()], both),
        HostTensor::new(&[x.len()], y.collect::<Vec<f32>>()),
    ];
    let right: Vec<HostValue> = right.into_iter().map(|tensor| tensor.unwrap().into()).collect();
    assert_eq!(found, right, "{x:?} as {rows} x {columns}, adds: {adds}");
}

#[test]
fn a_session_follows_other_elements_extents_integers_and_branches() {
    let session = session();
    let (four, six) = ([1.0, 0.0, 3.0, 2.0], [0.0, 1.0, 0.0, 2.0, 3.0, 0.0]);
    check(&session, &four, [2, 2], true);
    check(&session, &four, [4, 1], true);
    check(&session, &six, [3, 2], false);
    check(&session, &six, [2, 3], true);
    check(&session, &[0.0, 0.0, 0.0, 5.0], [2, 2], false);
    let compiled = session.compile_time();
    for adds in [true, false, true] {
        check(&session, &[4.0, 1.0, 0.0, 1.0], [2, 2], adds);
        check(&session, &six, [3, 2], false);
    }
    assert_eq!(
        session.compile_time(),
        compiled,
        "a way that is known is compiled again"
    );
}

#[test]
fn threads_share_a_session() {
    let session = session();
    std::thread::scope(|scope| {
        for first in 1..4u8 {
            let session = &session;
            scope.spawn(move || {
                let first = f32::from(first);
                (0..4).for_each(|_| check(session, &[first, 0.0, 2.0, 1.0], [2, 2], first > 1.0));
            });
        }
    });
}

/// The outputs of nodes on `x`, `f32[1, 1, 1, 2]`.
fn outputs_of(
    nodes: Vec<NodeProto>,
    floats: &[(&str, &[i64], f32)],
    outputs: &[&str],
) -> lessen_base::Result<Vec<f32>> {
    let mut b = Builder::new(17);
    for (name, shape, x) in floats {
        let count = shape.iter().product::<i64>() as usize;
        b.floats(name, shape, vec![*x; count]);
    }
    b.truth("true", true);
    b.graph.node = nodes;
    b.graph.input = vec![value("x", F32)];
    b.graph.output = outputs.iter().map(|name| value(name, F32)).collect();
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open_to_run(&b.write(folder.path(), "model.onnx"))?;
    let session = Session::new(Arc::new(model), Box::new(CpuBackend::new(1)?))?;
    let x = HostTensor::new(&[1, 1, 1, 2], vec![1.0f32, 2.0])?;
    let found = session.run(vec![("x".to_string(), x.into())])?;
    let numbers = found
        .iter()
        .flat_map(|(_, value)| value.tensor().unwrap().data().to_f64());
    Ok(numbers.map(|x| x as f32).collect())
}

#[test]
fn values_may_have_the_names_of_folded_weights_and_of_values_in_branches() {
    let one: &[i64] = &[1];
    for taken in ["y/folded weight", "y/folded bias", "folded weight of y"] {
        let nodes = vec![
            node("Conv", &["x", "w"], "c", vec![]),
            node(
                "BatchNormalization",
                &["c", "scale", "zero", "zero", "variance"],
                "y",
                vec![],
            ),
            node("Mul", &["x", taken], "z", vec![]),
        ];
        let floats: [(&str, &[i64], f32); 5] = [
            ("w", &[1, 1, 1, 1], 3.0),
            ("scale", one, 2.0),
            ("zero", one, 0.0),
            ("variance", one, 1.0 - 1e-5),
            (taken, &[1, 1, 1, 2], 7.0),
        ];
        let found = outputs_of(nodes, &floats, &["y", "z"]).unwrap();
        assert_eq!(found, [6.0, 12.0, 7.0, 14.0], "{taken}");
    }
    for taken in ["y/then_branch/inner", "then_branch of 1 y/inner"] {
        let branches = vec![
            branch("then_branch", "", ("Add", &["x", "x"]), "inner"),
            branch("else_branch", "", ("Sub", &["x", "x"]), "inner"),
        ];
        let nodes = vec![
            node("Mul", &["x", "seven"], taken, vec![]),
            node("If", &["true"], "y", branches),
        ];
        let found = outputs_of(nodes, &[("seven", &[1, 1, 1, 2], 7.0)], &["y", taken]).unwrap();
        assert_eq!(found, [2.0, 4.0, 7.0, 14.0], "{taken}");
    }
}

#[test]
fn a_name_that_begins_as_those_of_lessen_do_is_refused() {
    let nodes = vec![node("Mul", &["x", "\u{1}constant 0"], "y", vec![])];
    let refused = outputs_of(nodes, &[("\u{1}constant 0", &[2], 7.0)], &["y"]).unwrap_err();
    let expected = "the name of the value `\\u{1}constant 0` begins with a control character that Lessen keeps for names of \
                    its own; rename it";
    assert!(refused.to_string().contains(expected), "{refused}");
}

/// ONNX defines the softmax of a row by its exponentials, of which there are none where all numbers are minus infinity.
#[test]
fn a_softmax_of_nothing_is_no_number() {
    let ends = [f32::NEG_INFINITY, 0.0].map(|x| {
        let nodes = vec![
            node("Mul", &["x", "zero"], "m", vec![]),
            node("Add", &["m", "end"], "s", vec![]),
            node("Softmax", &["s"], "y", vec![]),
            node("LogSoftmax", &["s"], "z", vec![]),
        ];
        outputs_of(nodes, &[("zero", &[1], 0.0), ("end", &[1], x)], &["y", "z"]).unwrap()
    });
    assert!(ends[0].iter().all(|x| x.is_nan()), "{ends:?}");
    assert_eq!(ends[1], [0.5, 0.5, -std::f32::consts::LN_2, -std::f32::consts::LN_2]);
}
