//! The layers of traced graphs.

use lessen_graph::ops::Conv2dOptions;
use lessen_graph::{AttentionOptions, Attrs, Cost, DType, Op, Result, Tensor, Trace, Type, attention};
use lessen_hardware::{Bits, Layer, LayerKind, LayerShape, layers_of_graph, networks};

fn layers(trace: Trace) -> Vec<Layer> {
    let found = layers_of_graph(&trace.finish(), Bits::both(8)).unwrap();
    assert!(found.without_model.is_empty(), "{:?}", found.without_model);
    found.layers
}

#[test]
fn a_traced_mobilenet_has_the_layers_of_the_published_one() {
    let published = networks::mobilenet_v2(2, 64, 10, Bits::both(8));
    let trace = Trace::new();
    let mut x = trace.input("images", DType::F32, &[2, 64, 64, 3]);
    for layer in &published {
        let shape = &layer.shape;
        let size = |extent: u64| extent as usize;
        if shape.kind == LayerKind::Linear {
            let weight = trace.state(
                &format!("{}.weight", layer.name),
                DType::F32,
                &[size(shape.outputs), 1280],
            );
            x = x.reshape(&[2, 4, 1280]).sum_axes(&[1]).matmul_t(weight);
            continue;
        }
        let of_group = size(shape.inputs / shape.groups);
        let extents = [
            size(shape.outputs),
            of_group,
            size(shape.kernel[0]),
            size(shape.kernel[1]),
        ];
        let weight = trace.state(&format!("{}.weight", layer.name), DType::F32, &extents);
        let (before, after) = match (shape.kernel[0], shape.stride[0]) {
            (1, _) => (0, 0),
            (_, 1) => (1, 1),
            _ => (0, 1),
        };
        let options = Conv2dOptions {
            stride: shape.stride.map(size),
            padding: [before, after, before, after],
            groups: size(shape.groups),
            ..Conv2dOptions::default()
        };
        x = x.conv2d(weight, options).relu();
    }
    trace.output("logits", x);
    let found = layers(trace);
    assert_eq!(found.len(), published.len());
    for (found, published) in found.iter().zip(&published) {
        assert_eq!(found, published);
    }
}

#[test]
fn products_of_activations_weights_on_either_side_and_steps_are_told_apart() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 5, 8]);
    let y = x.matmul(trace.state("right.weight", DType::F32, &[8, 6]));
    let z = trace.state("left.weight", DType::F32, &[2, 7, 5]).matmul(y);
    let heads = |name: &str| trace.input(name, DType::F32, &[2, 5, 2, 4]);
    let (q, k, v) = (heads("q"), heads("k"), heads("v"));
    let attended = trace.in_scope("h.0", || attention(q, k, v, AttentionOptions::default()));
    let sums = trace.input("sums", DType::F32, &[2, 9, 16]);
    let hidden = trace.state("weight_hh", DType::F32, &[16, 4]);
    let zeros = trace.input("h0", DType::F32, &[2, 4]);
    let h = sums.lstm(hidden, (zeros, zeros), false);
    for (name, value) in [("z", z), ("attended", attended), ("h", h.0)] {
        trace.output(name, value);
    }
    let found = layers(trace);
    let expected = [
        ("right", LayerShape::linear(10, 8, 6)),
        (
            "left",
            LayerShape {
                repeats: 2,
                ..LayerShape::linear(6, 5, 7)
            },
        ),
        ("h.0.scores", LayerShape::product(5, 4, 5, 4)),
        ("h.0.values", LayerShape::product(5, 5, 4, 4)),
        ("weight_hh", LayerShape::recurrent(2, 4, 16, 9)),
    ];
    let expected = expected.map(|(name, shape)| Layer::new(name, shape, Bits::both(8)));
    assert_eq!(found, expected);
}

/// An operation that multiplies, and says neither how nor of what it is made.
#[derive(Debug, PartialEq)]
struct Gram;

impl Op for Gram {
    fn name(&self) -> &'static str {
        "test.gram"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(vec![inputs[0].clone()])
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            product_flops: 2000.0,
            ..Cost::vector(0.0, inputs, outputs)
        }
    }
}

/// An operation that multiplies, made of a product.
#[derive(Debug, PartialEq)]
struct Twice;

impl Op for Twice {
    fn name(&self) -> &'static str {
        "test.twice"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(vec![inputs[0].clone()])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0].matmul(inputs[1]).matmul(inputs[1])])
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            product_flops: 1.0,
            ..Cost::vector(0.0, inputs, outputs)
        }
    }
}

#[test]
fn an_operation_without_a_cost_model_is_named_and_one_with_a_decomposition_is_counted() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[4, 8]);
    let w = trace.state("w", DType::F32, &[8, 8]);
    let y = trace.apply1(Twice, &[x, w]);
    let y = trace.in_scope("h.3", || trace.apply1(Gram, &[y.gelu()]));
    trace.output("y", y);
    let found = layers_of_graph(&trace.finish(), Bits::both(8)).unwrap();
    let names: Vec<&str> = found.layers.iter().map(|layer| &layer.name[..]).collect();
    assert_eq!(names, ["w", "w#2"]);
    assert_eq!(found.layers[0].shape, LayerShape::linear(4, 8, 8));
    let sentence = found.without_model[0].sentence();
    assert!(
        sentence.contains("test.gram at h.3") && sentence.contains("linear layer of 1000 multiplications"),
        "{sentence}"
    );
    let others: Vec<&str> = found.without_products.iter().map(|own| &own.operation[..]).collect();
    assert!(others.contains(&"gelu"), "{others:?}");
}

#[test]
fn backward_products_and_products_of_parameters_alone_are_no_layers() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[4, 8]);
    let (a, b) = (
        trace.state("a", DType::F32, &[8, 8]),
        trace.state("b", DType::F32, &[8, 8]),
    );
    let w = a.matmul(b);
    let loss = x.matmul(w).sum();
    let gradient = loss.grad(&[a])[0];
    trace.output("loss", loss);
    trace.output("gradient", gradient);
    let found = layers(trace);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].shape, LayerShape::linear(4, 8, 8));
}
