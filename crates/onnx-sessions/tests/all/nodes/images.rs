//! What operators on images compute, against recorded results.

use lessen_base::Result;

use lessen_onnx::proto::{AttributeProto, AttributeType, NodeProto};
use lessen_onnx::{Data, Element, HostTensor, HostValue};
use lessen_onnx_sessions::run_node;

/// Cases of `make_images.py`.
const RECORDED: &str = include_str!("../../fixtures/images.txt");

/// A node and its inputs.
struct Case {
    node: NodeProto,
    opset: i64,
    inputs: Vec<Option<HostTensor>>,
    expected: Vec<HostTensor>,
}

impl Case {
    /// The case of a line such as `Conv 11 strides=2,2`, without inputs.
    fn of(line: &str) -> Case {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let (domain, op_type) = name.split_once(':').unwrap_or(("", name));
        let opset = words.next().unwrap().parse().unwrap();
        Case {
            node: NodeProto {
                op_type: op_type.to_string(),
                domain: domain.to_string(),
                attribute: words.map(attribute).collect(),
                ..NodeProto::default()
            },
            opset,
            inputs: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// The same with inputs.
    fn with(line: &str, inputs: &[&str]) -> Case {
        let inputs = inputs.iter().map(|input| array(input)).collect();
        Case {
            inputs,
            ..Case::of(line)
        }
    }

    fn run(&self, outputs: usize) -> Result<Vec<HostTensor>> {
        let mut node = self.node.clone();
        node.output = (0..outputs).map(|i| format!("y{i}")).collect();
        let inputs = self.inputs.iter().map(|input| input.clone().map(HostValue::from));
        let outputs = run_node(&node, self.opset, inputs.collect())?;
        Ok(outputs.iter().map(|y| (**y.tensor().unwrap()).clone()).collect())
    }

    /// Why it is refused.
    fn refusal(&self) -> String {
        self.run(1).unwrap_err().message().to_string()
    }
}

/// An attribute such as `mode=linear`, `axes=2,3` or `epsilon=0.5`.
fn attribute(word: &str) -> AttributeProto {
    let (name, value) = word.split_once('=').unwrap();
    let name = name.to_string();
    let is_list = ["pads", "strides", "dilations", "axes", "output_padding"].contains(&&*name)
        || name.ends_with("_shape")
        || name.ends_with("_params");
    let parts = || value.split(',');
    if is_list && value.contains('.') {
        AttributeProto {
            name,
            r#type: AttributeType::Floats.into(),
            floats: parts().map(|part| part.parse().unwrap()).collect(),
            ..AttributeProto::default()
        }
    } else if is_list {
        AttributeProto {
            name,
            r#type: AttributeType::Ints.into(),
            ints: parts().map(|part| part.parse().unwrap()).collect(),
            ..AttributeProto::default()
        }
    } else if let Ok(i) = value.parse() {
        AttributeProto {
            name,
            r#type: AttributeType::Int.into(),
            i,
            ..AttributeProto::default()
        }
    } else if let Ok(f) = value.parse() {
        AttributeProto {
            name,
            r#type: AttributeType::Float.into(),
            f,
            ..AttributeProto::default()
        }
    } else {
        AttributeProto {
            name,
            r#type: AttributeType::String.into(),
            s: value.as_bytes().to_vec(),
            ..AttributeProto::default()
        }
    }
}

/// An array such as `float32 2x2 1 2 3 4`; `-` is absent.
fn array(text: &str) -> Option<HostTensor> {
    let mut words = text.split(' ');
    let element = match words.next().unwrap() {
        "-" => return None,
        "float16" => Element::F16,
        "bfloat16" => Element::BF16,
        "float32" => Element::F32,
        "float64" => Element::F64,
        "uint8" => Element::Unsigned(1),
        "int8" => Element::Int(1),
        "int32" => Element::Int(4),
        "int64" => Element::Int(8),
        other => panic!("{other}"),
    };
    let shape = words.next().unwrap();
    let shape: Vec<usize> = shape.split('x').filter_map(|extent| extent.parse().ok()).collect();
    let data = Data::of_f64(element, words.map(|word| word.parse().unwrap()));
    Some(HostTensor::new(&shape, data).unwrap())
}

fn check(case: &Case, found: &[HostTensor]) {
    let name = format!("{} {:?}", case.node.op_type, case.node.attribute);
    assert_eq!(found.len(), case.expected.len(), "{name}");
    for (found, expected) in found.iter().zip(&case.expected) {
        assert_eq!(found.shape(), expected.shape(), "{name}");
        assert_eq!(found.element(), expected.element(), "{name}");
        for (a, b) in found.data().to_f64().iter().zip(expected.data().to_f64()) {
            assert!(
                (a - b).abs() <= 1e-5 * b.abs().max(1.0),
                "{name}: {found:?}\n{expected:?}"
            );
        }
    }
}

fn recorded() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in RECORDED.lines() {
        match (line.strip_prefix("  > "), line.strip_prefix("  ")) {
            (Some(output), _) => cases.last_mut().unwrap().expected.extend(array(output)),
            (None, Some(input)) => cases.last_mut().unwrap().inputs.push(array(input)),
            (None, None) => cases.push(Case::of(line)),
        }
    }
    cases
}

#[test]
fn operators_on_images_give_recorded_results() {
    let cases = recorded();
    assert!(cases.len() > 50);
    for case in &cases {
        check(case, &case.run(case.expected.len()).unwrap());
    }
}

/// Operators whose inputs are all floats give the same in other floats, rounded once.
#[test]
fn other_floats_are_rounded_once() {
    const OPERATORS: &[&str] = &[
        "Conv",
        "ConvTranspose",
        "AveragePool",
        "LpPool",
        "LRN",
        "BatchNormalization",
    ];
    for mut case in recorded() {
        if !OPERATORS.contains(&&*case.node.op_type) {
            continue;
        }
        let exact = case.run(case.expected.len()).unwrap();
        for element in [Element::F16, Element::BF16, Element::F64] {
            let cast = |tensor: &HostTensor| {
                let data = Data::of_f64(element, tensor.data().to_f64().into_iter());
                HostTensor::new(tensor.shape(), data).unwrap()
            };
            let before = case.inputs.clone();
            for input in case.inputs.iter_mut().flatten() {
                *input = cast(input);
            }
            let found = case.run(case.expected.len()).unwrap();
            if element == Element::F64 {
                case.expected = exact.iter().map(cast).collect();
                check(&case, &found);
            } else {
                assert_eq!(
                    found,
                    exact.iter().map(cast).collect::<Vec<_>>(),
                    "{}",
                    case.node.op_type
                );
            }
            case.inputs = before;
        }
    }
}

#[test]
fn the_greatest_element_may_be_nan_and_the_least_integer() {
    let case = Case::with("MaxPool 12 kernel_shape=2", &["float32 1x1x4 1 NaN 2 3"]);
    let y = case.run(1).unwrap()[0].data().to_f64();
    assert!(y[0].is_nan() && y[1].is_nan() && y[2] == 3.0);
    let case = Case::with("MaxPool 12 kernel_shape=2", &["int8 1x1x3 -128 -128 -127"]);
    assert_eq!(case.run(1).unwrap()[0].data(), &Data::I8(vec![-128, -127]));
}

#[test]
fn images_of_several_blocks_of_columns_are_convolved_whole() {
    let width = 40_000;
    let ones = vec!["1"; width].join(" ");
    let weights = ["1"; 9].join(" ");
    let case = Case::with(
        "Conv 11 pads=1,1",
        &[&format!("float32 1x1x{width} {ones}"), "float32 1x1x3 1 1 1"],
    );
    let y = case.run(1).unwrap()[0].data().to_f64();
    assert_eq!((y[0], y[1], y[width - 2], y[width - 1]), (2.0, 3.0, 3.0, 2.0));
    assert!(y[1..width - 1].iter().all(|y| *y == 3.0));
    let case = Case::with(
        "ConvTranspose 11 strides=2",
        &[
            &format!("float32 1x1x{width} {ones}"),
            &format!("float32 1x1x9 {weights}"),
        ],
    );
    let y = case.run(1).unwrap()[0].data().to_f64();
    assert_eq!(y.len(), 2 * (width - 1) + 9);
    assert_eq!(y.iter().sum::<f64>(), 9.0 * width as f64);
}

#[test]
fn what_does_not_fit_is_refused() {
    let image = "float32 1x1x2x2 1 2 3 4";
    let weight = "float32 1x1x1x1 1";
    let cases: &[(&str, &[&str], &str)] = &[
        ("Conv 11 strides=0,1", &[image, weight], "strides"),
        ("Conv 11 pads=-1,0,0,0", &[image, weight], "pads"),
        ("Conv 11 auto_pad=SAME", &[image, weight], "SAME"),
        ("Conv 11 group=0", &[image, weight], "0 groups"),
        ("Conv 11 group=2", &[image, weight], "do not fit"),
        ("Conv 11 kernel_shape=2,2", &[image, weight], "kernel_shape"),
        (
            "Conv 11 dilations=9,9",
            &[image, "float32 1x1x2x2 1 1 1 1"],
            "reaches over 10",
        ),
        ("Conv 11 pads=0,0,1000000,1000000", &[image, weight], "too large"),
        (
            "ConvTranspose 11 strides=1000000,1000000",
            &[image, weight],
            "too large",
        ),
        (
            "ConvTranspose 11 strides=2,2 auto_pad=SAME_UPPER",
            &[image, weight],
            "no agreed meaning",
        ),
        ("MaxPool 12", &[image], "kernel_shape"),
        ("MaxPool 12 kernel_shape=3,1", &[image], "reaches over 3"),
        ("LpPool 18 kernel_shape=1,1 p=0", &[image], "p is 0"),
        ("Resize 19 mode=area", &[image, "-", "float32 4 1 1 2 2"], "area"),
        ("Resize 19 mode=linear", &[image, "-", "float32 3 1 1 2"], "3 scales"),
        ("Resize 19", &[image, "-", "float32 4 1 1 -2 2"], "scaled by -2"),
        ("Resize 19", &[image, "-", "float32 4 1 1 1e9 1"], "scaled by"),
        ("GridSample 20 mode=area", &[image, "float32 1x1x1x2 0 0"], "area"),
        (
            "AffineGrid 20",
            &["float32 1x2x3 1 0 0 0 1 0", "int64 4 1 1 10000 10000"],
            "too large",
        ),
        (
            "GroupNormalization 21 num_groups=2",
            &[image, "float32 1 1", "float32 1 1"],
            "2 groups",
        ),
        ("BatchNormalization 15", &[image, "float32 2 1 1"], "not 1 floats"),
        (
            "Col2Im 18",
            &["float32 1x4x3 0 1 2 3 4 5 6 7 8 9 10 11", "int64 2 3 3", "int64 2 2 2"],
            "do not fit",
        ),
    ];
    for (line, inputs, why) in cases {
        let refusal = Case::with(line, inputs).refusal();
        assert!(refusal.contains(why), "{line}: {refusal}");
    }
}
