//! Recurrent networks beside what ONNX Runtime gave for them, which `fixtures/make_recurrent.py` recorded.

use std::sync::Arc;

use lessen_cpu::CpuBackend;
use lessen_onnx::proto::{AttributeProto, AttributeType, NodeProto, TensorTypeProto, TypeProto, ValueInfoProto};
use lessen_onnx::{Data, HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;

use crate::builder::{Builder, float, int};

const STEPS: usize = 3;
const BATCH: usize = 2;
const WIDTH: usize = 3;
const HIDDEN: usize = 2;

fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::String.into(),
        s: s.as_bytes().to_vec(),
        ..AttributeProto::default()
    }
}

fn texts(name: &str, all: &[&str]) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Strings.into(),
        strings: all.iter().map(|text| text.as_bytes().to_vec()).collect(),
        ..AttributeProto::default()
    }
}

fn floats(name: &str, all: &[f32]) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Floats.into(),
        floats: all.to_vec(),
        ..AttributeProto::default()
    }
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

/// The outputs of a network for the inputs that are named in `given`, by their letters.
fn run(operator: &str, given: &str, attributes: Vec<AttributeProto>, element: fn(Vec<f64>) -> Data) -> Vec<HostTensor> {
    let is_both = attributes.iter().any(|attribute| attribute.s == b"bidirectional");
    let is_batchwise = attributes.iter().any(|attribute| attribute.name == "layout");
    let directions = if is_both { 2 } else { 1 };
    let rows = HIDDEN
        * ["RNN", "", "GRU", "LSTM"]
            .iter()
            .position(|name| *name == operator)
            .map_or(0, |at| at + 1);
    let state = [directions, BATCH, HIDDEN];
    let shapes: [&[usize]; 8] = [
        &[STEPS, BATCH, WIDTH],
        &[directions, rows, WIDTH],
        &[directions, rows, HIDDEN],
        &[directions, 2 * rows],
        &[BATCH],
        &state,
        &state,
        &[directions, 3 * HIDDEN],
    ];
    let mut b = Builder::new(14);
    let (mut names, mut inputs) = (Vec::new(), Vec::new());
    for (i, (letter, shape)) in "XWRBLhcP".chars().zip(shapes).enumerate() {
        let name = if given.contains(letter) {
            letter.to_string()
        } else {
            String::new()
        };
        if !name.is_empty() {
            let count = shape.iter().product::<usize>();
            let numbers = (0..count).map(|k| f64::from(((0.7 * k as f64 + i as f64).sin() / 2.0) as f32));
            let mut tensor = HostTensor::new(shape, element(numbers.collect())).unwrap();
            if letter == 'L' {
                tensor = HostTensor::vector(vec![3, 2]);
            } else if is_batchwise && letter == 'X' {
                tensor = swapped(&tensor);
            }
            b.graph.input.push(value(&name, tensor.element().unwrap().data_type()));
            inputs.push((name.clone(), HostValue::from(tensor)));
        }
        names.push(name);
    }
    let outputs = &["Y", "Y_h", "Y_c"][..if operator == "LSTM" { 3 } else { 2 }];
    b.graph.node.push(NodeProto {
        op_type: operator.to_string(),
        input: names,
        output: outputs.iter().map(|name| name.to_string()).collect(),
        attribute: [vec![int("hidden_size", HIDDEN as i64)], attributes].concat(),
        ..NodeProto::default()
    });
    b.graph.output.extend(outputs.iter().map(|name| value(name, 1)));
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open_to_run(&b.write(folder.path(), "model.onnx")).unwrap();
    let session = Session::new(Arc::new(model), Box::new(CpuBackend::new(1).unwrap())).unwrap();
    let found = session.run(inputs).unwrap();
    found
        .into_iter()
        .map(|(_, value)| HostTensor::clone(value.tensor().unwrap()))
        .collect()
}

/// An array whose first two axes are exchanged.
fn swapped(tensor: &HostTensor) -> HostTensor {
    let &[a, b, ref rest @ ..] = tensor.shape() else {
        panic!("at least two axes")
    };
    let each = rest.iter().product::<usize>();
    let places = (0..b).flat_map(|j| (0..a).flat_map(move |i| (0..each).map(move |k| (i * b + j) * each + k)));
    HostTensor::new(&[&[b, a], rest].concat(), tensor.data().at(places)).unwrap()
}

/// Recorded numbers by the name of a network and an output.
fn recorded(network: &str, output: &str) -> Vec<f64> {
    let all = include_str!("../fixtures/recurrent.txt");
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{network} {output} ")))
        .unwrap();
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

fn assert_near(network: &str, output: &str, found: &HostTensor, tolerance: f64) {
    let right = recorded(network, output);
    let found = found.data().to_f64();
    assert_eq!(found.len(), right.len(), "{network} {output}");
    for (found, right) in found.iter().zip(&right) {
        assert!(
            (found - right).abs() <= tolerance,
            "{network} {output}: {found}, right is {right}"
        );
    }
}

/// The networks of the fixture: name, operator, inputs, attributes.
fn networks() -> Vec<(&'static str, &'static str, &'static str, Vec<AttributeProto>)> {
    let both = || text("direction", "bidirectional");
    let all = ["HardSigmoid", "Elu", "Tanh", "Sigmoid", "Softplus", "LeakyRelu"];
    vec![
        (
            "rnn",
            "RNN",
            "XWRBLh",
            vec![both(), texts("activations", &["Relu", "Softsign"]), float("clip", 0.6)],
        ),
        ("gru", "GRU", "XWRB", vec![]),
        (
            "gru_reset",
            "GRU",
            "XWRBLh",
            vec![text("direction", "reverse"), int("linear_before_reset", 1)],
        ),
        ("gru_both", "GRU", "XWRBh", vec![both(), int("linear_before_reset", 1)]),
        ("lstm", "LSTM", "XWRB", vec![text("direction", "reverse")]),
        ("lstm_both", "LSTM", "XWRBhc", vec![both()]),
        (
            "lstm_all",
            "LSTM",
            "XWRBLhcP",
            vec![
                both(),
                float("clip", 0.5),
                int("input_forget", 1),
                texts("activations", &all),
                floats("activation_alpha", &[0.3, 0.5, 0.1]),
                floats("activation_beta", &[0.4]),
            ],
        ),
    ]
}

#[test]
fn recurrent_networks_give_what_onnx_runtime_gives() {
    let f32s = |all: Vec<f64>| all.into_iter().map(|x| x as f32).collect::<Vec<_>>().into();
    for (name, operator, given, attributes) in networks() {
        let found = run(operator, given, attributes.clone(), f32s);
        let found_f64 = run(operator, given, attributes, Data::from);
        for (i, output) in ["Y", "Y_h", "Y_c"].iter().enumerate().take(found.len()) {
            assert_near(name, output, &found[i], 2e-6);
            assert_near(name, output, &found_f64[i], 2e-6);
            assert!(matches!(
                (found[i].data(), found_f64[i].data()),
                (Data::F32(_), Data::F64(_))
            ));
        }
    }
}

#[test]
fn batches_may_come_first() {
    let f32s = |all: Vec<f64>| all.into_iter().map(|x| x as f32).collect::<Vec<_>>().into();
    for (name, operator) in [("gru", "GRU"), ("lstm", "LSTM")] {
        let mut attributes = vec![int("layout", 1)];
        if operator == "LSTM" {
            attributes.push(text("direction", "reverse"));
        }
        let found = run(operator, "XWRB", attributes, f32s);
        assert_eq!(found[0].shape(), [BATCH, STEPS, 1, HIDDEN]);
        // Batch, step, direction: the direction has one entry, so that two exchanges lead to step, direction, batch.
        let steps_first = swapped(&found[0]);
        assert_near(name, "Y", &steps_first, 2e-6);
        assert_eq!(found[1].shape(), [BATCH, 1, HIDDEN]);
        assert_near(name, "Y_h", &found[1], 2e-6);
    }
}
