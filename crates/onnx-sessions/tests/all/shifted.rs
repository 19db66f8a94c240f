//! Weights whose integers, less their zero points, take more than 8 bits: programs beside the same nodes in memory.

use lessen_onnx::HostTensor;

use crate::case::{Case, int, ints, with_grain};

/// A weight of unsigned integers over the whole range.
fn weight(shape: &[usize]) -> HostTensor {
    let count = shape.iter().product::<usize>();
    let all: Vec<u8> = (0..count).map(|i| (i * 89 + i / 7 + 3) as u8).collect();
    HostTensor::new(shape, all).unwrap()
}

/// A zero point for each column.
fn zeros(columns: usize) -> HostTensor {
    let all: Vec<u8> = (0..columns).map(|i| (i * 41 + 90) as u8).collect();
    HostTensor::new(&[columns], all).unwrap()
}

#[test]
fn products_of_integers_are_exact() {
    let mut case = Case::new();
    with_grain(&mut case);
    case.with("w", weight(&[24, 40])).with("z", zeros(40)).scales("ws", 40);
    let by_range = ["q", "w", "zero", "z"];
    case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![])
        .node("", "MatMulInteger", &by_range, &["p"], vec![])
        .node("", "QuantizeLinear", &["x", "s", "zu"], &["k"], vec![])
        .node("", "MatMulInteger", &["k", "w", "zu", "z"], &["r"], vec![])
        .node(
            "com.microsoft",
            "DynamicQuantizeMatMul",
            &["x", "w", "ws", "z"],
            &["y"],
            vec![],
        );
    assert_eq!(case.check(&[7, 24], &["p", "r", "y"]), 0.0);
}

/// In one group, in groups of a channel each, and in groups of more terms than are exact in `f32`.
#[test]
fn convolutions_of_integers_are_exact() {
    for (channels, groups, features) in [(5, 1, 6), (6, 6, 12), (120, 2, 4)] {
        let mut case = Case::new();
        with_grain(&mut case);
        case.with("w", weight(&[features, channels / groups, 3, 3]))
            .with("z", HostTensor::scalar(201u8));
        let attributes = vec![int("group", groups as i64), ints("pads", &[1, 0, 1, 2])];
        case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![])
            .node("", "ConvInteger", &["q", "w", "zero", "z"], &["p"], attributes.clone())
            .node("", "QuantizeLinear", &["x", "s", "zu"], &["k"], vec![])
            .node("", "ConvInteger", &["k", "w", "zu", "z"], &["r"], attributes);
        assert_eq!(case.check(&[2, channels, 7, 6], &["p", "r"]), 0.0);
    }
}

#[test]
fn restored_numbers_are_multiplied_as_integers() {
    let mut case = Case::new();
    with_grain(&mut case);
    case.with("w", weight(&[6, 3, 3, 3]))
        .with("z", zeros(6))
        .scales("ws", 6)
        .with("v", weight(&[5, 11]))
        .with("u", HostTensor::scalar(20u8))
        .with("vs", HostTensor::scalar(0.01f32));
    let restored = ["x", "s", "zu"];
    case.node("", "QuantizeLinear", &restored, &["k"], vec![])
        .node("", "DequantizeLinear", &["k", "s", "zu"], &["a"], vec![])
        .node(
            "",
            "DequantizeLinear",
            &["w", "ws", "z"],
            &["kernels"],
            vec![int("axis", 0)],
        )
        .node("", "Conv", &["a", "kernels"], &["c"], vec![ints("pads", &[1, 1, 1, 1])])
        .node("", "DequantizeLinear", &["v", "vs", "u"], &["matrix"], vec![])
        .node("", "MatMul", &["a", "matrix"], &["p"], vec![]);
    let difference = case.check(&[2, 3, 4, 5], &["c", "p"]);
    assert!(difference < 1e-4, "{difference}");
}
