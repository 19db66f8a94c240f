//! A forward value is kept as bits where backward reads only truth values of it, exactly where that saves memory; no
//! bit of the results depends on it.

use std::collections::HashMap;

use lessen_compile::Plan;
use lessen_device::suite::check_plan as check;
use lessen_graph::{Array, DType, Graph, NodeId, Phase, Tensor, Trace, Type, ValueId, evaluate};

use crate::plans::runner::{Options, bits, compile, floor_bytes, run_once};
use crate::random::Random;

const ROWS: usize = 640;
const WIDTH: usize = 200;
const INNER: usize = 24;
/// Bytes of an inner value as `f32` and as bits: a row of 200 bits takes 7 words.
const WHOLE: usize = ROWS * WIDTH * 4;
const AS_BITS: usize = ROWS * 7 * 4;

/// A function of the inner values of a model: two products `[ROWS, WIDTH]`.
type Model = fn(Tensor, Tensor, Tensor) -> Tensor;

/// A training step: the mean of the model's result, squared, and a step of gradient descent. With `kept` the
/// forward values of their size are results of the graph, so that they cannot be freed.
fn step(model: Model, kept: bool) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[ROWS, INNER]);
    let weights = ["a", "b", "c"].map(|name| {
        let shape = if name == "c" { [WIDTH, WIDTH] } else { [INNER, WIDTH] };
        trace.state(name, DType::F32, &shape)
    });
    let products = [x.matmul(weights[0]), x.matmul(weights[1])];
    let y = model(products[0], products[1], weights[2]);
    if kept {
        let large = |graph: &Graph| {
            let is_large = |v: &ValueId| *graph.ty(*v) == Type::f32(&[ROWS, WIDTH]);
            (0..graph.values.len() as u32)
                .map(ValueId)
                .filter(is_large)
                .collect::<Vec<_>>()
        };
        for (i, value) in trace.with_graph(large).into_iter().enumerate() {
            trace.output(&format!("large{i}"), trace.tensor(value));
        }
    }
    let loss = (y * y).mean();
    trace.output("loss", loss);
    let gradients = trace.in_phase(Phase::Backward, || loss.grad(&weights));
    for (weight, gradient) in weights.into_iter().zip(gradients) {
        trace.in_phase(Phase::Update, || trace.assign(weight, weight - gradient * 0.1));
    }
    trace.finish()
}

fn inputs() -> HashMap<String, Array> {
    let mut random = Random::new(8);
    let shapes = [
        ("x", [ROWS, INNER]),
        ("a", [INNER, WIDTH]),
        ("b", [INNER, WIDTH]),
        ("c", [WIDTH, WIDTH]),
    ];
    let array = |(name, shape): (&str, [usize; 2])| {
        (
            name.to_string(),
            Array::from_fn(Type::f32(&shape), |_| f64::from(random.unit_f32())),
        )
    };
    shapes.map(array).into()
}

/// The mean over the rows of each column.
fn pooled(x: Tensor) -> Tensor {
    x.mean_axes(&[0])
}

/// Models whose plans keep bits, with the number of values of bits and the bytes of the values that the bits stand for.
const PAYING: [(&str, Model, usize, usize); 7] = [
    (
        "helu",
        |a, b, _| pooled(a.helu(0.1)) + pooled(b.helu(0.05)),
        2,
        2 * WHOLE,
    ),
    ("relu", |a, b, _| pooled(a.relu()) * pooled(b.relu()), 2, 2 * WHOLE),
    // Which of two is larger, and where they are equal: three comparisons instead of two values.
    ("maximum", |a, b, _| pooled(a.maximum(b)), 3, 2 * WHOLE),
    ("max pooling", |a, _, _| a.max_axes(&[0]), 1, WHOLE),
    // The sum is kept for the product; the input of the activation is not.
    (
        "helu and a residual",
        |a, b, c| pooled((b + a.helu(0.1)).matmul(c)),
        1,
        WHOLE,
    ),
    // Truth values of the forward phase itself.
    ("select", |a, b, _| pooled(a.gt(b).select(a * 2.0, b)), 1, ROWS * WIDTH),
    // Either alone would lose the sum, which is recomputed from both; together they free one more than they lose.
    (
        "sum of activations",
        |a, b, c| pooled((a.helu(0.1) + b.helu(0.1)).matmul(c)),
        2,
        2 * WHOLE,
    ),
];

/// Models whose plans keep nothing as bits, because the values are needed anyway or nothing would be freed.
const OTHERS: [(&str, Model); 4] = [
    ("relu before a product", |a, _, c| pooled(a.relu().matmul(c))),
    ("another reader", |a, _, _| pooled(a.helu(0.1)) + pooled(a * a)),
    // The comparison is recomputed from the kept values.
    ("a comparison of kept values", |a, b, _| {
        pooled(a.gt(b).select(a * a, b * b))
    }),
    ("no truth values", |a, b, _| pooled(a.gelu() * b)),
];

fn planned(model: Model, kept: bool, threads: usize) -> (Plan, Vec<(String, Vec<u32>)>) {
    let options = Options {
        threads,
        ..Options::default()
    };
    let (plan, mut results) = run_once(&step(model, kept), &options, &inputs());
    check(&plan).unwrap();
    results.retain(|name, _| !name.starts_with("large"));
    (plan, bits(&results))
}

/// Bytes of the arena's values that the forward phase leaves to backward.
fn crossing(plan: &Plan) -> usize {
    let graph = plan.graph();
    let phase = |node: &NodeId| graph.nodes[node.index()].phase;
    let backward = plan
        .steps()
        .iter()
        .position(|step| step.nodes.iter().any(|n| phase(n) == Phase::Backward));
    let backward = backward.expect("a backward phase");
    let alive = |v: &ValueId| {
        plan.lifetime(*v)
            .is_some_and(|(first, last)| first < backward && last >= backward)
    };
    let values = (0..graph.values.len() as u32).map(ValueId).filter(alive);
    values.map(|v| graph.ty(v).bytes()).sum()
}

#[test]
fn bits_are_kept_where_that_frees_memory_and_change_no_result() {
    for (name, model, values, freed) in PAYING {
        let ((plan, results), (whole, expected)) = (planned(model, false, 1), planned(model, true, 1));
        let packed = plan.packed();
        assert_eq!(packed.len(), values, "{name}: {packed:?}");
        assert!(packed.iter().all(|p| p.bytes == AS_BITS), "{name}: {packed:?}");
        assert_eq!(packed.iter().map(|p| p.freed).sum::<usize>(), freed, "{name}");
        let (before, after) = (crossing(&whole), crossing(&plan));
        assert!(after < before, "{name}: {after} bytes, {before} without bits");
        assert_eq!(results, expected, "{name}: other bits");
        assert_eq!(planned(model, false, 2).1, expected, "{name} on two threads");

        let found = evaluate(&step(model, false), &inputs()).unwrap()["loss"].item();
        let loss = results
            .iter()
            .find(|(name, _)| name == "loss")
            .map(|(_, bits)| f32::from_bits(bits[0]));
        assert!(
            (f64::from(loss.unwrap()) - found).abs() < 1e-4 * found,
            "{name}: {loss:?} for {found}"
        );
    }
}

/// The product reads the activation. It can be kept instead of the input, which it is else recomputed from, at a time
/// when both of them take room. The input is a product that takes long to recompute.
#[test]
fn an_activation_before_a_product_takes_what_relu_takes_and_its_bits() {
    let planned = |model: Model| planned(model, false, 1).0;
    let helu = planned(|a, _, c| pooled(a.matmul(c).helu(0.1).matmul(c).gelu()));
    let relu = planned(|a, _, c| pooled(a.matmul(c).relu().matmul(c).gelu()));
    assert_eq!((helu.packed().len(), relu.packed().len()), (1, 0));
    let more = crossing(&helu) - crossing(&relu);
    assert_eq!(more, AS_BITS);
}

#[test]
fn nothing_is_kept_as_bits_where_that_would_free_nothing() {
    for (name, model) in OTHERS {
        let (plan, _) = planned(model, false, 1);
        assert!(plan.packed().is_empty(), "{name}: {:?}", plan.packed());
    }
}

#[test]
fn the_arena_has_room_for_bits_instead_of_values() {
    // Beside the data, which the derivative of the products reads.
    const DATA: usize = ROWS * INNER * 4;
    let small = 8 * WIDTH * 4;
    for (name, model, values, _) in [PAYING[0], PAYING[1], PAYING[2], PAYING[3]] {
        let bytes = crossing(&planned(model, false, 1).0);
        let expected = DATA + values * AS_BITS..DATA + values * AS_BITS + small;
        assert!(expected.contains(&bytes), "{name}: {bytes} bytes");
    }
    let bytes = crossing(&planned(OTHERS[1].1, false, 1).0);
    assert!(bytes >= DATA + WHOLE, "{bytes} bytes");
}

#[test]
fn a_budget_is_kept_with_bits() {
    let graph = step(PAYING[5].1, false);
    let options = Options::default();
    let (floor, free) = (
        floor_bytes(&graph, &options).unwrap(),
        compile(&graph, &options).unwrap().peak_bytes(),
    );
    let mut expected = None;
    for budget in [free, floor.midpoint(free), floor] {
        let options = Options {
            budget: Some(budget),
            ..options
        };
        let (plan, results) = run_once(&graph, &options, &inputs());
        assert!(plan.peak_bytes() <= budget, "{} for {budget}", plan.peak_bytes());
        assert_eq!(*expected.get_or_insert(bits(&results)), bits(&results));
    }
    let below = Options {
        budget: Some(floor - 1),
        ..options
    };
    assert!(compile(&graph, &below).is_err());
}
