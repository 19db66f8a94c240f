//! Derivatives by the logits beside differences with fixed noise, in `f64`: of shares of the Gumbel softmax alone,
//! and of the loss of a supernet, with the present weights and with those after a step.

use crate::support::{CLASSES, Free, SHAPE, device, images, small_space};
use lessen_base::SplitMix64;
use lessen_graph::{Array, DType, Graph, InputKind, Trace, evaluate_exactly};
use lessen_nn::Cx;
use lessen_search::{CostKind, Costs, Gates, Searcher, Settings, Variables, gumbel};
use std::collections::HashMap;

/// Compares a derivative with differences of a result.
fn assert_derivative(
    graph: &Graph,
    given: &HashMap<String, Array>,
    of: &str,
    [result, derivative]: [&str; 2],
    bound: f64,
) {
    let slopes = evaluate_exactly(graph, given).unwrap()[derivative].clone();
    assert!(
        slopes.data.iter().any(|x| x.abs() > 1e-4),
        "the derivative says nothing: {slopes:?}"
    );
    for (place, found) in slopes.data.iter().enumerate() {
        let at = |step: f64| {
            let mut moved = given.clone();
            moved.get_mut(of).unwrap().data[place] += step;
            evaluate_exactly(graph, &moved).unwrap()[result].item()
        };
        let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!(
            (found - difference).abs() <= bound * (1.0 + found.abs()),
            "logit {place}: the derivative is {found}, the difference {difference}"
        );
    }
}

fn random_array(shape: &[usize], random: &mut SplitMix64) -> Array {
    let count = shape.iter().product();
    Array::f32(shape, (0..count).map(|_| random.unit() - 0.5).collect())
}

fn noise_of(count: usize) -> Vec<f64> {
    let noise = gumbel(count, &mut SplitMix64::new(6));
    noise.into_iter().map(f64::from).collect()
}

#[test]
fn the_gumbel_softmax_has_the_derivative_of_differences_with_fixed_noise() {
    let space = small_space();
    let variables = Variables::of(&space);
    let count = variables.len();
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let [logits, noise] = ["logits", "noise"].map(|name| cx.input(name, DType::F32, &[count]));
    let inverse = cx.input("inverse", DType::F32, &[]);
    let gates = Gates::sampled(&variables, logits, noise, inverse);
    let mut total = trace.full(DType::F32, &[], 0.0);
    for (number, variable) in variables.all().iter().enumerate() {
        let share = gates.of(variable.block, variable.aspect).unwrap();
        let weights: Vec<f64> = (0..variable.count)
            .map(|place| ((number + 2 * place) as f64).sin())
            .collect();
        let value = (share * trace.constant(Array::f32(&[variable.count], weights))).sum();
        total = total + value * value;
    }
    trace.output("total", total);
    trace.output("derivative", total.grad(&[logits])[0]);
    let given = HashMap::from([
        ("logits".to_string(), random_array(&[count], &mut SplitMix64::new(2))),
        ("noise".to_string(), Array::f32(&[count], noise_of(count))),
        ("inverse".to_string(), Array::f32(&[], vec![0.7])),
    ]);
    assert_derivative(&trace.finish(), &given, "logits", ["total", "derivative"], 1e-8);
}

/// A supernet that rounds nothing, so that its loss is smooth.
fn compare(unrolled: bool, samples: usize) {
    let mut space = small_space();
    space.bits = 32;
    for block in &mut space.blocks {
        block.bits = [vec![32], vec![32]];
    }
    let settings = Settings {
        batch: 4,
        unrolled,
        samples,
        ..Settings::default()
    };
    let source = images(8);
    let costs = Costs {
        model: &Free,
        kind: CostKind::Latency,
        batch: 1,
        image: SHAPE,
        classes: CLASSES,
    };
    let searcher = Searcher::new(device(1), space, &costs, &source, settings).unwrap();
    let plan = searcher.plans().unwrap().remove(1).1;
    let graph = plan.graph();
    let mut given: HashMap<String, Array> = HashMap::new();
    for input in &graph.inputs {
        let shape = graph.ty(input.value).shape.to_vec();
        let mut random = SplitMix64::named(4, &input.name);
        let array = match &input.name[..] {
            "search.noise" => Array::f32(&shape, noise_of(shape.iter().product())),
            "search.inverse_temperature" => Array::f32(&shape, vec![0.6]),
            "search.weight_rate" => Array::f32(&shape, vec![0.2]),
            "search.logit_rate" | "search.logit_step" => Array::f32(&shape, vec![1.0]),
            name if name.ends_with("targets") => {
                let mut shares = random_array(&shape, &mut random);
                shares.data.iter_mut().for_each(|x| *x += 0.5);
                shares
            }
            name if input.kind == InputKind::State && name.ends_with("norm.weight") => {
                Array::full(graph.ty(input.value).clone(), 1.0)
            }
            _ => random_array(&shape, &mut random),
        };
        given.insert(input.name.clone(), array);
    }
    assert_derivative(graph, &given, "search.logits", ["loss", "gradient"], 2e-6);
}

#[test]
fn the_loss_of_a_supernet_has_the_derivative_of_differences() {
    compare(false, 1);
}

#[test]
fn the_loss_after_a_step_of_the_weights_has_the_derivative_of_differences() {
    compare(true, 1);
    compare(true, 2);
}
