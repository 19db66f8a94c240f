//! Levels of fake quantization, and its derivative, which differences of its value cannot check.

use std::collections::HashMap;

use lessen_graph::ops::FakeQuantize;
use lessen_graph::{Array, DType, Op, Trace, Type, evaluate, vjp};

const F64: DType = DType::F64;

/// Value and cotangents of `x`, scale and zero, if there is one, for the cotangent `dy`.
fn value_and_cotangents(op: FakeQuantize, inputs: &[Array], dy: &[f64]) -> Vec<Vec<f64>> {
    let trace = Trace::new();
    let names = ["x", "scale", "zero"];
    let declared = names.iter().zip(inputs);
    let tensors: Vec<_> = declared
        .map(|(name, array)| trace.input(name, F64, &array.ty.shape))
        .collect();
    let y = tensors[0].fake_quantize(op, tensors[1], tensors.get(2).copied());
    let cotangent = trace.input("dy", F64, &y.shape());
    trace.output("y", y);
    let found = vjp(&[y], &[Some(cotangent)], &tensors);
    let outputs: Vec<String> = names.iter().map(|name| format!("d{name}")).collect();
    for (name, found) in outputs.iter().zip(found) {
        trace.output(&format!("{name} of"), found.expect("an input with influence"));
    }
    let named = names
        .iter()
        .zip(inputs)
        .map(|(name, array)| (name.to_string(), array.clone()));
    let mut given: HashMap<String, Array> = named.collect();
    given.insert("dy".to_string(), Array::new(y.ty(), dy.to_vec()));
    let mut results = trace
        .with_graph(|graph| evaluate(graph, &given))
        .expect("inputs are given");
    let mut data = |name: &str| results.remove(name).expect("an output").data;
    let mut all = vec![data("y")];
    all.extend(outputs[..inputs.len()].iter().map(|name| data(&format!("{name} of"))));
    all
}

fn array(shape: &[usize], data: &[f64]) -> Array {
    Array::new(Type::new(F64, shape), data.to_vec())
}

#[test]
fn levels_are_those_of_the_bits() {
    let levels = |op: FakeQuantize| (op.low, op.high);
    let symmetric = [2, 3, 4, 8].map(|bits| levels(FakeQuantize::symmetric(bits, 0)));
    assert_eq!(symmetric, [(-1, 1), (-3, 3), (-7, 7), (-127, 127)]);
    let unsigned = [2, 3, 4, 8].map(|bits| levels(FakeQuantize::unsigned(bits, 0)));
    assert_eq!(unsigned, [(0, 3), (0, 7), (0, 15), (0, 255)]);
}

#[test]
fn gradients_pass_within_the_range_and_the_step_learns() {
    let x = [-2.0, -0.875, -0.3, 0.125, 0.375, 0.874, 0.876, f64::INFINITY];
    let dy = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let op = FakeQuantize::symmetric(3, 0);
    let found = value_and_cotangents(op, &[array(&[8], &x), array(&[], &[0.25])], &dy);
    // Of two levels that are as near, the even one; -3.5 and 3.504 are beyond the last level.
    assert_eq!(found[0], [-0.75, -0.75, -0.25, 0.0, 0.5, 0.75, 0.75, 0.75]);
    assert_eq!(found[1], [0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0]);
    let within = [(-1.0, -1.2, 3.0), (0.0, 0.5, 4.0), (2.0, 1.5, 5.0), (3.0, 3.496, 6.0)];
    let learned: f64 = within.iter().map(|(level, part, dy)| (level - part) * dy).sum();
    let beyond = -3.0 - 3.0 * 2.0 + 3.0 * 7.0 + 3.0 * 8.0;
    assert!((found[2][0] - (learned + beyond)).abs() < 1e-12, "{found:?}");
}

#[test]
fn a_learned_clip_has_the_derivative_one_beyond_it() {
    let trace = Trace::new();
    let (x, clip) = (trace.input("x", F64, &[3]), trace.input("clip", F64, &[]));
    let y = x.fake_quantize(FakeQuantize::unsigned(4, 0), clip / 15.0, None);
    trace.output("dclip", y.sum().grad(&[clip])[0]);
    let given = HashMap::from([
        ("x".to_string(), array(&[3], &[-1.0, 7.0, 90.0])),
        ("clip".to_string(), array(&[], &[6.0])),
    ]);
    let found = trace.with_graph(|graph| evaluate(graph, &given)).unwrap();
    assert!((found["dclip"].item() - 2.0).abs() < 1e-12, "{found:?}");
}

#[test]
fn a_zero_moves_the_range() {
    // The codes 0 to 3 with the zero 1 stand for -1, 0, 1 and 2; 1.4 is rounded to the zero 1.
    let x = array(&[5], &[-3.0, -1.2, 0.3, 2.4, 2.6]);
    let dy = [1.0, 2.0, 4.0, 8.0, 16.0];
    let op = FakeQuantize::unsigned(2, 0);
    let found = value_and_cotangents(op, &[x, array(&[], &[1.0]), array(&[], &[1.4])], &dy);
    assert_eq!(found[0], [-1.0, -1.0, 0.0, 2.0, 2.0]);
    assert_eq!(found[1], [0.0, 2.0, 4.0, 8.0, 0.0]);
    let scale = -1.0 + 2.0 * 0.2 - 4.0 * 0.3 - 8.0 * 0.4 + 16.0 * 2.0;
    assert!((found[2][0] - scale).abs() < 1e-12, "{found:?}");
    assert_eq!(found[3], [-17.0]);
}

#[test]
fn each_channel_has_its_scale() {
    let x = array(&[2, 3], &[0.4, 0.6, -9.0, 0.4, 0.6, -9.0]);
    let dy = [1.0; 6];
    for (axis, scale, y, dx, dscale) in [
        (
            0,
            vec![1.0, 2.0],
            [0.0, 1.0, -7.0, 0.0, 0.0, -8.0],
            [1.0, 1.0, 0.0, 1.0, 1.0, 1.0],
            vec![-7.0, 0.0],
        ),
        (
            1,
            vec![0.2, 1.0, 3.0],
            [0.4, 1.0, -9.0, 0.4, 1.0, -9.0],
            [1.0; 6],
            vec![0.0, 0.8, 0.0],
        ),
    ] {
        let op = FakeQuantize::symmetric(4, axis);
        let found = value_and_cotangents(op, &[x.clone(), array(&[scale.len()], &scale)], &dy);
        let near = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(&found[0], &y) && near(&found[1], &dx), "axis {axis}: {found:?}");
        assert!(near(&found[2], &dscale), "axis {axis}: {found:?}");
    }
}

#[test]
fn no_gradient_passes_a_stop() {
    let trace = Trace::new();
    let x = trace.input("x", F64, &[2]);
    trace.output("dx", (x * x.stop_gradient()).sum().grad(&[x])[0]);
    let given = HashMap::from([("x".to_string(), array(&[2], &[3.0, -5.0]))]);
    let found = trace.with_graph(|graph| evaluate(graph, &given)).unwrap();
    assert_eq!(found["dx"].data, [3.0, -5.0]);
}

#[test]
fn codes_and_scales_that_do_not_fit_are_refused() {
    let ty = |shape: &[usize]| Type::f32(shape);
    let refused = |op: FakeQuantize, inputs: &[Type]| op.infer(inputs).unwrap_err().to_string();
    let codes = |low, high| FakeQuantize { low, high, axis: 0 };
    for (low, high) in [(0, 1), (-129, 0), (1, 256), (-128, 128), (3, 3), (i64::MIN, i64::MAX)] {
        let sentence = refused(codes(low, high), &[ty(&[3]), ty(&[])]);
        assert_eq!(
            sentence,
            format!("codes from {low} to {high} are not those of 2 to 8 bits, within -128 and 255")
        );
    }
    let along = |axis| FakeQuantize::symmetric(8, axis);
    assert_eq!(
        refused(along(1), &[ty(&[2, 3]), ty(&[2])]),
        "scale and zero of f32[2,3] must be f32[], or f32[3] for axis 1, not f32[2]"
    );
    assert_eq!(
        refused(along(2), &[ty(&[2, 3]), ty(&[3])]),
        "f32[2,3] has no axis 2 for scales"
    );
    assert_eq!(
        refused(along(1), &[ty(&[2, 3]), ty(&[])]),
        "one scale for all has no axis 1; it is 0"
    );
    assert_eq!(
        refused(along(0), &[Type::new(DType::BF16, &[2]), ty(&[])]),
        "needs f32 or f64, not bf16[2]"
    );
    assert!(refused(along(0), &[ty(&[2])]).contains("needs 2 inputs"));
}
