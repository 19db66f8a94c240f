//! Operators beside what ONNX Runtime gave for them, which `tests/fixtures/make_products.py` recorded, and what follows
//! from definitions alone.

use half::f16;
use lessen_base::Result;

use lessen_onnx::proto::{AttributeProto, NodeProto};
use lessen_onnx::{Data, Element, HostTensor, HostValue};
use lessen_onnx_sessions::run_node;

/// A node of one operator.
fn node(domain: &str, operator: &str, attributes: Vec<AttributeProto>, outputs: usize) -> NodeProto {
    NodeProto {
        op_type: operator.to_string(),
        domain: domain.to_string(),
        attribute: attributes,
        output: (0..outputs).map(|i| format!("y{i}")).collect(),
        ..NodeProto::default()
    }
}

fn run(node: &NodeProto, opset: i64, inputs: Vec<HostTensor>) -> Result<Vec<HostTensor>> {
    let inputs = inputs.into_iter().map(|input| Some(input.into())).collect();
    let outputs = run_node(node, opset, inputs)?;
    let tensor = |value: HostValue| value.tensor().map(|tensor| (**tensor).clone());
    Ok(outputs.into_iter().filter_map(tensor).collect())
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        i,
        ..AttributeProto::default()
    }
}

fn text(name: &str, text: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        s: text.as_bytes().to_vec(),
        ..AttributeProto::default()
    }
}

/// An attribute of a recorded case, such as `axis int 1`.
fn attribute(given: &str) -> AttributeProto {
    let mut words = given.splitn(3, ' ');
    let (name, kind, value) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let mut attribute = int(name, 0);
    match kind {
        "int" => attribute.i = value.parse().unwrap(),
        "float" => attribute.f = value.parse().unwrap(),
        "ints" => attribute.ints = value.split(' ').map(|x| x.parse().unwrap()).collect(),
        _ => attribute.s = value.as_bytes().to_vec(),
    }
    attribute
}

/// An array of a recorded case, such as `f32 [2] 1 2`; without elements, those of the input number `i`.
fn array(given: &str, i: usize) -> HostTensor {
    let mut words = given.split(' ');
    let element = match words.next().unwrap() {
        "f32" => Element::F32,
        "i32" => Element::Int(4),
        "i64" => Element::Int(8),
        "u8" => Element::Unsigned(1),
        "i8" => Element::Int(1),
        other => panic!("{other} is no type"),
    };
    let extents = words.next().unwrap().trim_matches(['[', ']']);
    let shape: Vec<usize> = extents
        .split(',')
        .filter(|x| !x.is_empty())
        .map(|x| x.parse().unwrap())
        .collect();
    let mut all: Vec<f64> = words.map(|x| x.parse().unwrap()).collect();
    if all.is_empty() {
        all = (0..shape.iter().product())
            .map(|k: usize| (((7 * k + 3 * i) % 11) as f64 - 5.0) / 4.0)
            .collect();
    }
    HostTensor::new(&shape, Data::of_f64(element, all.into_iter())).unwrap()
}

#[test]
fn operators_give_what_onnx_runtime_gives() {
    for line in include_str!("../../fixtures/products.txt").lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [name, operator, attributes, inputs, outputs] = parts[..] else {
            panic!("{line}");
        };
        let words: Vec<&str> = operator.split(' ').collect();
        let domain = if words[0] == "onnx" { "" } else { words[0] };
        let attributes = attributes
            .split("; ")
            .filter(|x| !x.is_empty())
            .map(attribute)
            .collect();
        let expected: Vec<HostTensor> = outputs.split("; ").map(|given| array(given, 0)).collect();
        let node = node(domain, words[1], attributes, expected.len());
        let inputs = inputs
            .split("; ")
            .enumerate()
            .map(|(i, given)| array(given, i))
            .collect();
        let found = run(&node, words[2].parse().unwrap(), inputs).unwrap_or_else(|why| panic!("{name}: {why}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.element(), expected.element(), "{name}");
            assert_eq!(found.shape(), expected.shape(), "{name}");
            let is_float = found.element().is_some_and(Element::is_float);
            let allowed = if is_float { 1e-4 } else { 0.0 };
            for (a, b) in found.data().to_f64().iter().zip(expected.data().to_f64()) {
                assert!(
                    (a - b).abs() <= allowed * (1.0 + b.abs()),
                    "{name}: {found:?} and {expected:?}"
                );
            }
        }
        assert!(found.len() >= expected.len(), "{name}");
    }
}

#[test]
fn integers_wrap_and_16_bit_floats_round_once() {
    let matmul = node("", "MatMul", vec![], 1);
    let wide = HostTensor::new(&[1, 2], vec![i32::MAX, 1]).unwrap();
    let ones = HostTensor::new(&[2, 1], vec![2i32, 3]).unwrap();
    assert_eq!(
        run(&matmul, 17, vec![wide, ones]).unwrap()[0].data(),
        &Data::I32(vec![1])
    );
    // 2048 + 1 + 1 is 2048 where each sum is rounded, and 2050 where the last one is.
    let halves = |all: [f32; 3]| all.map(f16::from_f32).to_vec();
    let row = HostTensor::new(&[1, 3], halves([2048.0, 1.0, 1.0])).unwrap();
    let column = HostTensor::new(&[3, 1], halves([1.0; 3])).unwrap();
    let found = run(&matmul, 17, vec![row, column]).unwrap();
    assert_eq!(found[0].data(), &Data::F16(vec![f16::from_f32(2050.0)]));
    let sum = node("", "ReduceSum", vec![], 1);
    let found = run(&sum, 13, vec![HostTensor::vector(vec![i64::MAX, 1])]).unwrap();
    assert_eq!(found[0].data(), &Data::I64(vec![i64::MIN]));
    let product = node("", "ReduceProd", vec![int("keepdims", 0)], 1);
    let found = run(&product, 18, vec![HostTensor::vector(vec![65536i32, 65537])]).unwrap();
    assert_eq!(found[0], HostTensor::scalar(65536i32));
}

#[test]
fn nothing_reduces_to_what_changes_nothing() {
    let reduced = |operator: &str, empty: HostTensor| {
        let node = node("", operator, vec![int("keepdims", 0)], 1);
        run(&node, 20, vec![empty, HostTensor::vector(vec![1i64])]).map(|found| found[0].data().clone())
    };
    let floats = || HostTensor::new(&[2, 0], Vec::<f32>::new()).unwrap();
    let integers = || HostTensor::new(&[2, 0], Vec::<i8>::new()).unwrap();
    assert_eq!(reduced("ReduceSum", floats()).unwrap(), Data::F32(vec![0.0; 2]));
    assert_eq!(reduced("ReduceProd", floats()).unwrap(), Data::F32(vec![1.0; 2]));
    assert_eq!(
        reduced("ReduceMax", floats()).unwrap(),
        Data::F32(vec![f32::NEG_INFINITY; 2])
    );
    assert_eq!(
        reduced("ReduceMin", floats()).unwrap(),
        Data::F32(vec![f32::INFINITY; 2])
    );
    assert_eq!(
        reduced("ReduceLogSumExp", floats()).unwrap(),
        Data::F32(vec![f32::NEG_INFINITY; 2])
    );
    assert_eq!(reduced("ReduceMax", integers()).unwrap(), Data::I8(vec![i8::MIN; 2]));
    assert!(reduced("ReduceMean", integers()).is_err());
    let truths = HostTensor::new(&[2, 2], vec![true, false, false, false]).unwrap();
    assert_eq!(reduced("ReduceMax", truths).unwrap(), Data::Bool(vec![true, false]));
}

#[test]
fn axes_that_are_empty_reduce_all_or_nothing() {
    let x = || HostTensor::vector(vec![-1.0f32, 2.0]);
    let none = || HostTensor::vector(Vec::<i64>::new());
    let noop = node("", "ReduceL1", vec![int("noop_with_empty_axes", 1)], 1);
    assert_eq!(
        run(&noop, 18, vec![x(), none()]).unwrap()[0],
        HostTensor::vector(vec![1.0f32, 2.0])
    );
    let all = node("", "ReduceL1", vec![], 1);
    assert_eq!(
        run(&all, 18, vec![x(), none()]).unwrap()[0],
        HostTensor::vector(vec![3.0f32])
    );
}

#[test]
fn what_is_not_done_is_refused() {
    let refused = |node: &NodeProto, opset: i64, inputs: Vec<HostTensor>, part: &str| {
        let why = run(node, opset, inputs).expect_err(part).message().to_string();
        assert!(why.contains(part), "{why}");
    };
    let floats = |shape: &[usize]| HostTensor::new(shape, vec![0f32; shape.iter().product()]).unwrap();
    let matmul = node("", "MatMul", vec![], 1);
    refused(&matmul, 17, vec![floats(&[2, 3]), floats(&[2, 3])], "have no product");
    refused(
        &matmul,
        17,
        vec![floats(&[1 << 20, 0]), floats(&[0, 1 << 20])],
        "too large",
    );
    let integers = HostTensor::new(&[3, 1], vec![0i32; 3]).unwrap();
    refused(&matmul, 17, vec![floats(&[2, 3]), integers], "different types");
    let einsum = |equation: &str| node("", "Einsum", vec![text("equation", equation)], 1);
    refused(
        &einsum("ij,jk->iz"),
        17,
        vec![floats(&[2, 3]), floats(&[3, 2])],
        "not on its left",
    );
    refused(&einsum("ij->i."), 17, vec![floats(&[2, 3])], "not known");
    refused(&einsum("ij,ij"), 17, vec![floats(&[2, 3]), floats(&[2, 4])], "3 and 4");
    let loss = node("", "NegativeLogLikelihoodLoss", vec![], 1);
    refused(
        &loss,
        13,
        vec![floats(&[1, 2]), HostTensor::vector(vec![2i64])],
        "the label 2",
    );
    let bits = ["K", "N", "block_size"]
        .map(|name| int(name, 32))
        .into_iter()
        .chain([int("bits", 3)]);
    let bits = node("com.microsoft", "MatMulNBits", bits.collect(), 1);
    refused(&bits, 1, vec![floats(&[1, 32])], "3 bits");
    let momentum = node("ai.onnx.preview.training", "Momentum", vec![text("mode", "other")], 2);
    let state = || HostTensor::vector(vec![1f32]);
    let inputs = vec![
        HostTensor::scalar(0.1f32),
        HostTensor::scalar(1i64),
        state(),
        state(),
        state(),
    ];
    refused(&momentum, 1, inputs, "neither standard nor nesterov");
}

#[test]
fn queries_without_keys_attend_to_nothing() {
    let attention = node("", "Attention", vec![], 1);
    let ones = |shape: &[usize]| HostTensor::new(shape, vec![1f64; shape.iter().product()]).unwrap();
    let heads = [1, 1, 2, 2];
    let mask = HostTensor::new(&[2, 2], vec![false, false, true, true]).unwrap();
    let found = run(&attention, 25, vec![ones(&heads), ones(&heads), ones(&heads), mask]).unwrap();
    assert_eq!(found[0].data(), &Data::F64(vec![0.0, 0.0, 1.0, 1.0]));
}

#[test]
fn transforms_of_any_length_are_inverted() {
    for length in [1usize, 2, 5, 6, 17, 31, 34, 64] {
        let signal: Vec<f64> = (0..2 * length).map(|i| ((7 * i) % 11) as f64 - 5.0).collect();
        let x = HostTensor::new(&[1, length, 2], signal.clone()).unwrap();
        let spectrum = run(&node("", "DFT", vec![], 1), 17, vec![x]).unwrap().remove(0);
        let back = run(&node("", "DFT", vec![int("inverse", 1)], 1), 17, vec![spectrum]).unwrap();
        for (a, b) in back[0].data().to_f64().iter().zip(signal) {
            assert!((a - b).abs() < 1e-12 * length as f64 + 1e-14, "{length}: {a} and {b}");
        }
    }
}

#[test]
fn states_go_on_where_they_ended() {
    let line = |all: &[f32]| HostTensor::new(&[1, all.len(), 1], all.to_vec()).unwrap();
    let mut attributes = vec![
        int("q_num_heads", 1),
        int("kv_num_heads", 1),
        text("update_rule", "linear"),
    ];
    attributes.push(AttributeProto {
        f: 1.0,
        ..int("scale", 0)
    });
    let linear = node("", "LinearAttention", attributes, 2);
    // The state is the sum of keys times values: 1 * 3, then 2 * 4 more.
    let found = run(
        &linear,
        27,
        vec![line(&[1.0, 1.0]), line(&[1.0, 2.0]), line(&[3.0, 4.0])],
    )
    .unwrap();
    assert_eq!(found[0], line(&[3.0, 11.0]));
    assert_eq!(found[1].data(), &Data::F32(vec![11.0]));
    let channel = |all: &[f32]| HostTensor::new(&[1, 1, all.len()], all.to_vec()).unwrap();
    let conv = node("", "CausalConvWithState", vec![], 2);
    let inputs = |x: &[f32]| vec![channel(x), channel(&[1.0, 10.0]), HostTensor::vector(vec![0f32])];
    let found = run(&conv, 27, inputs(&[1.0, 2.0, 3.0])).unwrap();
    assert_eq!(found[0], channel(&[10.0, 21.0, 32.0]));
    let later = [inputs(&[4.0]), vec![found[1].clone()]].concat();
    assert_eq!(run(&conv, 27, later).unwrap()[0], channel(&[43.0]));
}
