//! Models of integers of 8 bits: a session's programs of codes beside the same nodes computed in memory, to the bit.

use lessen_onnx::proto::AttributeProto;
use lessen_onnx::{HostTensor, Model};

use crate::case::{Case, int, ints, with_grain};

#[test]
fn convolutions_and_sums_of_integers_have_the_bits_of_their_definitions() {
    for (channels, features, is_signed) in [(3, 5, false), (8, 20, true), (16, 16, false)] {
        let mut case = Case::new();
        with_grain(&mut case);
        let zero = if is_signed { "zi" } else { "zu" };
        let bias: Vec<i32> = (0..features).map(|i| 500 * i - 1700).collect();
        let n = features as usize;
        case.integers("w", &[n, channels, 3, 3], true)
            .scales("ws", n)
            .with("wz", HostTensor::new(&[n], vec![0i8; n]).unwrap())
            .with("bias", HostTensor::new(&[n], bias).unwrap())
            .integers("d", &[n, 1, 3, 3], true)
            .scales("ds", 1)
            .with("dz", HostTensor::scalar(0i8));
        let conv = vec![ints("pads", &[1, 1, 0, 1]), ints("strides", &[1, 2])];
        let depthwise = vec![ints("pads", &[1, 1, 1, 1]), int("group", features.into())];
        case.node("", "QuantizeLinear", &["x", "s", zero], &["q"], vec![])
            .node(
                "",
                "QLinearConv",
                &["q", "s", zero, "w", "ws", "wz", "t", zero, "bias"],
                &["c"],
                conv,
            )
            .node(
                "",
                "QLinearConv",
                &["c", "t", zero, "d", "ds", "dz", "t", zero],
                &["e"],
                depthwise,
            )
            .node(
                "com.microsoft",
                "QLinearAdd",
                &["c", "t", zero, "e", "t", zero, "s", zero],
                &["a"],
                vec![],
            )
            .node(
                "com.microsoft",
                "QLinearSigmoid",
                &["a", "s", zero, "s", zero],
                &["g"],
                vec![],
            )
            .node("", "Transpose", &["g"], &["turned"], vec![ints("perm", &[0, 2, 3, 1])])
            .node(
                "com.microsoft",
                "QLinearGlobalAveragePool",
                &["a", "s", zero, "t", zero],
                &["means"],
                vec![],
            )
            .node("", "DequantizeLinear", &["a", "s", zero], &["y"], vec![]);
        let difference = case.check(&[2, channels, 9, 8], &["c", "turned", "means", "y"]);
        assert_eq!(difference, 0.0);
    }
}

/// Products of integers, and between them.
fn of_integers() -> Case {
    let mut case = Case::new();
    with_grain(&mut case);
    case.integers("w", &[24, 17], false)
        .scales("ws", 1)
        .with("wz", HostTensor::scalar(100u8))
        .integers("v", &[17, 10], true)
        .scales("vs", 10)
        .with("vz", HostTensor::new(&[10], vec![0i8; 10]).unwrap());
    case.node("", "QuantizeLinear", &["x", "s", "zu"], &["q"], vec![])
        .node(
            "",
            "QLinearMatMul",
            &["q", "s", "zu", "w", "ws", "wz", "t", "zi"],
            &["p"],
            vec![],
        )
        .node(
            "",
            "QLinearMatMul",
            &["p", "t", "zi", "v", "vs", "vz", "t", "zu"],
            &["r"],
            vec![],
        )
        .node("", "DequantizeLinear", &["r", "t", "zu"], &["y"], vec![]);
    case
}

#[test]
fn products_of_integers_have_the_bits_of_their_definitions() {
    assert_eq!(of_integers().check(&[3, 5, 24], &["p", "r", "y"]), 0.0);
}

/// Products of integers that are every other row or column of an array, a range of it, or one of its rows, columns or
/// numbers for all: of shape `[6, 24]`.
#[test]
fn products_of_integers_that_lie_apart_or_repeat_have_the_bits_of_their_definitions() {
    let whole = |values: &[i64]| HostTensor::new(&[values.len()], values.to_vec()).unwrap();
    // The input's shape, and starts, ends and steps of a slice along both axes.
    let slices = [
        ([6, 48], [0, 0], [6, 48], [1, 2]),
        ([12, 24], [1, 0], [12, 24], [2, 1]),
        ([13, 49], [1, 1], [13, 49], [2, 2]),
        ([9, 30], [2, 5], [8, 29], [1, 1]),
    ];
    let repeated = [[1, 24], [6, 1], [1, 1]];
    let sliced = slices.map(|(shape, start, end, step)| {
        let mut case = Case::new();
        case.with("start", whole(&start))
            .with("end", whole(&end))
            .with("axes", whole(&[0, 1]))
            .with("step", whole(&step));
        case.node("", "QuantizeLinear", &["x", "s", "zu"], &["all"], vec![])
            .node("", "Slice", &["all", "start", "end", "axes", "step"], &["q"], vec![]);
        (case, shape)
    });
    let repeated = repeated.map(|shape| {
        let mut case = Case::new();
        case.with("shape", whole(&[6, 24]));
        case.node("", "QuantizeLinear", &["x", "s", "zu"], &["all"], vec![])
            .node("", "Expand", &["all", "shape"], &["q"], vec![]);
        (case, shape)
    });
    let turned = {
        let mut case = Case::new();
        case.node("", "QuantizeLinear", &["x", "s", "zu"], &["all"], vec![])
            .node("", "Transpose", &["all"], &["q"], vec![ints("perm", &[1, 0])]);
        (case, [24, 6])
    };
    for (mut case, shape) in sliced.into_iter().chain(repeated).chain([turned]) {
        with_grain(&mut case);
        case.integers("w", &[24, 17], false)
            .scales("ws", 1)
            .with("wz", HostTensor::scalar(100u8));
        let operands = ["q", "s", "zu", "w", "ws", "wz", "t", "zi"];
        case.node("", "QLinearMatMul", &operands, &["p"], vec![])
            .node("", "MatMulInteger", &["q", "w", "zu", "wz"], &["i"], vec![])
            .node("", "DequantizeLinear", &["q", "s", "zu"], &["f"], vec![])
            .node("", "DequantizeLinear", &["w", "ws", "wz"], &["fw"], vec![])
            .node("", "MatMul", &["f", "fw"], &["y"], vec![]);
        let difference = case.check(&shape, &["p", "i", "y"]);
        assert!(difference < 1e-4, "{shape:?}: {difference}");
    }
}

/// A product of integers of rows in their own range.
fn dynamic(is_signed: bool) -> Case {
    let mut case = Case::new();
    with_grain(&mut case);
    case.integers("w", &[24, 40], is_signed).scales("ws", 40).with(
        "wz",
        if is_signed {
            HostTensor::scalar(0i8)
        } else {
            HostTensor::scalar(100u8)
        },
    );
    case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![])
        .node("", "MatMulInteger", &["q", "w", "zero", "wz"], &["p"], vec![])
        .node("", "Cast", &["p"], &["f"], vec![int("to", 1)])
        .node("", "Mul", &["scale", "ws"], &["both"], vec![])
        .node("", "Mul", &["f", "both"], &["y"], vec![]);
    case
}

/// The scale and the zero point follow from the numbers, and the integers are results.
#[test]
fn products_of_numbers_in_their_own_range_are_exact() {
    for is_signed in [false, true] {
        assert_eq!(dynamic(is_signed).check(&[7, 24], &["q", "p", "y"]), 0.0);
    }
}

/// A convolution of integers of images in their own range, with these windows, and one whose zero point is known.
fn convolution(attributes: &[AttributeProto], is_signed: bool) -> Case {
    let mut case = Case::new();
    with_grain(&mut case);
    case.integers("w", &[7, 3, 3, 2], is_signed).with(
        "wz",
        if is_signed {
            HostTensor::scalar(0i8)
        } else {
            HostTensor::scalar(100u8)
        },
    );
    case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![])
        .node(
            "",
            "ConvInteger",
            &["q", "w", "zero", "wz"],
            &["p"],
            attributes.to_vec(),
        )
        .node("", "QuantizeLinear", &["x", "s", "zu"], &["k"], vec![])
        .node("", "ConvInteger", &["k", "w", "zu", "wz"], &["r"], attributes.to_vec())
        .node("", "Cast", &["p"], &["f"], vec![int("to", 1)])
        .node("", "Mul", &["f", "scale"], &["y"], vec![]);
    case
}

#[test]
fn convolutions_of_images_in_their_own_range_are_exact() {
    let windows = [
        vec![],
        vec![ints("strides", &[3, 2])],
        vec![ints("pads", &[1, 0, 2, 1]), ints("strides", &[2, 1])],
        vec![
            ints("pads", &[2, 2, 2, 2]),
            ints("dilations", &[2, 3]),
            ints("strides", &[1, 2]),
        ],
    ];
    for attributes in &windows {
        for is_signed in [false, true] {
            let case = convolution(attributes, is_signed);
            assert_eq!(case.check(&[2, 3, 10, 9], &["q", "p", "r", "y"]), 0.0, "{attributes:?}");
        }
    }
}

/// A network of floats between integers.
fn between_integers() -> Case {
    let mut case = Case::new();
    with_grain(&mut case);
    case.integers("w", &[12, 3, 3, 3], true)
        .scales("ws", 12)
        .with("wz", HostTensor::new(&[12], vec![0i8; 12]).unwrap())
        .integers("v", &[12, 9], true)
        .scales("vs", 9)
        .with("vz", HostTensor::new(&[9], vec![0i8; 9]).unwrap());
    let axis = |axis| vec![int("axis", axis)];
    case.node("", "QuantizeLinear", &["x", "s", "zu"], &["q"], vec![])
        .node("", "DequantizeLinear", &["q", "s", "zu"], &["f"], vec![])
        .node("", "DequantizeLinear", &["w", "ws", "wz"], &["wf"], axis(0))
        .node("", "Conv", &["f", "wf"], &["c"], vec![ints("pads", &[1, 1, 1, 1])])
        .node("", "Relu", &["c"], &["r"], vec![])
        .node("", "GlobalAveragePool", &["r"], &["m"], vec![])
        .node("", "Flatten", &["m"], &["n"], vec![])
        .node("", "QuantizeLinear", &["n", "t", "zi"], &["nq"], vec![])
        .node("", "DequantizeLinear", &["nq", "t", "zi"], &["nf"], vec![])
        .node("", "DequantizeLinear", &["v", "vs", "vz"], &["vf"], axis(1))
        .node("", "MatMul", &["nf", "vf"], &["y"], vec![]);
    case
}

/// Files of integers of each kind: between floats, alone, and in ranges of their own.
pub fn files() -> Vec<Vec<u8>> {
    let cases = [
        (between_integers(), &[2, 3, 8, 9][..], &["c", "y"][..]),
        (of_integers(), &[3, 5, 24], &["p", "r", "y"]),
        (dynamic(true), &[7, 24], &["q", "p", "y"]),
    ];
    let file = |(mut case, shape, outputs): (Case, &[usize], &[&str])| {
        case.declare(shape, outputs);
        case.builder.bytes()
    };
    cases.into_iter().map(file).collect()
}

/// Products of codes differ from those of floats by rounding alone.
#[test]
fn floats_between_integers_are_computed_from_integers() {
    let difference = between_integers().check(&[2, 3, 8, 9], &["c", "y"]);
    assert!(difference < 2e-4, "{difference}");
}

#[test]
fn two_products_read_the_same_integers() {
    let mut case = Case::new();
    with_grain(&mut case);
    case.integers("w", &[8, 8], true)
        .scales("ws", 1)
        .with("wz", HostTensor::scalar(0i8));
    case.node("", "QuantizeLinear", &["x", "s", "zi"], &["q"], vec![])
        .node(
            "",
            "QLinearMatMul",
            &["q", "s", "zi", "w", "ws", "wz", "t", "zi"],
            &["p"],
            vec![],
        )
        .node(
            "",
            "QLinearMatMul",
            &["p", "t", "zi", "w", "ws", "wz", "t", "zi"],
            &["r"],
            vec![],
        );
    assert_eq!(case.check(&[4, 8], &["p", "r"]), 0.0);
}

/// Scales that do not depend on inputs are positive numbers in every operator that has some.
#[test]
fn scales_that_are_no_positive_numbers_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for scale in [0.0, -0.02, f32::NAN, f32::INFINITY] {
        for mut case in [between_integers(), of_integers()] {
            let initializers = &mut case.builder.graph.initializer;
            let own = initializers.iter_mut().find(|tensor| tensor.name == "t").unwrap();
            *own = HostTensor::scalar(scale).to_message("t");
            case.declare(&[2, 3, 8, 9], &["y"]);
            let refused = Model::open_to_run(&case.builder.write(folder.path(), "model.onnx")).unwrap_err();
            assert_eq!(refused.exit_code(), 2);
            let sentence = refused.to_string();
            assert!(
                sentence.contains(&format!("the initializer `t` has the scale {scale} at number 0")),
                "{sentence}"
            );
        }
    }
}

/// The names of the nodes by which a test reads one weight with a zero point of its own.
const READERS: [&str; 3] = ["MatMulInteger", "QLinearMatMul", "DequantizeLinear"];

/// Appends nodes that multiply the input by the weight `w` with a zero point.
fn read_with(case: &mut Case, operator: &str, zero: &str, y: &str) {
    let name = |part: &str| format!("{y}.{part}");
    match operator {
        "MatMulInteger" => case.node("", operator, &["q", "w", "zu", zero], &[y], vec![]),
        "QLinearMatMul" => case.node(
            "",
            operator,
            &["q", "s", "zu", "w", "ws", zero, "t", "zu"],
            &[y],
            vec![],
        ),
        _ => case
            .node("", operator, &["w", "ws", zero], &[&name("restored")], vec![])
            .node("", "MatMul", &["x_restored", &name("restored")], &[y], vec![]),
    };
}

#[test]
fn a_weight_that_is_read_with_two_zero_points_has_the_codes_of_each() {
    for first in READERS {
        for second in READERS {
            for is_signed in [false, true] {
                let mut case = Case::new();
                with_grain(&mut case);
                // Differences from either zero point have 8 bits.
                let of_bytes = |shape: &[usize], bytes: Vec<u8>| match is_signed {
                    true => HostTensor::new(shape, bytes.iter().map(|x| (*x as i8) - 100).collect::<Vec<i8>>()),
                    false => HostTensor::new(shape, bytes),
                };
                let bytes = (0..480u32).map(|i| 40 + (i * 37 % 80) as u8).collect();
                case.with("w", of_bytes(&[24, 20], bytes).unwrap())
                    .with("one", of_bytes(&[], vec![45]).unwrap())
                    .with("two", of_bytes(&[], vec![110]).unwrap())
                    .scales("ws", 1);
                case.node("", "QuantizeLinear", &["x", "s", "zu"], &["q"], vec![]).node(
                    "",
                    "DequantizeLinear",
                    &["q", "s", "zu"],
                    &["x_restored"],
                    vec![],
                );
                read_with(&mut case, first, "one", "a");
                read_with(&mut case, second, "two", "b");
                let difference = case.check(&[5, 24], &["a", "b"]);
                assert!(difference < 1e-3, "{first}, {second}, {is_signed}: {difference}");
            }
        }
    }
}

/// Names that Lessen gave to states of its own once are names of the file's values, and so are those of today without
/// their first character.
#[test]
fn values_may_have_the_names_of_constants_and_codes_of_programs() {
    for name in [
        "constant 0",
        "constant 1",
        "codes of w, rows",
        "codes 0",
        "w codes",
        "images",
    ] {
        let mut case = Case::new();
        with_grain(&mut case);
        case.integers("w", &[24, 40], true)
            .scales("ws", 40)
            .with("wz", HostTensor::scalar(0i8))
            .with("v", HostTensor::new(&[24, 40], vec![0.25f32; 960]).unwrap())
            .scales(name, 40);
        case.node("", "DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![])
            .node("", "MatMulInteger", &["q", "w", "zero", "wz"], &["p"], vec![])
            .node("", "Cast", &["p"], &["f"], vec![int("to", 1)])
            .node("", "Mul", &["f", name], &["y"], vec![]);
        assert_eq!(case.check(&[7, 24], &["y"]), 0.0, "{name}");
    }
}
