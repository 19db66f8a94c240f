//! With shares of 0 and 1 the supernet is the network of that choice, with a part of its weights.

use crate::support::{CLASSES, SHAPE, small_space};
use lessen_base::SplitMix64;
use lessen_graph::{Array, DType, Graph, InputKind, Trace, evaluate_exactly};
use lessen_nn::Cx;
use lessen_nn::layers::Spread;
use lessen_nn::models::vision::{MixedMobileNet, VisionModel};
use lessen_search::{Choice, Gates, Space};
use std::collections::HashMap;

const COUNT: usize = 3;

fn graph_of(build: impl Fn(Cx, lessen_graph::Tensor) -> lessen_graph::Tensor) -> Graph {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let images = cx.input("images", DType::F32, &[&[COUNT][..], &SHAPE].concat());
    let logits = build(cx, images);
    trace.output("logits", logits);
    trace.finish()
}

/// The first part of an array in every axis, or of kernels the centre.
fn part(whole: &Array, shape: &[usize]) -> Array {
    let from: Vec<usize> = whole
        .ty
        .shape
        .iter()
        .zip(shape)
        .enumerate()
        .map(|(axis, (large, small))| if axis >= 2 { (large - small) / 2 } else { 0 })
        .collect();
    let mut index = vec![0; shape.len()];
    let count: usize = shape.iter().product();
    let mut data = Vec::with_capacity(count);
    for _ in 0..count {
        let at: Vec<usize> = index.iter().zip(&from).map(|(own, from)| own + from).collect();
        data.push(whole.data[whole.offset(&at)]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Array::f32(shape, data)
}

/// Compares both on weights of the supernet.
fn compare(space: &Space, choices: &[Choice], spread: Spread) {
    let supernet = graph_of(|cx, images| {
        let gates = Gates::of_network(cx.trace(), space, choices);
        space.supernet(cx, images, (CLASSES, spread), &gates)
    });
    let architecture = space.architecture(choices);
    let quantization = architecture.quantization();
    let mut model: VisionModel = MixedMobileNet::new(architecture, CLASSES).into();
    assert!(model.set_spread(spread));
    let own = graph_of(|cx, images| model.forward(cx.with_quantization(Some(&quantization)), images));
    let mut given: HashMap<String, Array> = HashMap::new();
    for input in &supernet.inputs {
        let shape = supernet.ty(input.value).shape.to_vec();
        let mut random = SplitMix64::named(1, &input.name);
        let data = (0..shape.iter().product()).map(|_| 2.0 * random.unit() - 0.9).collect();
        given.insert(input.name.clone(), Array::f32(&shape, data));
    }
    let mixed = evaluate_exactly(&supernet, &given).unwrap()["logits"].clone();
    // The number of each block of the network in the space.
    let blocks: Vec<usize> = (0..space.blocks.len())
        .filter(|block| choices[*block][0] == 0)
        .collect();
    let mut parts: HashMap<String, Array> = HashMap::new();
    for input in &own.inputs {
        let shape = own.ty(input.value).shape.to_vec();
        let name = match input.name.strip_prefix("blocks.").and_then(|rest| rest.split_once('.')) {
            Some((number, rest)) => format!("blocks.{}.{rest}", blocks[number.parse::<usize>().unwrap()]),
            None => input.name.clone(),
        };
        let array = match (input.kind, given.get(&name)) {
            (_, Some(whole)) => part(whole, &shape),
            (InputKind::State, None) => Array::full(own.ty(input.value).clone(), 0.0),
            _ => panic!("{name} is not of the supernet"),
        };
        parts.insert(input.name.clone(), array);
    }
    let derived = evaluate_exactly(&own, &parts).unwrap()["logits"].clone();
    assert!(mixed.data.iter().any(|x| x.abs() > 1e-3));
    for (a, b) in mixed.data.iter().zip(&derived.data) {
        assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{choices:?}: {a} is not {b}");
    }
}

#[test]
fn a_supernet_of_one_choice_is_the_network_of_that_choice() {
    let space = small_space();
    let mut random = SplitMix64::new(8);
    for _ in 0..6 {
        let choices: Vec<Choice> = (space.blocks.iter())
            .map(|block| block.choice(random.below(block.choices() as u64) as usize))
            .collect();
        compare(&space, &choices, Spread::Variance);
    }
    for spread in [Spread::Range, Spread::Range8] {
        compare(&space, &[[0, 1, 1, 2, 1], [1, 0, 0, 0, 0]], spread);
    }
}
