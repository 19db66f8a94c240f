//! The specification of HeLU's modified derivative, which differences of its value cannot check.

use std::collections::HashMap;

use lessen_graph::{Array, DType, Tensor, Trace, evaluate, vjp};

const X: [f64; 8] = [-2.0, -0.25, -0.2, -0.0, 0.0, 0.1, 3.0, f64::NAN];
const DY: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];

/// Value and gradient of an activation at `X` for the cotangent `DY`.
fn value_and_gradient(activation: impl Fn(Tensor) -> Tensor) -> (Vec<f64>, Vec<f64>) {
    let trace = Trace::new();
    let x = trace.input("x", DType::F64, &[X.len()]);
    let dy = trace.input("dy", DType::F64, &[X.len()]);
    let y = activation(x);
    trace.output("y", y);
    let dx = vjp(&[y], &[Some(dy)], &[x])[0].expect("x has influence");
    trace.output("dx", dx);
    let array = |data: &[f64]| Array::new(x.ty(), data.to_vec());
    let inputs = HashMap::from([("x".to_string(), array(&X)), ("dy".to_string(), array(&DY))]);
    let mut found = trace
        .with_graph(|graph| evaluate(graph, &inputs))
        .expect("inputs are given");
    let mut data = |name: &str| found.remove(name).expect("an output").data;
    (data("y"), data("dx"))
}

#[test]
fn gradients_pass_where_the_input_is_above_minus_alpha() {
    let (y, dx) = value_and_gradient(|x| x.helu(0.25));
    assert_eq!(y[..7], [0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 3.0]);
    assert!(y[7].is_nan());
    assert_eq!(dx, [0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]);
}

#[test]
fn alpha_zero_is_relu() {
    let ((y, dx), (relu, drelu)) = (value_and_gradient(|x| x.helu(0.0)), value_and_gradient(|x| x.relu()));
    assert_eq!(y[..7], relu[..7]);
    assert_eq!(dx, drelu);
}
