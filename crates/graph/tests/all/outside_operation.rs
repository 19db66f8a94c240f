//! An operation from outside, with a modified derivative, written with no more than the trait: `max(x, 0)` whose
//! derivative is that of `max(x + shift, 0)`.

use std::sync::Arc;

use lessen_graph::{Array, Attr, Attrs, Build, Op, Registry, Tensor, Trace, Type, Vjp, evaluate_op, parse, print};

use crate::check::{function, run};

#[derive(PartialEq, Debug)]
struct ShiftedRelu {
    shift: f64,
}

impl Op for ShiftedRelu {
    fn name(&self) -> &'static str {
        "shifted_relu"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("shift", Attr::Float(self.shift))
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0].relu()])
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let x = cx.inputs[0];
        let open = x.gt(x.scalar_like(-self.shift));
        vec![cx.cotangents[0].map(|dy| open.select(dy, dy.scalar_like(0.0)))]
    }
}

fn sample() -> Array {
    Array::f32(&[4], vec![-1.0, -0.3, 0.0, 2.0])
}

#[test]
fn its_evaluation_is_that_of_its_decomposition() {
    let y = evaluate_op(&ShiftedRelu { shift: 0.5 }, &[&sample()]).unwrap();
    assert_eq!(y[0].data, [0.0, 0.0, 0.0, 2.0]);
}

#[test]
fn its_derivative_is_its_own() {
    let gradient = function(|trace, x| {
        let y = trace.apply1(ShiftedRelu { shift: 0.5 }, x);
        (y * 3.0).sum().grad(x)
    });
    assert_eq!(run(&[sample()], &gradient)[0].data, [0.0, 3.0, 3.0, 3.0]);
}

/// The same function without a derivative of its own gets that of the decomposition.
#[derive(PartialEq, Debug)]
struct Plain;

impl Op for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(vec![inputs[0].clone()])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0] * inputs[1]])
    }
}

#[test]
fn a_derivative_through_the_decomposition_keeps_equal_inputs_apart() {
    let gradient = function(|trace, x| {
        let square = trace.apply1(Plain, &[x[0], x[0]]);
        let first = square.sum().grad(x)[0];
        vec![first, first.sum().grad(x)[0]]
    });
    let found = run(&[sample()], &gradient);
    assert_eq!(found[0].data, [-2.0, -0.6, 0.0, 4.0]);
    assert_eq!(found[1].data, [2.0; 4]);
}

#[test]
fn its_text_parses_when_it_is_registered() {
    let trace = Trace::new();
    let x = trace.input("x", lessen_graph::DType::F32, &[4]);
    trace.output("y", trace.apply1(ShiftedRelu { shift: 0.5 }, &[x]));
    let text = print(&trace.finish());
    assert!(text.contains("%1 = shifted_relu(%0) {shift=0.5} : f32[4]"), "{text}");
    let error = parse(&text, &Registry::standard()).unwrap_err();
    assert_eq!(error.message(), "line 2: there is no operation `shifted_relu`");
    let mut registry = Registry::standard();
    let build: Build = |a| {
        Ok(Arc::new(ShiftedRelu {
            shift: a.float("shift")?,
        }))
    };
    registry.register("shifted_relu", build).unwrap();
    assert_eq!(print(&parse(&text, &registry).unwrap()), text);
}
