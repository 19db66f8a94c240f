//! Derivative rules of first and second order against central differences in `f64`, and against the
//! decomposition.

use lessen_graph::{Array, AttentionOptions, DType, Tensor, TraceRef, attention, vjp};

use crate::cases::{Case, Smooth, cases};
use crate::check::{Function, assert_near, check_gradient, floats, function, run};
use crate::prng::Prng;

/// The sum of `w y + y^2 / 2` over the elements of the outputs `chosen`, with random weights `w`.
fn loss_of(case: &Case, chosen: &[usize], seed: u64) -> impl Function {
    function(move |trace, x| {
        let outputs = trace.apply_shared(case.op.clone(), x);
        let mut r = Prng::new(seed);
        let terms = chosen.iter().map(|&i| {
            let y = outputs[i];
            let w = trace.constant(r.normal(&y.shape())).cast(y.dtype());
            (y * w + y * y * 0.5).sum().cast(DType::F64)
        });
        vec![terms.reduce(|a, b| a + b).unwrap()]
    })
}

#[test]
fn first_derivatives_agree_with_differences() {
    for seed in [1, 2] {
        for case in cases(seed).iter().filter(|c| c.smooth != Smooth::No) {
            for chosen in &case.outputs {
                let what = format!("seed {seed}, {:?}, outputs {chosen:?}", case.op);
                check_gradient(&what, &case.inputs, &loss_of(case, chosen, seed));
            }
        }
    }
}

#[test]
fn second_derivatives_agree_with_differences_of_first_ones() {
    let seed = 3;
    for case in cases(seed).iter().filter(|c| c.smooth == Smooth::Twice) {
        let wrt = floats(&case.inputs);
        for chosen in &case.outputs {
            let loss = loss_of(case, chosen, seed);
            let along = function(|trace, x| directional(trace, x, &wrt, &loss, seed));
            check_gradient(
                &format!("seed {seed}, {:?}, outputs {chosen:?}", case.op),
                &case.inputs,
                &along,
            );
        }
    }
}

/// The derivative of a scalar function along a random direction.
fn directional(trace: TraceRef, x: &[Tensor], wrt: &[usize], loss: &impl Function, seed: u64) -> Vec<Tensor> {
    let mut r = Prng::new(seed + 100);
    let chosen: Vec<Tensor> = wrt.iter().map(|&i| x[i]).collect();
    let gradients = loss(trace, x)[0].grad(&chosen);
    let terms = gradients
        .into_iter()
        .map(|g| (g * trace.constant(r.normal(&g.shape()))).sum());
    vec![terms.reduce(|a, b| a + b).unwrap()]
}

#[test]
fn rules_agree_with_the_derivatives_of_decompositions() {
    let seed = 4;
    for case in cases(seed).iter().filter(|c| c.smooth != Smooth::No) {
        let wrt = floats(&case.inputs);
        for chosen in &case.outputs {
            let both = function(|trace, x| both_ways(case, trace, x, &wrt, chosen));
            let found = run(&case.inputs, &both);
            let (by_rule, by_decomposition) = found.split_at(found.len() / 2);
            for (a, b) in by_rule.iter().zip(by_decomposition) {
                assert_near(&format!("seed {seed}, {:?}, outputs {chosen:?}", case.op), a, b, 1e-12);
            }
        }
    }
}

/// The cotangents of the inputs by the operation's rule, then by its decomposition; nothing if it has none.
fn both_ways(case: &Case, trace: TraceRef, x: &[Tensor], wrt: &[usize], chosen: &[usize]) -> Vec<Tensor> {
    let Some(simple) = case.op.decompose(x) else {
        return vec![];
    };
    let outputs = trace.apply_shared(case.op.clone(), x);
    let mut r = Prng::new(5);
    let cotangents: Vec<Option<Tensor>> = (0..outputs.len())
        .map(|i| {
            chosen
                .contains(&i)
                .then(|| trace.constant(r.normal(&outputs[i].shape())).cast(outputs[i].dtype()))
        })
        .collect();
    let floats: Vec<Tensor> = wrt.iter().map(|&i| x[i]).collect();
    let by_rule = vjp(&outputs, &cotangents, &floats);
    let by_decomposition = vjp(&simple, &cotangents, &floats);
    let filled = |found: Option<Tensor>, x: Tensor| found.unwrap_or_else(|| x.full_like(0.0));
    let all = by_rule.into_iter().chain(by_decomposition);
    all.zip(floats.iter().cycle())
        .map(|(found, x)| filled(found, *x))
        .collect()
}

#[test]
fn broadcast_operands_get_summed_gradients() {
    let mut r = Prng::new(6);
    let inputs = [r.signed(&[2, 1, 3]), r.signed(&[4, 1]), r.signed(&[]), r.bools(&[4, 3])];
    let loss = function(|_, x| vec![(x[3].select(x[0] * x[1], x[1] / x[2]) * x[0] - x[2]).tanh().sum()]);
    check_gradient("broadcast", &inputs, &loss);
}

#[test]
fn gradients_of_repeated_and_unused_tensors() {
    let inputs = [Array::f32(&[2], vec![2.0, 3.0]), Array::f32(&[1], vec![1.0])];
    let found = run(
        &inputs,
        &function(|_, x| (x[0] * x[0] * x[0]).sum().grad(&[x[0], x[1], x[0]])),
    );
    assert_eq!(found[0].data, [12.0, 27.0]);
    assert_eq!(found[1].data, [0.0]);
    assert_eq!(found[2].data, [12.0, 27.0]);
}

#[test]
fn gradients_of_a_tensor_and_of_what_it_is_computed_from() {
    // z = y^2 with y = 3 x: each gets the whole gradient, x the one through y, and z itself 1, in any order, as
    // torch.autograd.grad gives them.
    let found = run(
        &[Array::f32(&[1], vec![2.0])],
        &function(|_, x| {
            let y = x[0] * 3.0;
            let z = (y * y).sum();
            [z.grad(&[y, x[0]]), z.grad(&[x[0], z, y]), z.grad(&[y])].concat()
        }),
    );
    let found: Vec<f64> = found.iter().map(Array::item).collect();
    assert_eq!(found, [12.0, 36.0, 36.0, 1.0, 12.0, 12.0]);
}

#[test]
fn third_derivative() {
    let found = run(
        &[Array::scalar(0.7)],
        &function(|_, x| {
            let first = x[0].sin().grad(x)[0];
            let second = first.grad(x)[0];
            second.grad(x)
        }),
    );
    assert!((found[0].item() + 0.7f64.cos()).abs() < 1e-15);
}

#[test]
fn attention_without_a_visible_key_has_finite_second_derivatives() {
    let mut r = Prng::new(7);
    let inputs = [
        r.normal(&[1, 2, 1, 2]),
        r.normal(&[1, 2, 1, 2]),
        r.normal(&[1, 2, 1, 2]),
    ];
    let found = run(
        &inputs,
        &function(|trace, x| {
            let mask = trace.full(DType::Bool, &[1, 2], 0.0);
            let options = AttentionOptions {
                mask: Some(mask),
                ..Default::default()
            };
            let o = attention(x[0], x[1], x[2], options);
            let first = (o * o + o).sum().grad(x);
            first
                .iter()
                .map(|g| (*g * *g + *g).sum())
                .reduce(|a, b| a + b)
                .unwrap()
                .grad(x)
        }),
    );
    assert!(found.iter().flat_map(|a| &a.data).all(|&g| g == 0.0), "{found:?}");
}
