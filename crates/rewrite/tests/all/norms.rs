//! Norm conversion: equal results, and the norms that are not converted.

use std::collections::HashMap;

use lessen_base::SplitMix64;
use lessen_graph::{Array, DType, Graph, InputKind, Tensor, Trace, TraceRef, Type, evaluate_exactly};
use lessen_rewrite::{
    Conversion, Means, NormOptions, NormShift, NormTarget, Obstacle, Parameter, ParameterStep, convert_norms,
    convert_norms_in_place, recognize_norms,
};

const WIDTH: usize = 6;
const TOKENS: usize = 3;
const WORDS: usize = 11;

/// Random values whose means are far from zero.
fn values(graph: &Graph, seed: u64) -> HashMap<String, Array> {
    let mut random = SplitMix64::new(seed);
    let inputs = graph.inputs.iter().map(|input| {
        let ty = graph.ty(input.value).clone();
        let data = (0..ty.numel()).map(|_| match ty.dtype {
            DType::I32 => random.below(WORDS as u64) as f64,
            _ => random.below(2000) as f64 / 1000.0 - 0.4,
        });
        let data = data.collect();
        (input.name.clone(), Array::new(ty, data))
    });
    inputs.collect()
}

/// The values of the states of a converted graph.
fn converted(
    graph: &Graph,
    new: &Graph,
    conversion: &Conversion,
    values: &HashMap<String, Array>,
) -> HashMap<String, Array> {
    let parameter = |name: &str| {
        let array = &values[name];
        Parameter {
            shape: array.ty.shape.to_vec(),
            data: array.data.clone(),
        }
    };
    let names: HashMap<_, &str> = graph
        .inputs
        .iter()
        .map(|input| (input.value, input.name.as_str()))
        .collect();
    let ids: HashMap<&str, _> = names.iter().map(|(id, name)| (*name, *id)).collect();
    let inputs = new.inputs.iter().map(|input| {
        let mut value = parameter(&input.name);
        let steps = conversion.parameters.of(ids[input.name.as_str()]);
        value.apply(steps, &mut |id| Ok(parameter(names[&id]))).unwrap();
        let ty = Type::new(values[&input.name].ty.dtype, &value.shape);
        (input.name.clone(), Array::new(ty, value.data))
    });
    inputs.collect()
}

/// Converts a graph and checks that the new one computes the same.
fn check(graph: &Graph, target: NormTarget) -> (Graph, Conversion) {
    let (new, conversion) = convert_norms(graph, &NormOptions::of(target));
    lessen_graph::verify(&new).unwrap();
    let values = values(graph, 7);
    let expected = evaluate_exactly(graph, &values).unwrap();
    let found = evaluate_exactly(&new, &converted(graph, &new, &conversion, &values)).unwrap();
    assert_eq!(expected.len(), found.len());
    for (name, expected) in &expected {
        assert_eq!(expected.ty, found[name].ty, "{name}");
        for (a, b) in expected.data.iter().zip(&found[name].data) {
            assert!(
                (a - b).abs() <= 1e-10 * a.abs().max(1.0),
                "{target:?}, {name}: {a} and {b}"
            );
        }
    }
    (new, conversion)
}

fn count(graph: &Graph, name: &str) -> usize {
    graph.nodes.iter().filter(|node| node.op.name() == name).count()
}

/// The parameters of a network under construction.
struct Net {
    trace: TraceRef,
}

impl Net {
    fn state(&self, name: &str, shape: &[usize]) -> Tensor {
        self.trace.state(name, DType::F64, shape)
    }

    fn norm(&self, name: &str, x: Tensor) -> Tensor {
        let width = x.ty().last();
        let [gamma, beta] = ["gamma", "beta"].map(|part| self.state(&format!("{name}.{part}"), &[width]));
        x.layer_norm(gamma, beta, 1e-3)
    }

    fn linear(&self, name: &str, x: Tensor, width: usize) -> Tensor {
        let from = x.ty().last();
        let weight = self.state(&format!("{name}.weight"), &[width, from]);
        x.matmul_t(weight) + self.state(&format!("{name}.bias"), &[width])
    }

    /// A layer of a Pre-LN Transformer without what attention does, which no rule looks into.
    fn layer(&self, name: &str, x: Tensor) -> Tensor {
        let hidden = self.linear(&format!("{name}.in"), self.norm(&format!("{name}.norm"), x), 2 * WIDTH);
        x + self.linear(&format!("{name}.out"), hidden.tanh(), WIDTH)
    }

    fn embedded(&self) -> Tensor {
        let ids = self.trace.input("ids", DType::I32, &[2, TOKENS]);
        let words = self.state("words", &[WORDS, WIDTH]).gather(ids);
        words + self.state("positions", &[TOKENS, WIDTH])
    }
}

fn traced(build: impl Fn(&Net)) -> Graph {
    let trace = Trace::new();
    build(&Net { trace: *trace });
    trace.finish()
}

/// Two layers, a final norm and a head.
fn transformer() -> Graph {
    traced(|net| {
        let x = net.layer("b", net.layer("a", net.embedded()));
        net.trace
            .output("logits", net.linear("head", net.norm("final", x), WORDS));
    })
}

#[test]
fn all_norms_of_a_transformer_are_converted() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let graph = transformer();
        let (new, conversion) = check(&graph, target);
        assert_eq!(conversion.converted.len(), 3);
        assert!(conversion.unconverted.is_empty() && conversion.recentred.is_empty());
        assert!(
            conversion
                .converted
                .iter()
                .all(|norm| norm.shift == NormShift::Absorbed)
        );
        assert_eq!(count(&new, "layer_norm"), 0);
        assert_eq!(count(&new, "reduce"), 0, "no mean is subtracted when it runs");
        assert!(!new.inputs.iter().any(|input| input.name.ends_with(".beta")));
        let compressed = target == NormTarget::Crms;
        assert_eq!(
            new.inputs.iter().any(|input| input.name.ends_with(".gamma")),
            !compressed
        );
        let words = new.inputs.iter().find(|input| input.name == "words").unwrap();
        assert_eq!(new.ty(words.value).last(), WIDTH - usize::from(compressed));
    }
}

#[test]
fn a_tied_table_is_left_alone_and_its_rows_are_recentred() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let graph = traced(|net| {
            let ids = net.trace.input("ids", DType::I32, &[2, TOKENS]);
            let words = net.state("words", &[WORDS, WIDTH]);
            let x = net.layer("b", net.layer("a", words.gather(ids)));
            net.trace.output("logits", net.norm("final", x).matmul_t(words));
        });
        let (new, conversion) = check(&graph, target);
        assert_eq!(conversion.converted.len(), 3);
        assert_eq!(conversion.recentred.len(), 1);
        assert_eq!(conversion.converted[2].shift, NormShift::Added);
        let words = new.inputs.iter().find(|input| input.name == "words").unwrap();
        assert_eq!(new.ty(words.value).shape[..], [WORDS, WIDTH]);
    }
}

#[test]
fn post_norms_with_an_affine_part_are_left() {
    let graph = traced(|net| {
        let mut x = net.embedded();
        for name in ["a", "b", "c", "d"] {
            x = net.norm(&format!("{name}.norm"), x + net.linear(name, x, WIDTH));
        }
        net.trace.output("y", net.linear("head", x, WORDS));
    });
    let (new, conversion) = check(&graph, NormTarget::Rms);
    assert_eq!(conversion.converted.len(), 0);
    assert_eq!(conversion.unconverted.len(), 4);
    assert_eq!(count(&new, "layer_norm"), 4);
    let (value, stop) = conversion.unconverted[1].obstacles[0];
    assert!(graph.producer(value).is_some() && matches!(stop, Obstacle::Node(_)));
}

#[test]
fn post_norms_without_an_affine_part_are_converted() {
    let graph = traced(|net| {
        let full = |x: Tensor, value| net.trace.full(DType::F64, &[x.ty().last()], value);
        let mut x = net.embedded();
        for name in ["a", "b", "c"] {
            let inner = x + net.linear(name, x, WIDTH);
            x = inner.layer_norm(full(inner, 1.0), full(inner, 0.0), 1e-3);
        }
        net.trace.output("y", net.linear("head", x, WORDS));
    });
    let (_, conversion) = check(&graph, NormTarget::Rms);
    // The first sum reads embeddings that a product reads, too; what the norms give has mean zero.
    assert_eq!(conversion.converted.len(), 2);
    assert_eq!(conversion.unconverted.len(), 1);
}

#[test]
fn a_norm_before_the_stream_costs_one_mean() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let graph = traced(|net| {
            let x = net.norm("first", net.embedded());
            let x = net.layer("c", net.layer("b", net.layer("a", x)));
            net.trace.output("y", net.linear("head", net.norm("final", x), WORDS));
        });
        let (_, conversion) = check(&graph, target);
        assert_eq!(conversion.converted.len(), 5);
        assert_eq!(conversion.recentred.len(), 1);
    }
}

#[test]
fn scales_of_branches_and_parallel_branches_are_converted() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let graph = traced(|net| {
            let mut x = net.embedded();
            for name in ["a", "b"] {
                let y = net.norm(&format!("{name}.norm"), x);
                let scale = |part: &str| net.state(&format!("{name}.{part}.scale"), &[WIDTH]);
                let hidden = net.linear(&format!("{name}.in"), y, 2 * WIDTH).tanh();
                let mlp = net.linear(&format!("{name}.out"), hidden, WIDTH) * scale("mlp");
                let other = net.linear(&format!("{name}.other"), y, WIDTH).tanh();
                x = x + mlp + scale("attention") * net.linear(&format!("{name}.mixed"), other, WIDTH);
            }
            net.trace.output("y", net.linear("head", net.norm("final", x), WORDS));
        });
        let (new, conversion) = check(&graph, target);
        assert_eq!(conversion.converted.len(), 3);
        assert_eq!(conversion.absorbed.len(), 4);
        assert!(!new.inputs.iter().any(|input| input.name.ends_with(".scale")));
    }
}

#[test]
fn branches_that_are_multiplied_by_numbers_are_converted() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let graph = traced(|net| {
            let mut x = net.embedded();
            for name in ["a", "b"] {
                let y = net.norm(&format!("{name}.norm"), x);
                let hidden = net.linear(&format!("{name}.in"), y, 2 * WIDTH).tanh();
                x = x + net.linear(&format!("{name}.out"), hidden, WIDTH) * 0.5;
            }
            net.trace.output("y", net.linear("head", net.norm("final", x), WORDS));
        });
        assert_eq!(check(&graph, target).1.converted.len(), 3);
    }
}

#[test]
fn class_tokens_and_patches_are_converted() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let graph = traced(|net| {
            let image = net.trace.input("image", DType::F64, &[2, 4, 4, 3]);
            let options = lessen_graph::Conv2dOptions {
                stride: [2, 2],
                ..lessen_graph::Conv2dOptions::default()
            };
            let patches =
                image.conv2d(net.state("patches", &[WIDTH, 3, 2, 2]), options) + net.state("patches.bias", &[WIDTH]);
            // Exporters write channels first, then merge the others and move channels to the end.
            let patches = patches
                .permute(&[0, 3, 1, 2])
                .reshape(&[2, WIDTH, 4])
                .permute(&[0, 2, 1]);
            let class = net.state("class", &[1, 1, WIDTH]).broadcast_to(&[2, 1, WIDTH]);
            let x = lessen_graph::concat(&[class, patches], 1) + net.state("positions", &[1, 5, WIDTH]);
            let x = net.norm("final", net.layer("b", net.layer("a", x)));
            let first = x.slice(1, 0, 1).reshape(&[2, WIDTH]);
            net.trace.output("y", net.linear("head", first, WORDS));
        });
        let (new, conversion) = check(&graph, target);
        assert_eq!(conversion.converted.len(), 3);
        assert!(conversion.recentred.is_empty());
        assert_eq!(count(&new, "layer_norm"), 0);
    }
}

#[test]
fn a_stream_that_is_a_result_keeps_its_means() {
    let graph = traced(|net| {
        let x = net.layer("b", net.layer("a", net.embedded()));
        net.trace.output("hidden", x);
        net.trace
            .output("logits", net.linear("head", net.norm("final", x), WORDS));
    });
    let (_, conversion) = check(&graph, NormTarget::Rms);
    assert_eq!(conversion.converted.len(), 0);
    assert_eq!(conversion.unconverted.len(), 3);
}

#[test]
fn norms_of_primitive_operations_are_recognized() {
    type Written = fn(Tensor, Tensor, Tensor) -> Tensor;
    let ways: [Written; 4] = [
        |x, gamma, beta| {
            let centred = x - x.mean_last();
            centred / ((centred * centred).mean_last() + 1e-3).sqrt() * gamma + beta
        },
        |x, gamma, beta| {
            // Computed twice, the reciprocal root, the scale first.
            let variance = ((x - x.mean_last()) * (x - x.mean_last())).mean_last();
            beta + gamma * ((x - x.mean_last()) * (variance + 1e-3).rsqrt())
        },
        |x, gamma, beta| {
            let centred = x - x.mean_axes(&[2]).reshape(&[2, TOKENS, 1]);
            let variance = centred
                .pow(centred.scalar_like(2.0))
                .mean_axes(&[2])
                .reshape(&[2, TOKENS, 1]);
            (variance + 1e-3).sqrt().recip() * centred * gamma + beta
        },
        |x, gamma, beta| {
            let wide = x.cast(DType::F32).cast(DType::F64);
            let centred = wide - wide.mean_last();
            (centred / ((centred * centred).mean_last() + 1e-3).sqrt()) * gamma + beta
        },
    ];
    for (i, way) in ways.into_iter().enumerate() {
        let graph = traced(|net| {
            let x = net.trace.input("x", DType::F64, &[2, TOKENS, WIDTH]);
            net.trace
                .output("y", way(x, net.state("gamma", &[WIDTH]), net.state("beta", &[WIDTH])));
        });
        let (new, map) = recognize_norms(&graph);
        assert_eq!(count(&new, "layer_norm"), 1, "way {i}");
        assert!(new.nodes.len() <= 3, "way {i}: what is not read any more is left out");
        assert_eq!(map[graph.outputs[0].value.index()], Some(new.outputs[0].value));
        let values = values(&graph, 3);
        let (a, b) = (
            evaluate_exactly(&graph, &values).unwrap(),
            evaluate_exactly(&new, &values).unwrap(),
        );
        let pairs = a["y"].data.iter().zip(&b["y"].data);
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-12), "way {i}");
    }
}

#[test]
fn states_are_not_taken_for_data() {
    let graph = transformer();
    let states = graph
        .inputs
        .iter()
        .filter(|input| input.kind == InputKind::State)
        .count();
    let (new, _) = check(&graph, NormTarget::Rms);
    assert_eq!(
        new.inputs.iter().filter(|input| input.kind == InputKind::State).count(),
        states - 3
    );
}

/// Recentres the states that a conversion in place asks for.
fn recentred(graph: &Graph, conversion: &Conversion, values: &HashMap<String, Array>) -> HashMap<String, Array> {
    let mut values = values.clone();
    for (id, steps) in conversion.parameters.iter() {
        assert!(steps.iter().all(|step| matches!(step, ParameterStep::Centre { .. })));
        let array = values.get_mut(&graph.input(id).unwrap().name).unwrap();
        let mut parameter = Parameter {
            shape: array.ty.shape.to_vec(),
            data: array.data.clone(),
        };
        parameter
            .apply(steps, &mut |_| unreachable!("means need no other state"))
            .unwrap();
        array.data = parameter.data;
    }
    values
}

#[test]
fn in_place_parameters_keep_shapes_and_are_recentred_alone() {
    let tied = traced(|net| {
        let ids = net.trace.input("ids", DType::I32, &[2, TOKENS]);
        let words = net.state("words", &[WORDS, WIDTH]);
        let scale = net.state("scale", &[WIDTH]);
        let x = net.layer("a", words.gather(ids));
        let x = net.layer("b", x + net.linear("mixed", x.tanh(), WIDTH) * scale);
        net.trace.output("logits", net.norm("final", x).matmul_t(words));
    });
    for (graph, means) in [(transformer(), Means::Fewer), (tied, Means::Any)] {
        for target in [NormTarget::Rms, NormTarget::Crms] {
            let (new, conversion) = convert_norms_in_place(&graph, &NormOptions::of(target), means);
            lessen_graph::verify(&new).unwrap();
            assert_eq!(conversion.converted.len(), 3);
            assert!(conversion.converted.iter().all(|norm| norm.shift == NormShift::Added));
            for input in &new.inputs {
                let old = graph.inputs.iter().find(|old| old.name == input.name).unwrap();
                assert_eq!(graph.ty(old.value), new.ty(input.value), "{}", input.name);
            }
            assert_eq!(new.inputs.len(), graph.inputs.len());
            let values = values(&graph, 11);
            let expected = evaluate_exactly(&graph, &values).unwrap();
            let found = evaluate_exactly(&new, &recentred(&graph, &conversion, &values)).unwrap();
            for (a, b) in expected["logits"].data.iter().zip(&found["logits"].data) {
                assert!((a - b).abs() <= 1e-10 * a.abs().max(1.0), "{target:?}: {a} and {b}");
            }
        }
    }
}
