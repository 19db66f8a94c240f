//! Corners of plans: empty products, operands that are views or constants, powers, whole numbers, random numbers in
//! operations from outside, recomputation from data.

use std::collections::HashMap;

use lessen_compile::Placement;
use lessen_device::suite::check_plan as check;
use lessen_graph::ops::CrossEntropyBackward;
use lessen_graph::{Array, DType, Graph, Op, Phase, Tensor, Trace, Type, evaluate};

use crate::plans::runner::{Options, compile};
use crate::plans::runner::{bits, run_once};
use crate::random::Random;

const OPTIONS: Options = Options {
    threads: 2,
    placement: Placement::Separate,
    budget: None,
};

/// Runs a graph and compares every result with the reference.
fn agrees(graph: &Graph, inputs: &HashMap<String, Array>) {
    let (plan, found) = run_once(graph, &OPTIONS, inputs);
    check(&plan).unwrap();
    for (name, expected) in evaluate(graph, inputs).unwrap() {
        assert_eq!(found[&name].len(), expected.data.len(), "`{name}`");
        for (i, (&f, &e)) in found[&name].iter().zip(&expected.data).enumerate() {
            let same = f64::from(f) == e || (f64::from(f) - e).abs() <= 1e-5 * e.abs().max(1.0);
            assert!(same, "element {i} of `{name}` is {f}, not {e}");
        }
    }
}

#[test]
fn a_square_has_the_same_bits_in_every_group() {
    let n = 16384;
    let trace = Trace::new();
    let mut random = Random::new(1);
    let mut inputs = HashMap::new();
    {
        let w = trace.state("w", DType::F32, &[n, 2]);
        let b = trace.state("b", DType::F32, &[n]);
        let x = trace.input("x", DType::F32, &[8, 2]);
        for (name, shape) in [("w", vec![n, 2]), ("b", vec![n]), ("x", vec![8, 2])] {
            inputs.insert(name.to_string(), random.array(&shape, 1.0));
        }
        let y = x.matmul_t(w) + b;
        let g = (y * y).sum().grad(&[w, b]);
        trace.in_phase(Phase::Update, || {
            trace.assign(w, w - g[0] * 0.125);
            trace.assign(b, g[1].pow(b.scalar_like(2.0)));
        });
    }
    let graph = trace.finish();
    let go = |placement| bits(&run_once(&graph, &Options { placement, ..OPTIONS }, &inputs).1);
    assert_eq!(go(Placement::Separate), go(Placement::BackwardFused));
}

#[test]
fn products_without_rows_columns_or_stacks_are_empty() {
    let trace = Trace::new();
    let input = |name: &str, shape: &[usize]| trace.input(name, DType::F32, shape);
    let w = input("w", &[4, 3]);
    let none = input("none", &[0, 4]);
    trace.output("no rows", none.matmul(w));
    trace.output("no columns", w.matmul(input("narrow", &[3, 0])));
    let stack = input("stack", &[0, 2, 4]);
    trace.output("no stack", stack.matmul(input("other", &[0, 4, 5])));
    trace.output("no inner", none.transpose(0, 1).matmul(input("low", &[0, 5])));
    let graph = trace.finish();
    let inputs = graph
        .inputs
        .iter()
        .map(|i| (i.name.clone(), Array::full(graph.ty(i.value).clone(), 1.0)))
        .collect();
    agrees(&graph, &inputs);
}

#[test]
fn the_statistics_of_a_cross_entropy_may_be_a_view_or_a_constant() {
    // More than 16 rows, so that a block has several.
    let (n, m, classes) = (40, 8, 4);
    let mut random = Random::new(3);
    let trace = Trace::new();
    let z = trace.input("z", DType::F32, &[n, m, classes]);
    let lse = trace.input("lse", DType::F32, &[m, n]);
    let labels = trace.input("labels", DType::I32, &[n, m]);
    let d = trace.input("d", DType::F32, &[n, m]);
    let op = || CrossEntropyBackward {
        ignore: -100,
        smoothing: 0.0,
    };
    trace.output("view", trace.apply1(op(), &[z, lse.transpose(0, 1), labels, d]));
    let ones = trace.full(DType::F32, &[n, m], 1.0);
    trace.output("constant", trace.apply1(op(), &[z, ones, labels, ones]));
    let inputs = HashMap::from([
        ("z".to_string(), random.array(&[n, m, classes], 1.0)),
        ("lse".to_string(), random.array(&[m, n], 1.0)),
        ("labels".to_string(), random.ids(&[n, m], classes)),
        ("d".to_string(), random.array(&[n, m], 1.0)),
    ]);
    agrees(&trace.finish(), &inputs);
}

#[test]
fn folded_whole_numbers_are_those_of_the_run() {
    let trace = Trace::new();
    let full = |value: f64| trace.full(DType::I32, &[3], value);
    let (large, none) = (full(2e9), full(0.0));
    // The same numbers as data, which nothing folds.
    let data = trace.input("large", DType::I32, &[3]);
    for (name, x) in [("folded", large), ("run", data)] {
        trace.output(&format!("{name} sum"), (x + large).cast(DType::F32));
        trace.output(&format!("{name} quotient"), (x / none).cast(DType::F32));
    }
    let zero = trace.input("zero", DType::F32, &[3]);
    trace.output("sign of zero", (zero + 0.0).recip());
    let graph = trace.finish();
    let inputs = HashMap::from([
        ("large".to_string(), Array::full(Type::new(DType::I32, &[3]), 2e9)),
        ("zero".to_string(), Array::full(Type::f32(&[3]), -0.0)),
    ]);
    agrees(&graph, &inputs);
    let found = run_once(&graph, &OPTIONS, &inputs).1;
    assert_eq!(found["folded sum"], found["run sum"]);
    assert_eq!(found["folded quotient"], [0.0; 3]);
    assert_eq!(found["sign of zero"], [f32::INFINITY; 3]);
}

/// Decomposes into an operation that draws random numbers.
#[derive(PartialEq, Debug)]
struct Noise;

impl Op for Noise {
    fn name(&self) -> &'static str {
        "test.noise"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(vec![inputs[0].clone()])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0].dropout(0.5, inputs[1])])
    }
}

fn noisy() -> (Trace, HashMap<String, Array>) {
    let inputs = HashMap::from([
        ("x".to_string(), Array::full(Type::f32(&[1000]), 1.0)),
        ("key".to_string(), Array::full(Type::new(DType::U32, &[2]), 1.0)),
    ]);
    (Trace::new(), inputs)
}

#[test]
fn random_numbers_inside_an_operation_from_outside_are_its_own() {
    let (trace, inputs) = noisy();
    let x = trace.input("x", DType::F32, &[1000]);
    let key = trace.input("key", DType::U32, &[2]);
    trace.output("dropout", x.dropout(0.5, key));
    trace.output("noise", trace.apply1(Noise, &[x, key]));
    let found = run_once(&trace.finish(), &OPTIONS, &inputs).1;
    assert_ne!(found["dropout"], found["noise"]);
}

#[test]
#[should_panic(expected = "`test.noise` needs a derivative of its own")]
fn a_derivative_through_random_numbers_of_a_decomposition_is_refused() {
    let (trace, _) = noisy();
    let x = trace.input("x", DType::F32, &[1000]);
    let key = trace.input("key", DType::U32, &[2]);
    trace.apply1(Noise, &[x, key]).sum().grad(&[x]);
}

/// Promises four elements and returns more.
#[derive(PartialEq, Debug)]
struct TooMany;

impl Op for TooMany {
    fn name(&self) -> &'static str {
        "test.too_many"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, _: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![Array::full(Type::f32(&[200]), 1.0)]
    }
}

#[test]
#[should_panic(expected = "`test.too_many` must return what its `infer` promises")]
fn an_evaluation_that_breaks_its_promise_writes_nothing() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[4]);
    trace.output("y", trace.apply1(TooMany, &[x]));
    let inputs = HashMap::from([("x".to_string(), Array::full(Type::f32(&[4]), 1.0))]);
    run_once(&trace.finish(), &OPTIONS, &inputs);
}

#[test]
fn nothing_is_recomputed_from_data_that_backward_does_not_read() {
    let (n, c) = (8192, 256);
    let trace = Trace::new();
    let w = trace.state("w", DType::F32, &[64]);
    let x = trace.input("x", DType::F32, &[n, c]);
    // Computing `s` again would keep all of `x` alive, which nobody else reads in backward.
    let s = x.sum_axes(&[1]).tanh();
    let h = s.reshape(&[n, 1]) * w;
    let loss = (h * h).sum();
    trace.output("loss", loss);
    let g = loss.grad(&[w])[0];
    trace.in_phase(Phase::Update, || trace.assign(w, w - g * 0.125));
    let plan = compile(&trace.finish(), &OPTIONS).unwrap();
    let x = plan.graph().inputs.iter().find(|i| i.name == "x").unwrap().value;
    let nodes = |s: usize| plan.steps()[s].nodes.iter().map(|id| &plan.graph().nodes[id.index()]);
    let last = plan.lifetime(x).unwrap().1;
    assert!(nodes(last).any(|n| n.inputs.contains(&x)));
    assert!(nodes(last).all(|n| n.phase == Phase::Forward));
}
