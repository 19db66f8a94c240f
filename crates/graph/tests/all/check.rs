//! Comparisons of arrays, and of gradients with central differences.

use std::collections::HashMap;

use lessen_graph::{Array, Tensor, Trace, TraceRef, evaluate_exactly, verify};

/// A function of tensors, for any trace.
pub trait Function: Fn(TraceRef, &[Tensor]) -> Vec<Tensor> {}

impl<F: Fn(TraceRef, &[Tensor]) -> Vec<Tensor>> Function for F {}

/// Tells the compiler that a closure is a function for any trace.
pub fn function<F: Fn(TraceRef, &[Tensor]) -> Vec<Tensor>>(f: F) -> F {
    f
}

/// Traces a function, verifies the graph and evaluates it in real arithmetic.
pub fn run(inputs: &[Array], traced: &impl Function) -> Vec<Array> {
    let trace = Trace::new();
    let count = {
        let tensors: Vec<Tensor> = inputs
            .iter()
            .enumerate()
            .map(|(i, a)| trace.input(&format!("x{i}"), a.ty.dtype, &a.ty.shape))
            .collect();
        let outputs = traced(*trace, &tensors);
        outputs
            .iter()
            .enumerate()
            .for_each(|(i, y)| trace.output(&format!("y{i}"), *y));
        outputs.len()
    };
    let graph = trace.finish();
    verify(&graph).unwrap();
    let named: HashMap<String, Array> = inputs
        .iter()
        .enumerate()
        .map(|(i, a)| (format!("x{i}"), a.clone()))
        .collect();
    let mut results = evaluate_exactly(&graph, &named).unwrap();
    (0..count).map(|i| results.remove(&format!("y{i}")).unwrap()).collect()
}

/// Asserts that two arrays have the same type and nearly the same elements, NaN and infinities included.
#[track_caller]
pub fn assert_near(what: &str, a: &Array, b: &Array, tolerance: f64) {
    assert_eq!(a.ty, b.ty, "{what}");
    for (i, (x, y)) in a.data.iter().zip(&b.data).enumerate() {
        let near = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * (1.0 + x.abs().max(y.abs()));
        assert!(near, "{what}: element {i} of {}: {x} and {y}", a.ty);
    }
}

/// The positions of float inputs.
pub fn floats(inputs: &[Array]) -> Vec<usize> {
    (0..inputs.len()).filter(|&i| inputs[i].ty.dtype.is_float()).collect()
}

/// Asserts that the gradients of a scalar function agree with central differences, for every float input.
#[track_caller]
pub fn check_gradient(what: &str, inputs: &[Array], loss: &impl Function) {
    let wrt = floats(inputs);
    let gradients = run(inputs, &function(|trace, x| gradient_of(trace, x, &wrt, loss)));
    let step = 1e-5;
    for (gradient, &i) in gradients.iter().zip(&wrt) {
        for e in 0..inputs[i].data.len() {
            let at = |shift: f64| {
                let mut moved = inputs.to_vec();
                moved[i].data[e] += shift;
                run(&moved, loss)[0].item()
            };
            let difference = (at(step) - at(-step)) / (2.0 * step);
            let found = gradient.data[e];
            let near = (found - difference).abs() <= 2e-7 * (1.0 + difference.abs());
            assert!(
                near,
                "{what}: input {i}, element {e}: the derivative is {found}, the difference {difference}"
            );
        }
    }
}

fn gradient_of(trace: TraceRef, x: &[Tensor], wrt: &[usize], loss: &impl Function) -> Vec<Tensor> {
    let chosen: Vec<Tensor> = wrt.iter().map(|&i| x[i]).collect();
    loss(trace, x)[0].grad(&chosen)
}
