//! Contributed operators of transformers and their integers: a session's programs beside the same nodes computed in
//! memory.

use lessen_onnx::HostTensor;
use lessen_onnx::proto::{AttributeProto, AttributeType};

use crate::case::{Case, int, with_grain};

const DOMAIN: &str = "com.microsoft";

/// Extents of rows: sequences, positions of each, and features.
const ROWS: [usize; 3] = [2, 5, 24];

fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Float.into(),
        f,
        ..AttributeProto::default()
    }
}

/// Some numbers near 0.
fn numbers(shape: &[usize]) -> HostTensor {
    let count = shape.iter().product::<usize>();
    let all: Vec<f32> = (0..count)
        .map(|i| ((i * 37 + 11) % 101) as f32 / 101.0 - 0.47)
        .collect();
    HostTensor::new(shape, all).unwrap()
}

fn integers(shape: &[usize], all: Vec<i32>) -> HostTensor {
    HostTensor::new(shape, all).unwrap()
}

/// Forms of padding of the sequences.
fn paddings() -> Vec<HostTensor> {
    let [batch, length, _] = ROWS;
    let mask = |count: usize| (0..count as i32).map(|i| i32::from(i % 4 != 1)).collect();
    vec![
        integers(&[batch], vec![3, 5]),
        integers(&[2 * batch], vec![4, 5, 1, 0]),
        integers(&[batch, length], mask(batch * length)),
        integers(&[batch, length, length], mask(batch * length * length)),
    ]
}

#[test]
fn attention_with_its_own_projection_is_a_program() {
    let [batch, length, width] = ROWS;
    for (i, padding) in paddings().into_iter().enumerate() {
        let mut attributes = vec![int("num_heads", 4)];
        if i % 2 == 1 {
            attributes.extend([int("unidirectional", 1), float("scale", 0.3)]);
        }
        let mut case = Case::new();
        case.with("w", numbers(&[width, 3 * width]))
            .with("b", numbers(&[3 * width]))
            .with("mask", padding)
            .with("bias", numbers(&[1, 4, length, length]));
        let inputs = ["x", "w", "b", "mask", "", "bias"];
        case.node(DOMAIN, "Attention", &inputs, &["y"], attributes);
        let difference = case.check(&[batch, length, width], &["y"]);
        assert!(difference < 1e-5, "{difference}, padding {i}");
    }
}

/// Keys and values of earlier positions come before those of the input, and all of them are a result.
#[test]
fn attention_after_earlier_positions_is_a_program() {
    let [batch, length, width] = ROWS;
    let mut case = Case::new();
    case.with("w", numbers(&[width, 3 * width]))
        .with("past", numbers(&[2, batch, 4, 3, width / 4]));
    let attributes = vec![int("num_heads", 4), int("unidirectional", 1)];
    let inputs = ["x", "w", "", "", "past"];
    case.node(DOMAIN, "Attention", &inputs, &["y", "present"], attributes);
    let difference = case.check(&[batch, length, width], &["y", "present"]);
    assert!(difference < 1e-5, "{difference}");
}

#[test]
fn attention_of_several_heads_is_a_program() {
    let [batch, length, width] = ROWS;
    for padding in paddings() {
        let mut case = Case::new();
        case.with("key", numbers(&[batch, length, width]))
            .with("value", numbers(&[batch, length, width / 2]))
            .with("b", numbers(&[2 * width + width / 2]))
            .with("mask", padding);
        let inputs = ["x", "key", "value", "b", "mask"];
        case.node(DOMAIN, "MultiHeadAttention", &inputs, &["y"], vec![int("num_heads", 4)]);
        let difference = case.check(&[batch, length, width], &["y"]);
        assert!(difference < 1e-5, "{difference}");
    }
}

/// Integers of the input are in the range of its numbers, or in a fixed one.
#[test]
fn attention_of_integers_is_a_program() {
    let [batch, length, width] = ROWS;
    for is_dynamic in [false, true] {
        for padding in paddings() {
            let mut case = Case::new();
            with_grain(&mut case);
            case.integers("w", &[width, 3 * width], true)
                .scales("ws", if is_dynamic { 3 * width } else { 1 })
                .with("b", numbers(&[3 * width]))
                .with("mask", padding);
            let (scale, zero) = if is_dynamic {
                case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![]);
                ("scale", "zero")
            } else {
                case.node("", "QuantizeLinear", &["x", "s", "zu"], &["q"], vec![]);
                ("s", "zu")
            };
            let inputs = ["q", "w", "b", scale, "ws", "mask", zero, "z0"];
            case.node(DOMAIN, "QAttention", &inputs, &["y"], vec![int("num_heads", 4)]);
            let difference = case.check(&[batch, length, width], &["y"]);
            assert!(difference < 1e-4, "{difference}");
        }
    }
}

#[test]
fn products_of_numbers_that_become_integers_are_exact() {
    for (scales, has_bias) in [(1, false), (40, true)] {
        let mut case = Case::new();
        with_grain(&mut case);
        case.integers("w", &[24, 40], true)
            .scales("ws", scales)
            .with("b", numbers(&[40]));
        let inputs = ["x", "w", "ws", "z0", "b"];
        let inputs = if has_bias { &inputs[..] } else { &inputs[..4] };
        case.node(DOMAIN, "DynamicQuantizeMatMul", inputs, &["y"], vec![]);
        assert_eq!(case.check(&[7, 24], &["y"]), 0.0);
    }
}

/// Groups of a channel each, of several channels, and of more terms than are exact in `f32`.
#[test]
fn convolutions_of_integers_in_groups_are_exact() {
    for (channels, groups, features) in [(6, 6, 12), (8, 2, 6), (120, 2, 4)] {
        let mut case = Case::new();
        with_grain(&mut case);
        case.integers("w", &[features, channels / groups, 3, 3], true);
        let attributes = vec![
            int("group", groups as i64),
            crate::case::ints("pads", &[1, 0, 1, 2]),
            crate::case::ints("strides", &[2, 1]),
        ];
        case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![])
            .node("", "ConvInteger", &["q", "w", "zero", "z0"], &["p"], attributes.clone())
            .node("", "QuantizeLinear", &["x", "s", "zu"], &["k"], vec![])
            .node("", "ConvInteger", &["k", "w", "zu", "z0"], &["r"], attributes);
        assert_eq!(case.check(&[2, channels, 7, 6], &["p", "r"]), 0.0);
    }
}

/// Weights have a scale for each direction, or for each of its columns.
#[test]
fn recurrent_networks_of_integers_are_a_program() {
    let [steps, batch, width, hidden] = [5, 2, 6, 4];
    for (direction, count, is_fine) in [("forward", 1, false), ("reverse", 1, true), ("bidirectional", 2, true)] {
        let mut case = Case::new();
        for (weight, rows) in [("w", width), ("r", hidden)] {
            let grain: &[usize] = if is_fine { &[count, 4 * hidden] } else { &[count] };
            let columns: usize = grain.iter().product();
            let scales = (0..columns).map(|i| 0.002 + i as f32 / 9000.0).collect::<Vec<f32>>();
            case.integers(weight, &[count, rows, 4 * hidden], true)
                .with(&format!("{weight}s"), HostTensor::new(grain, scales).unwrap())
                .with(
                    &format!("{weight}z"),
                    HostTensor::new(grain, vec![0i8; columns]).unwrap(),
                );
        }
        case.with("b", numbers(&[count, 8 * hidden]))
            .with("h", numbers(&[count, batch, hidden]))
            .with("c", numbers(&[count, batch, hidden]));
        let inputs = ["x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"];
        let attributes = vec![
            crate::builder::text("direction", direction),
            int("hidden_size", hidden as i64),
        ];
        case.node(
            DOMAIN,
            "DynamicQuantizeLSTM",
            &inputs,
            &["y", "last", "cell"],
            attributes,
        );
        let difference = case.check(&[steps, batch, width], &["y", "last", "cell"]);
        assert!(difference < 1e-5, "{difference}, {direction}");
    }
}

/// A bias of numbers becomes integers by the scale of the sums that it is added to; numbers without an integer do, too.
#[test]
fn sums_of_integers_with_a_bias_are_exact() {
    let mut case = Case::new();
    with_grain(&mut case);
    case.integers("w", &[24, 40], true)
        .with("b", numbers(&[40]))
        .with("shape", HostTensor::vector(vec![1i64, 40]))
        .with(
            "large",
            HostTensor::vector([1e9f32, -2e9, f32::NAN, f32::INFINITY].repeat(6)),
        );
    let to = || vec![int("to", 6)];
    case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![])
        .node("", "MatMulInteger", &["q", "w", "zero", "z0"], &["p"], vec![])
        .node("", "Div", &["b", "scale"], &["levels"], vec![])
        .node("", "Floor", &["levels"], &["whole"], vec![])
        .node("", "Cast", &["whole"], &["bias"], to())
        .node("", "Reshape", &["bias", "shape"], &["row"], vec![])
        .node("", "Add", &["p", "row"], &["y"], vec![])
        .node("", "Mul", &["x", "large"], &["beyond"], vec![])
        .node("", "Cast", &["beyond"], &["cut"], to());
    assert_eq!(case.check(&[7, 24], &["y", "cut"]), 0.0);
}
