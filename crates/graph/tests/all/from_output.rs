//! Rules of inversion: the results of backward from the output of a forward operation agree with the results from its
//! input, in real arithmetic.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lessen_graph::ops::*;
use lessen_graph::{
    Array, DType, FromOutput, Graph, Node, Op, Operand, Tensor, Trace, TraceRef, Type, evaluate_exactly, evaluate_op,
    vjp,
};

use crate::cases::{self, Case, Smooth, case};
use crate::check::{assert_near, function, run};
use crate::prng::Prng;

/// The derivatives from outputs.
pub fn cases(r: &mut Prng) -> Vec<Case> {
    let (y, side, dy) = (r.floats(&[3, 5], -0.2, 2.0), r.bools(&[3, 5]), r.normal(&[3, 5]));
    let of_gelu = |tanh| case(GeluBackwardFromOutput { tanh }, &[&y, &side, &dy], Smooth::No);
    let of_silu = case(SiluBackwardFromOutput, &[&y, &side, &dy], Smooth::No);
    let mut all = vec![of_gelu(false), of_gelu(true), of_silu];
    let (y, dy, beta) = (r.normal(&[2, 2, 5]), r.normal(&[2, 2, 5]), r.normal(&[5]));
    let (gamma, rstd) = (r.floats(&[5], 0.7, 1.5), r.floats(&[2, 2], 0.5, 2.0));
    all.push(case(
        LayerNormBackwardFromOutput,
        &[&y, &gamma, &beta, &rstd, &dy],
        Smooth::Twice,
    ));
    all.push(case(
        RmsNormBackwardFromOutput,
        &[&y, &gamma, &rstd, &dy],
        Smooth::Twice,
    ));
    for shape in [&[5, 3][..], &[2, 1, 4], &[2, 3, 1], &[1, 2, 3, 2]] {
        let (y, dy, scale) = (
            r.normal(shape),
            r.normal(shape),
            r.floats(&shape[shape.len() - 1..], 0.7, 1.5),
        );
        let [shift, by, plus] = [(); 3].map(|()| r.normal(&scale.ty.shape));
        all.push(case(
            ScaleShiftFromOutput,
            &[&y, &scale, &shift, &by, &plus],
            Smooth::Twice,
        ));
        all.push(case(
            ScaleShiftSumsFromOutput,
            &[&y, &scale, &shift, &dy],
            Smooth::Twice,
        ));
    }
    all
}

fn types(arrays: &[Array]) -> Vec<Type> {
    arrays.iter().map(|a| a.ty.clone()).collect()
}

fn evaluated(op: &Arc<dyn Op>, inputs: &[Array]) -> Vec<Array> {
    evaluate_op(&**op, &inputs.iter().collect::<Vec<_>>()).unwrap()
}

/// The forward operation of a rule on inputs of the cases, the first one of this type.
fn forward_case<'a>(all: &'a [Case], op: &dyn Op, first: &Type) -> &'a Case {
    let fits = |case: &&Case| case.op.same(op) && case.inputs[0].ty == *first;
    all.iter()
        .find(fits)
        .unwrap_or_else(|| panic!("no case of {op:?} on {first}"))
}

/// The outputs of a backward operation, and the outputs of the operation that its rule puts in its place, where inputs
/// of both are the forward operation's.
fn both_ways(rule: &FromOutput, backward: &Case, forward: &Case) -> (Vec<Array>, Vec<Array>) {
    let outputs = evaluated(&forward.op, &forward.inputs);
    let mut own = backward.inputs.clone();
    own[rule.input] = forward.inputs[0].clone();
    for (input, operand) in &rule.same {
        own[*input] = match operand {
            Operand::ForwardInput(i) => forward.inputs[*i].clone(),
            Operand::ForwardOutput(i) => outputs[*i].clone(),
            other => panic!("{other:?} is no operand of the forward operation"),
        };
    }
    let side = rule
        .side
        .as_ref()
        .map(|side| evaluated(side, &forward.inputs[..1]).remove(0));
    let operand = |operand: &Operand| match operand {
        Operand::Own(i) => {
            assert_ne!(*i, rule.input, "the input that is not there");
            own[*i].clone()
        }
        Operand::ForwardInput(i) => {
            assert_ne!(*i, 0, "the value that is not there");
            forward.inputs[*i].clone()
        }
        Operand::ForwardOutput(i) => outputs[*i].clone(),
        Operand::Side => side.clone().expect("a rule with a side"),
    };
    let operands: Vec<Array> = rule.operands.iter().map(operand).collect();
    (evaluated(&backward.op, &own), evaluated(&rule.op, &operands))
}

#[test]
fn backward_operations_follow_from_outputs() {
    let mut checked = BTreeSet::new();
    for seed in 40..60 {
        let all = cases::cases(seed);
        for case in &all {
            let Some(rule) = case.op.from_output(&types(&case.inputs)) else {
                continue;
            };
            let forward = forward_case(&all, &*rule.forward, &case.inputs[rule.input].ty);
            let (expected, found) = both_ways(&rule, case, forward);
            assert_eq!(expected.len(), found.len());
            for (a, b) in expected.iter().zip(&found) {
                // A scale may be as small as 1e-3 here, which magnifies the rounding of f64.
                assert_near(&format!("seed {seed}, {:?}", case.op), a, b, 1e-9);
            }
            assert!(rule.error > 0.0 && rule.error < 2e-4, "{rule:?}");
            checked.insert(case.op.name());
        }
    }
    let expected = [
        "gelu_backward",
        "layer_norm_backward",
        "rms_norm_backward",
        "scale_shift",
        "scale_shift_sums",
        "silu_backward",
    ];
    assert!(checked.iter().eq(expected.iter()), "{checked:?}");
}

/// A graph with the forward nodes of a function of `x`, followed by the nodes of the gradient for `x`.
fn differentiated(f: impl Fn(TraceRef, Tensor) -> Tensor) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 4]);
    let dx = f(*trace, x).sum().grad(&[x])[0];
    trace.output("dx", dx);
    trace.finish()
}

/// For each backward operation of this name the forward nodes that its rule fits.
fn fitting(graph: &Graph, name: &str) -> Vec<Vec<usize>> {
    let named = graph
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.op.name() == name);
    named
        .map(|(at, backward)| {
            let rule = backward.op.from_output(&graph.input_types(backward)).unwrap();
            let fits = |node: &&Node| rule.fits(backward, node);
            let forward = graph.nodes[..at].iter().enumerate();
            forward.filter(|(_, node)| fits(node)).map(|(i, _)| i).collect()
        })
        .collect()
}

#[test]
fn a_rule_fits_the_forward_operation_that_was_differentiated() {
    let both = differentiated(|_, x| x.gelu() + x.gelu_tanh());
    assert_eq!(both.nodes[0].op.name(), "gelu");
    let mut found = fitting(&both, "gelu_backward");
    found.sort();
    assert_eq!(found, [[0], [1]]);

    // Two norms of one value, as in blocks whose branches are parallel.
    let norms = differentiated(|trace, x| {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| trace.state(name, DType::F32, &[4]));
        let first = x.layer_norm(a, b, 1e-5);
        first * x.layer_norm(c, d, 1e-5) * x.rms_norm(a, 1e-5) * x.rms_norm(c, 1e-5)
    });
    let names: Vec<&str> = norms.nodes.iter().map(|node| node.op.name()).collect();
    for (forward, backward) in [("layer_norm", "layer_norm_backward"), ("rms_norm", "rms_norm_backward")] {
        let mut found = fitting(&norms, backward);
        found.sort();
        let expected: Vec<Vec<usize>> = (0..names.len())
            .filter(|&i| names[i] == forward)
            .map(|i| vec![i])
            .collect();
        assert_eq!(expected.len(), 2);
        assert_eq!(found, expected, "{backward}");
    }
}

#[test]
fn bf16_has_no_rule() {
    let x = Type::new(DType::BF16, &[2, 4]);
    let (row, rows) = (Type::new(DType::BF16, &[4]), Type::f32(&[2]));
    let gelu = GeluBackward { tanh: false };
    assert!(Op::from_output(&gelu, &[x.clone(), x.clone()]).is_none());
    let norm = LayerNormBackward { eps: 1e-5 };
    let inputs = [x.clone(), row, rows.clone(), rows, x.clone()];
    assert!(norm.from_output(&inputs).is_none());
    // Of a narrow x there is nothing to gain.
    let wide = Type::f32(&[4]);
    let sums = ScaleShiftSums.from_output(&[x, wide.clone(), Type::f32(&[2, 4])]);
    assert!(sums.is_none());
}

#[test]
fn derivatives_of_functions_with_a_kink_read_the_output_alone() {
    type Function = fn(Tensor) -> Tensor;
    let functions: [Function; 4] = [
        |x| x.relu(),
        |x| x.leaky_relu(0.1),
        |x| x.elu(1.0),
        |x| x.clamp(-0.5, 0.5),
    ];
    for f in functions {
        let graph = differentiated(|_, x| f(x));
        let x = graph.inputs[0].value;
        let readers: Vec<&str> = graph
            .nodes
            .iter()
            .filter(|node| node.inputs.contains(&x))
            .map(|n| n.op.name())
            .collect();
        assert_eq!(readers, [graph.nodes[0].op.name()]);
    }
}

/// The derivative from `y` and the side for the cotangent 1.
fn slope(op: &Arc<dyn Op>, y: f64, right: bool) -> f64 {
    let of = |dtype, value| Array::full(Type::new(dtype, &[1]), value);
    let inputs = [
        of(DType::F32, y),
        of(DType::Bool, f64::from(right)),
        of(DType::F32, 1.0),
    ];
    evaluated(op, &inputs)[0].item()
}

#[test]
fn the_ends_of_activations() {
    let ops: [Arc<dyn Op>; 3] = [
        Arc::new(GeluBackwardFromOutput { tanh: false }),
        Arc::new(GeluBackwardFromOutput { tanh: true }),
        Arc::new(SiluBackwardFromOutput),
    ];
    for op in &ops {
        for right in [false, true] {
            assert!(slope(op, f64::NAN, right).is_nan(), "{op:?}");
            assert_eq!(slope(op, f64::INFINITY, right), 1.0, "{op:?}");
            assert!((slope(op, 3e38, right) - 1.0).abs() < 1e-12, "{op:?}");
            assert_eq!(slope(op, -0.3, right), 0.0, "{op:?}: below the minimum");
        }
        for zero in [0.0, -0.0] {
            assert_eq!(slope(op, zero, false), 0.0, "{op:?}: at minus infinity");
            assert!((slope(op, zero, true) - 0.5).abs() < 1e-12, "{op:?}: at 0");
        }
        assert!(slope(op, -1e-300, false).abs() < 1e-12, "{op:?}");
        assert!(slope(op, -0.1, false) < -0.05 && slope(op, -0.1, true) > 0.05, "{op:?}");
    }
}

#[test]
fn minima_are_where_derivatives_are_zero() {
    for tanh in [false, true] {
        let argmin = GeluBackwardFromOutput { tanh }.argmin();
        let slope = |x: f64| lessen_graph::Elementwise::element(&GeluBackward { tanh }, &[x, 1.0]);
        assert!(slope(argmin - 1e-15) < 0.0 && slope(argmin + 1e-15) > 0.0, "{tanh}");
    }
    let slope = |x: f64| lessen_graph::Elementwise::element(&SiluBackward, &[x, 1.0]);
    let argmin = SiluBackwardFromOutput::ARGMIN;
    assert!(slope(argmin - 1e-15) < 0.0 && slope(argmin + 1e-15) > 0.0);
}

#[test]
fn what_replaces_a_derivative_is_linear_in_the_cotangent_and_has_no_other_derivative() {
    let inputs = [
        Array::f32(&[2], vec![-0.1, 0.7]),
        Array::new(Type::new(DType::Bool, &[2]), vec![0.0, 1.0]),
        Array::f32(&[2], vec![1.0, 1.0]),
    ];
    let traced = function(|trace, x| {
        let dx = trace.apply1(GeluBackwardFromOutput { tanh: false }, x);
        vec![dx, vjp(&[dx], &[Some(x[2])], &[x[2]])[0].unwrap()]
    });
    let found = run(&inputs, &traced);
    assert_eq!(found[0], found[1]);

    let trace = Trace::new();
    let y = trace.input("y", DType::F32, &[2]);
    let side = trace.input("side", DType::Bool, &[2]);
    for op in [
        Arc::new(GeluBackwardFromOutput { tanh: true }) as Arc<dyn Op>,
        Arc::new(SiluBackwardFromOutput),
    ] {
        let name = op.name().trim_end_matches("_from_output");
        let dx = trace.apply_shared(op.clone(), &[y, side, y])[0];
        let panic = catch_unwind(AssertUnwindSafe(|| dx.sum().grad(&[y]))).unwrap_err();
        let sentence = format!("{name}_from_output has no derivative for its input y; differentiate {name} instead");
        assert_eq!(*panic.downcast::<String>().unwrap(), sentence);
    }
}

/// Batch normalization, written as layers write it: its input is read in backward by the two operations that have rules
/// alone, and the gradients follow from its output.
#[test]
fn batch_normalization_follows_from_its_output() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[6, 3]);
    let [weight, bias] = ["weight", "bias"].map(|name| trace.state(name, DType::F32, &[3]));
    let dy = trace.input("dy", DType::F32, &[6, 3]);
    let [mean, variance] = x.moments();
    let scale = weight * (variance + 1e-5).rsqrt();
    let y = x.scale_shift(mean, scale, bias);
    let gradients = trace.in_phase(lessen_graph::Phase::Backward, || {
        vjp(&[y], &[Some(dy)], &[x, weight, bias])
    });
    for (i, gradient) in gradients.into_iter().enumerate() {
        trace.output(&i.to_string(), gradient.unwrap());
    }
    let mut graph = trace.finish();
    let mut r = Prng::new(43);
    let named = |name: &str, array| (name.to_string(), array);
    let inputs = HashMap::from([
        named("x", r.normal(&[6, 3])),
        named("weight", r.signed(&[3])),
        named("bias", r.normal(&[3])),
        named("dy", r.normal(&[6, 3])),
    ]);
    let expected = evaluate_exactly(&graph, &inputs).unwrap();
    let x = graph.inputs[0].value;
    let forward = graph
        .nodes
        .iter()
        .find(|node| node.op.is::<ScaleShift>())
        .unwrap()
        .clone();
    let mut replaced = Vec::new();
    for i in 0..graph.nodes.len() {
        let node = graph.nodes[i].clone();
        if node.phase == lessen_graph::Phase::Backward && node.inputs.contains(&x) {
            let rule = node.op.from_output(&graph.input_types(&node)).unwrap();
            assert!(rule.fits(&node, &forward), "{node:?}");
            let value = |operand: &Operand| operand.value(&node, &forward).unwrap();
            graph.nodes[i].inputs = rule.operands.iter().map(value).collect();
            graph.nodes[i].op = rule.op;
            replaced.push(node.op.name());
        }
    }
    assert_eq!(replaced, ["scale_shift_sums", "scale_shift"]);
    let found = evaluate_exactly(&graph, &inputs).unwrap();
    for (name, array) in &expected {
        assert_near(name, array, &found[name], 1e-12);
    }
}
