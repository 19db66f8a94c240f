//! Models of integers of 8 bits: a session's programs of codes beside the same nodes computed in memory, to the bit.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::SplitMix64;
use lessen_cpu::CpuBackend;
use lessen_onnx::proto::{AttributeProto, AttributeType, NodeProto};
use lessen_onnx::{Data, HostTensor, HostValue, Model, Session, run_node};

use crate::builder::{Builder, Extent, F32};

const OPSET: i64 = 21;

/// A model of nodes and initializers, of which nodes may be called by the contributed domain.
struct Case {
    builder: Builder,
    initializers: HashMap<String, HostTensor>,
    random: SplitMix64,
}

impl Case {
    fn new() -> Case {
        Case {
            builder: Builder::new(OPSET),
            initializers: HashMap::new(),
            random: SplitMix64::new(7),
        }
    }

    fn with(&mut self, name: &str, tensor: HostTensor) -> &mut Case {
        self.builder.graph.initializer.push(tensor.to_message(name));
        self.initializers.insert(name.to_string(), tensor);
        self
    }

    /// Integers over the whole range, or, in bytes, less of it.
    fn integers(&mut self, name: &str, shape: &[usize], is_signed: bool) -> &mut Case {
        let count = shape.iter().product();
        let bytes: Vec<u8> = (0..count).map(|_| (self.random.unit() * 256.0) as u8).collect();
        let data: Data = if is_signed {
            bytes.iter().map(|byte| *byte as i8).collect::<Vec<i8>>().into()
        } else {
            bytes.iter().map(|byte| 40 + byte / 2).collect::<Vec<u8>>().into()
        };
        self.with(name, HostTensor::new(shape, data).unwrap())
    }

    fn scales(&mut self, name: &str, count: usize) -> &mut Case {
        let scales: Vec<f32> = (0..count).map(|_| 0.003 + self.random.unit() as f32 / 50.0).collect();
        self.with(name, HostTensor::new(&[count], scales).unwrap())
    }

    fn node(
        &mut self,
        domain: &str,
        op_type: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) -> &mut Case {
        self.builder.graph.node.push(NodeProto {
            input: inputs.iter().map(|name| name.to_string()).collect(),
            output: outputs.iter().map(|name| name.to_string()).collect(),
            op_type: op_type.to_string(),
            domain: domain.to_string(),
            attribute,
            ..NodeProto::default()
        });
        self
    }

    /// Declares the input `x` of this shape, and the outputs.
    fn declare(&mut self, shape: &[usize], outputs: &[&str]) {
        let extents: Vec<Extent> = shape.iter().map(|extent| Extent::Size(*extent as i64)).collect();
        self.builder.input("x", F32, &extents);
        outputs.iter().for_each(|name| self.builder.output(name));
    }

    /// Runs it as a session and node by node. Returns the largest difference of floats; integers are compared to the
    /// bit. All of it has to be one program.
    fn check(mut self, shape: &[usize], outputs: &[&str]) -> f64 {
        self.declare(shape, outputs);
        let x: Vec<f32> = (0..shape.iter().product())
            .map(|_| (self.random.unit() * 4.0 - 1.7) as f32)
            .collect();
        let x = HostValue::from(HostTensor::new(shape, x).unwrap());
        let mut values: HashMap<String, HostValue> = HashMap::from([("x".to_string(), x.clone())]);
        values.extend(
            self.initializers
                .into_iter()
                .map(|(name, tensor)| (name, tensor.into())),
        );
        for node in &self.builder.graph.node {
            let inputs = node.input.iter().map(|name| values.get(name).cloned()).collect();
            let results = run_node(node, OPSET, inputs).unwrap();
            values.extend(node.output.iter().cloned().zip(results));
        }
        let folder = tempfile::tempdir().unwrap();
        let model = Model::open_to_run(&self.builder.write(folder.path(), "model.onnx")).unwrap();
        let session = Session::new(Arc::new(model), Box::new(CpuBackend::new(2).unwrap())).unwrap();
        let mut difference = 0.0f64;
        for _ in 0..2 {
            let found = session.run(vec![("x".to_string(), x.clone())]).unwrap();
            assert_eq!(found.len(), outputs.len());
            for (name, value) in found {
                let (found, expected) = (value.tensor().unwrap(), values[&name].tensor().unwrap());
                assert_eq!(found.element(), expected.element(), "{name}");
                assert_eq!(found.shape(), expected.shape(), "{name}");
                if let Data::F32(expected) = expected.data() {
                    let all = found.data().to_f64().into_iter().zip(expected);
                    difference = all.fold(difference, |most, (a, b)| most.max((a - f64::from(*b)).abs()));
                } else {
                    assert!(found == expected, "{name} differs");
                }
            }
        }
        assert_eq!(session.with_programs(|_, programs| programs.len()), 1);
        difference
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Ints.into(),
        ints: ints.to_vec(),
        ..AttributeProto::default()
    }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Int.into(),
        i,
        ..AttributeProto::default()
    }
}

/// A scale and zero points of both types.
fn with_grain(case: &mut Case) {
    case.with("s", HostTensor::scalar(0.02f32))
        .with("t", HostTensor::scalar(0.05f32))
        .with("zu", HostTensor::scalar(77u8))
        .with("zi", HostTensor::scalar(-9i8))
        .with("z0", HostTensor::scalar(0i8));
}

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
            .node("", "DequantizeLinear", &["a", "s", zero], &["y"], vec![]);
        let difference = case.check(&[2, channels, 9, 8], &["c", "turned", "y"]);
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
