//! Conversions of files with what exporters seldom write: values that nothing reads, shapes and statistics of the
//! stream, names that are taken, old forms of files.

use std::collections::HashSet;
use std::path::Path;

use lessen_onnx::proto::NodeProto;
use lessen_onnx::{Imported, Model, Sizes, size_names};
use lessen_onnx_sessions::{Converter, NormOperators, NormTarget, Report, difference_of_files};

use crate::builder::{Builder, Extent, F32, I64, branch, float, int, ints, transformer};

pub const TARGETS: [NormTarget; 2] = [NormTarget::Rms, NormTarget::Crms];
pub const WIDTH: i64 = 6;

pub fn sizes(model: &Model, first: usize) -> Sizes {
    let names = size_names(model).into_iter().enumerate();
    names.map(|(i, name)| (name, if i == 0 { first } else { 3 })).collect()
}

/// Writes the converted model of a file, and compares it with the original one for one text and for several.
pub fn converted_file(path: &Path, target: NormTarget) -> (Model, Model, Report) {
    let model = Model::open(path).unwrap();
    let new = path.with_extension("new.onnx");
    let converter = Converter::of(&model, &sizes(&model, 2), target, NormOperators::OnnxRuntime).unwrap();
    let exact = converter.difference_in_f64(1).unwrap();
    assert!(exact.relative < 1e-10, "{target:?}: {exact:?}");
    converter.write(&new).unwrap();
    let report = converter.report();
    let written = Model::open(&new).unwrap();
    for batch in [1, 2] {
        let sizes = sizes(&model, batch);
        let rounded = difference_of_files(&model, &written, &sizes, 1).unwrap();
        assert!(rounded.relative < 1e-5, "{target:?}, {batch}: {rounded:?}");
    }
    let mut names = HashSet::new();
    let nodes = written.nodes.iter().filter(|node| !node.proto.name.is_empty());
    nodes.for_each(|node| assert!(names.insert(node.proto.name.clone()), "{target:?}: {}", node.shown()));
    drop(converter);
    (model, written, report)
}

/// Converts a model; the original one, the written one, and the numbers of norms that were converted and left.
pub fn converted(b: &Builder, target: NormTarget) -> (Model, Model, [usize; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let (model, written, report) = converted_file(&b.write(folder.path(), "model.onnx"), target);
    (model, written, [report.converted.len(), report.left.len()])
}

/// Asserts that a value has the same extents in both models.
fn same_extents(name: &str, model: &Model, written: &Model) {
    let extents = |of: &Model| {
        let imported = Imported::of(of, &sizes(model, 2)).unwrap();
        let value = *imported.values.get(name).unwrap_or_else(|| panic!("{name}"));
        imported.graph.ty(value).shape.to_vec()
    };
    assert_eq!(extents(model), extents(written), "{name}");
}

pub fn push(b: &mut Builder, op_type: &str, inputs: &[&str], outputs: &[&str]) {
    b.graph.node.push(NodeProto {
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        op_type: op_type.to_string(),
        ..NodeProto::default()
    });
}

/// Puts nodes in front of the layer `b` of a transformer, which then reads `x` in place of the stream.
fn between(opset: i64, x: Option<&str>, add: impl FnOnce(&mut Builder)) -> Builder {
    let mut b = transformer(opset);
    let at = b.graph.node.iter().position(|node| node.output == ["b.norm"]).unwrap();
    let late = b.graph.node.split_off(at);
    add(&mut b);
    for mut node in late {
        let reads = node.input.iter_mut().filter(|name| *name == "a.sum");
        reads.for_each(|name| *name = x.unwrap_or("a.sum").to_string());
        b.graph.node.push(node);
    }
    b
}

#[test]
fn nodes_that_nothing_reads_keep_their_extents() {
    type Add = fn(&mut Builder);
    let dead: [Add; 8] = [
        |b| {
            b.weight("w", &[WIDTH], 0.1);
            b.node("Add", "dead", &["a.sum", "w"], vec![]);
        },
        |b| {
            b.weight("w", &[WIDTH, 3], 0.1);
            b.node("Exp", "exp", &["a.sum"], vec![]);
            b.node("MatMul", "dead", &["exp", "w"], vec![]);
        },
        |b| {
            b.norm("dead", "a.sum", WIDTH);
        },
        |b| {
            b.weight("w", &[WIDTH, 3], 0.1);
            b.node("MatMul", "dead", &["a.norm", "w"], vec![]);
        },
        |b| {
            b.weight("w", &[WIDTH, 3], 0.1);
            b.node("MatMul", "dead", &["words", "w"], vec![]);
        },
        |b| {
            b.weight("w", &[WIDTH, 2 * WIDTH], 0.1);
            b.node("Add", "dead", &["a.in.weight", "w"], vec![]);
        },
        |b| {
            b.weight("w", &[WIDTH], 0.1);
            b.node("Add", "dead", &["a.out.bias", "w"], vec![]);
        },
        |b| {
            b.weight("w", &[WIDTH], 0.1);
            b.node("Add", "dead", &["a.norm.gamma", "w"], vec![]);
        },
    ];
    for (i, dead) in dead.into_iter().enumerate() {
        for target in TARGETS {
            let b = between(17, None, dead);
            let (model, written, found) = converted(&b, target);
            assert_eq!(found, [3, 0], "{i}, {target:?}");
            same_extents("dead", &model, &written);
        }
    }
}

#[test]
fn nodes_that_only_shapes_follow_from_keep_their_extents() {
    type Add = fn(&mut Builder) -> String;
    let values: [Add; 6] = [
        |_| "a.sum".to_string(),
        |b| b.node("Exp", "exp", &["a.sum"], vec![]),
        |b| {
            b.weight("w", &[WIDTH], 0.1);
            b.node("Mul", "product", &["a.sum", "w"], vec![])
        },
        |b| b.norm("other", "a.sum", WIDTH),
        |b| b.node("Identity", "same", &["a.sum"], vec![]),
        |_| "words".to_string(),
    ];
    for (i, value) in values.into_iter().enumerate() {
        for reader in ["Shape", "Size"] {
            for target in TARGETS {
                let b = between(17, None, |b| {
                    let value = value(b);
                    b.node(reader, "extents", &[&value], vec![]);
                    b.output("extents");
                });
                let (_, _, found) = converted(&b, target);
                assert_eq!(found, [3, 0], "{i}, {reader}, {target:?}");
            }
        }
    }
}

#[test]
fn shapes_of_the_stream_make_values_of_its_extents() {
    for target in TARGETS {
        let b = between(17, Some("sum"), |b| {
            b.node("Shape", "shape", &["a.sum"], vec![]);
            b.weight("row", &[1, 1, WIDTH], 0.1);
            b.node("Expand", "rows", &["row", "shape"], vec![]);
            b.node("Add", "sum", &["a.sum", "rows"], vec![]);
        });
        assert_eq!(converted(&b, target).2, [3, 0], "{target:?}");
    }
}

#[test]
fn results_of_a_node_beside_the_stream_keep_their_extents() {
    for read in ["nothing", "dead", "shape"] {
        for target in TARGETS {
            let b = between(17, Some("first"), |b| {
                b.integers("axes", &[0]);
                b.node("Unsqueeze", "one", &["a.sum", "axes"], vec![]);
                b.node("Concat", "two", &["one", "one"], vec![int("axis", 0)]);
                push(b, "Split", &["two"], &["half", "other"]);
                b.node("Squeeze", "first", &["half", "axes"], vec![]);
                match read {
                    "dead" => drop(b.node("Exp", "dead", &["other"], vec![])),
                    "shape" => {
                        b.node("Shape", "extents", &["other"], vec![]);
                        b.output("extents");
                    }
                    _ => {}
                }
            });
            let (model, written, found) = converted(&b, target);
            assert_eq!(found, [3, 0], "{read}, {target:?}");
            if read == "dead" {
                same_extents("dead", &model, &written);
            }
        }
    }
}

#[test]
fn norms_whose_statistics_are_read_are_left() {
    for read in ["output", "dead", "shape"] {
        for target in TARGETS {
            let mut b = transformer(17);
            let norm = b.graph.node.iter_mut().find(|node| node.output == ["b.norm"]).unwrap();
            norm.output = ["b.norm", "", "deviation"].map(str::to_string).to_vec();
            match read {
                "output" => b.output("deviation"),
                "dead" => drop(b.node("Exp", "dead", &["deviation"], vec![])),
                _ => {
                    b.node("Shape", "extents", &["deviation"], vec![]);
                    b.output("extents");
                }
            }
            let folder = tempfile::tempdir().unwrap();
            let (_, _, report) = converted_file(&b.write(folder.path(), "model.onnx"), target);
            let why: Vec<&str> = report.left.iter().map(|left| left.why.as_str()).collect();
            assert!(
                why.contains(&"a statistic of `b.norm` is read as well"),
                "{read}, {target:?}: {why:?}"
            );
        }
    }
    // Nothing reads the statistic, so it may vanish.
    let mut b = transformer(17);
    let norm = b.graph.node.iter_mut().find(|node| node.output == ["b.norm"]).unwrap();
    norm.output.push("mean".to_string());
    for target in TARGETS {
        assert_eq!(converted(&b, target).2, [3, 0]);
    }
}

#[test]
fn dropout_keeps_its_mask_and_stops_conversions_where_it_drops() {
    for (is_training, expected) in [(None, [3, 0]), (Some(0), [3, 0]), (Some(1), [1, 2])] {
        for target in TARGETS {
            let b = between(17, Some("rest"), |b| {
                b.floats("ratio", &[], vec![0.5]);
                let mut inputs = vec!["a.sum", "ratio"];
                if let Some(mode) = is_training {
                    b.truth("training", mode != 0);
                    inputs.push("training");
                }
                push(b, "Dropout", &inputs, &["rest", "mask"]);
                b.output("mask");
            });
            let mut b = b;
            if is_training == Some(1) {
                b.declare(
                    "rest",
                    F32,
                    &[Extent::Named("batch"), Extent::Named("length"), Extent::Size(WIDTH)],
                );
            }
            let (_, written, found) = converted(&b, target);
            assert_eq!(
                found[0] + found[1],
                expected[0] + expected[1],
                "{is_training:?}, {target:?}"
            );
            assert!(
                is_training == Some(1) || found == expected,
                "{is_training:?}, {target:?}: {found:?}"
            );
            assert!(written.nodes.iter().any(|node| node.proto.output.len() == 2));
        }
    }
}

#[test]
fn names_are_given_once() {
    for target in TARGETS {
        // Nodes without names, and a name that the conversion would give.
        let mut b = transformer(17);
        b.graph.node.iter_mut().for_each(|node| node.name.clear());
        assert_eq!(converted(&b, target).2, [3, 0]);
        let taken = [
            "a.norm/scaled",
            "a.norm/sum",
            "final/eps",
            "a.sum/compressed",
            "b.norm/shifted",
            "final/divided",
        ];
        let mut b = transformer(17);
        for name in taken {
            b.node("Exp", name, &["logits"], vec![]);
            b.graph.node.last_mut().unwrap().name = name.to_string();
            b.output(name);
        }
        // Also inside of a branch.
        b.truth("always", true);
        let branch = |name: &str| {
            let (output, inner) = (format!("b.norm/{name}"), "b.norm/scaled");
            branch(name, inner, ("Exp", &["logits"]), &output)
        };
        b.node(
            "If",
            "choice",
            &["always"],
            vec![branch("then_branch"), branch("else_branch")],
        );
        b.output("choice");
        assert_eq!(converted(&b, target).2, [3, 0], "{target:?}");
    }
}

#[test]
fn branches_that_read_the_stream_find_it_as_it_was() {
    for target in TARGETS {
        for is_dead in [true, false] {
            let b = between(17, None, |b| {
                b.truth("always", true);
                let branch = |name: &str| branch(name, "", ("Exp", &["a.sum"]), name);
                b.node(
                    "If",
                    "choice",
                    &["always"],
                    vec![branch("then_branch"), branch("else_branch")],
                );
                if !is_dead {
                    b.output("choice");
                }
            });
            let (model, written, found) = converted(&b, target);
            assert_eq!(found[0] + found[1], 3);
            same_extents("a.sum", &model, &written);
        }
    }
}

#[test]
fn sums_within_norms_are_written_out() {
    for (has_sums, has_bias) in [(true, true), (true, false), (false, true), (false, false)] {
        for target in TARGETS {
            let mut b = Builder::new(17);
            let ids = b.input("ids", I64, &[Extent::Named("batch"), Extent::Named("length")]);
            let words = b.weight("words", &[11, WIDTH], 0.4);
            let mut stream = b.node("Gather", "embedded", &[&words, &ids], vec![]);
            let h = b.norm("first", &stream, WIDTH);
            let mut h = b.linear("branch", &h, WIDTH, WIDTH);
            for layer in ["a", "b"] {
                let gamma = b.weight(&format!("{layer}.gamma"), &[WIDTH], 1.0);
                let beta = b.weight(&format!("{layer}.beta"), &[WIDTH], 0.3);
                let bias = b.weight(&format!("{layer}.bias"), &[WIDTH], 0.3);
                let mut inputs = vec![&*stream, &*h, &*gamma, &*beta];
                inputs.extend(has_bias.then_some(&*bias));
                let (norm, sum) = (format!("{layer}.norm"), format!("{layer}.sum"));
                let mut outputs = vec![&*norm];
                if has_sums || layer == "a" {
                    outputs.extend(["", "", &*sum]);
                }
                push(&mut b, "SkipLayerNormalization", &inputs, &outputs);
                let skip = b.graph.node.last_mut().unwrap();
                skip.domain = "com.microsoft".to_string();
                skip.attribute.push(float("epsilon", 1e-5));
                h = b.linear(&format!("{layer}.out"), &norm, WIDTH, WIDTH);
                stream = sum;
            }
            b.output(&h);
            assert_eq!(converted(&b, target).2, [3, 0], "{has_sums}, {has_bias}, {target:?}");
        }
    }
}

#[test]
fn scales_and_shifts_of_other_extents_are_kept() {
    for target in TARGETS {
        // One number for all positions.
        let mut b = transformer(17);
        b.floats("one", &[1], vec![1.75]);
        b.floats("none", &[], vec![0.25]);
        for node in b
            .graph
            .node
            .iter_mut()
            .filter(|node| node.op_type == "LayerNormalization")
        {
            node.input[1] = "one".to_string();
            node.input[2] = "none".to_string();
        }
        assert_eq!(converted(&b, target).2, [3, 0], "{target:?}");
        // Primitive operators, and parameters of three axes.
        let mut b = transformer(17);
        let two = b.floats("two", &[], vec![2.0]);
        let eps = b.floats("eps", &[], vec![1e-5]);
        let old = std::mem::take(&mut b.graph.node);
        for node in old {
            if node.op_type != "LayerNormalization" {
                b.graph.node.push(node);
                continue;
            }
            let (x, y) = (&node.input[0], &node.output[0]);
            let part = |part: &str| format!("{y}.{part}");
            let axes = || vec![ints("axes", &[-1])];
            let mean = b.node("ReduceMean", &part("mean"), &[x], axes());
            let centred = b.node("Sub", &part("centred"), &[x, &mean], vec![]);
            let square = b.node("Pow", &part("square"), &[&centred, &two], vec![]);
            let variance = b.node("ReduceMean", &part("variance"), &[&square], axes());
            let safe = b.node("Add", &part("safe"), &[&variance, &eps], vec![]);
            let deviation = b.node("Sqrt", &part("deviation"), &[&safe], vec![]);
            let normal = b.node("Div", &part("normal"), &[&centred, &deviation], vec![]);
            let gamma = b.weight(&part("wide gamma"), &[1, 1, WIDTH], 1.0);
            let scaled = b.node("Mul", &part("scaled"), &[&normal, &gamma], vec![]);
            let beta = b.weight(&part("wide beta"), &[1, 1, WIDTH], 0.3);
            b.node("Add", y, &[&scaled, &beta], vec![]);
        }
        let (_, written, found) = converted(&b, target);
        assert_eq!(found, [3, 0], "{target:?}");
        assert!(!written.nodes.iter().any(|node| node.proto.op_type == "Sqrt") || target == NormTarget::Crms);
    }
}

#[test]
fn initializers_that_are_inputs_stay_inputs() {
    for target in TARGETS {
        let mut b = transformer(12);
        b.version = 3;
        b.list_initializers();
        let (model, written, found) = converted(&b, target);
        assert_eq!(found, [3, 0]);
        assert_eq!(model.inputs, written.inputs);
        // The format's third version takes no initializer that is not among the inputs.
        assert_eq!(written.overridable.len(), written.initializers.len());
    }
}
