//! Losses: values worked out by hand, derivatives of first and second order against differences, mistakes.

use lessen_graph::{Array, DType, Tensor, Trace, TraceRef, Type, evaluate, evaluate_exactly};
use lessen_nn::losses;

use crate::support::Arrays;

/// A loss of tensors.
type Loss = fn(&[Tensor]) -> Tensor;

/// A call with `f32[2,3]` and ids, `i32[2]`.
type Mistake = fn(Tensor, Tensor);

/// Evaluates what a function makes of inputs, in real arithmetic.
fn made(inputs: &[Array], make: impl Fn(TraceRef, &[Tensor]) -> Vec<Tensor>) -> Vec<Array> {
    let trace = Trace::new();
    let named = |i: usize| format!("x{i}");
    let tensors: Vec<Tensor> = inputs
        .iter()
        .enumerate()
        .map(|(i, x)| trace.input(&named(i), x.ty.dtype, &x.ty.shape))
        .collect();
    let results = make(*trace, &tensors);
    for (i, result) in results.iter().enumerate() {
        trace.output(&i.to_string(), *result);
    }
    let given: Arrays = inputs.iter().enumerate().map(|(i, x)| (named(i), x.clone())).collect();
    let mut found = evaluate_exactly(&trace.finish(), &given).unwrap();
    (0..results.len())
        .map(|i| found.remove(&i.to_string()).unwrap())
        .collect()
}

/// Asserts that the derivatives for all inputs agree with central differences.
#[track_caller]
fn check_first(what: &str, inputs: &[Array], loss: &impl Fn(TraceRef, &[Tensor]) -> Tensor) {
    const STEP: f64 = 1e-6;
    let gradients = made(inputs, |trace, x| loss(trace, x).grad(x));
    for (i, gradient) in gradients.iter().enumerate() {
        for (e, found) in gradient.data.iter().enumerate() {
            let at = |by: f64| {
                let mut moved = inputs.to_vec();
                moved[i].data[e] += by;
                made(&moved, |trace, x| vec![loss(trace, x)])[0].item()
            };
            let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            assert!(
                (found - difference).abs() < 1e-7 * (1.0 + difference.abs()),
                "{what}: input {i}, element {e}: the derivative is {found}, the difference {difference}"
            );
        }
    }
}

/// Asserts that first and second derivatives agree with differences.
#[track_caller]
fn check_derivatives(what: &str, inputs: &[Array], loss: Loss) {
    check_first(what, inputs, &|_, x| loss(x));
    let weight = |ty: &Type| Array::from_fn(ty.clone(), |index| 0.5 - 0.3 * index.iter().sum::<usize>() as f64);
    check_first(&format!("{what}, second order"), inputs, &|trace, x| {
        let gradients = loss(x).grad(x);
        let along = gradients
            .into_iter()
            .map(|g| (g * trace.constant(weight(&g.ty()))).sum());
        along.reduce(|a, b| a + b).unwrap()
    });
}

/// Asserts the value of a loss.
#[track_caller]
fn check_value(what: &str, inputs: &[Array], loss: Loss, expected: f64) {
    let found = made(inputs, |_, x| vec![loss(x)]);
    assert_eq!(found[0].ty, Type::f32(&[]), "{what}");
    let found = found[0].item();
    assert!((found - expected).abs() < 1e-12, "{what}: {found} for {expected}");
}

fn row(data: &[f64]) -> Array {
    Array::f32(&[data.len()], data.to_vec())
}

fn rows(data: &[[f64; 2]]) -> Array {
    Array::f32(&[data.len(), 2], data.concat())
}

#[test]
fn losses_of_numbers_are_means_of_functions_of_errors() {
    // The errors are 0, 2 and -3.
    let inputs = [row(&[1.0, 2.0, -2.0]), row(&[1.0, 0.0, 1.0])];
    let cases: [(&str, Loss, f64); 6] = [
        ("mse", |x| losses::mse(x[0], x[1]), 13.0 / 3.0),
        ("mae", |x| losses::mae(x[0], x[1]), 5.0 / 3.0),
        ("huber", |x| losses::huber(x[0], x[1], 1.0), (1.5 + 2.5) / 3.0),
        ("huber", |x| losses::huber(x[0], x[1], 2.5), (2.0 + 4.375) / 3.0),
        ("smooth_l1", |x| losses::smooth_l1(x[0], x[1], 1.0), (1.5 + 2.5) / 3.0),
        ("smooth_l1", |x| losses::smooth_l1(x[0], x[1], 2.5), (0.8 + 1.75) / 3.0),
    ];
    for (what, loss, expected) in cases {
        check_value(what, &inputs, loss, expected);
        // The derivative of the absolute error jumps at 0, the second one of the others at 1 and 2.5.
        let moved = if what == "mae" {
            &inputs.clone().map(|x| row(&x.data[1..]))
        } else {
            &inputs
        };
        check_derivatives(what, moved, loss);
    }
    let zero = made(&[row(&[1.0]), row(&[1.0])], |_, x| losses::mae(x[0], x[1]).grad(x));
    assert_eq!((zero[0].data[0], zero[1].data[0]), (0.0, 0.0));
}

#[test]
fn binary_cross_entropy_is_that_of_probabilities_and_finite_for_large_logits() {
    let inputs = [row(&[0.0, 2.0, -1.0]), row(&[1.0, 0.0, 0.5])];
    let softplus = |z: f64| z.exp().ln_1p();
    let expected = (2f64.ln() + softplus(2.0) + 0.5 * (softplus(1.0) + softplus(-1.0))) / 3.0;
    let loss: Loss = |x| losses::binary_cross_entropy(x[0], x[1]);
    check_value("binary_cross_entropy", &inputs, loss, expected);
    check_derivatives("binary_cross_entropy", &inputs, loss);
    // Rounded to f32 after every operation.
    for (logit, target, expected) in [
        (300.0, 1.0, 0.0),
        (300.0, 0.0, 300.0),
        (-300.0, 1.0, 300.0),
        (-18.0, 0.0, 1.523e-8),
    ] {
        let trace = Trace::new();
        let (z, t) = (trace.input("z", DType::F32, &[1]), trace.input("t", DType::F32, &[1]));
        let loss = losses::binary_cross_entropy(z, t);
        trace.output("loss", loss);
        trace.output("gradient", loss.grad(&[z])[0]);
        let given = [("z".to_string(), row(&[logit])), ("t".to_string(), row(&[target]))];
        let found = evaluate(&trace.finish(), &given.into()).unwrap();
        let (loss, gradient) = (found["loss"].item(), found["gradient"].data[0]);
        assert!(
            (loss - expected).abs() <= 1e-3 * expected,
            "{logit}, {target}: {loss} for {expected}"
        );
        let slope = 1.0 / (1.0 + f64::exp(-logit)) - target;
        assert!(
            (gradient - slope).abs() <= 1e-6 * slope.abs().max(1e-30),
            "{logit}: {gradient} for {slope}"
        );
    }
}

#[test]
fn the_hinge_loss_counts_scores_within_the_margin() {
    let inputs = [row(&[0.5, -2.0, 3.0, 4.0]), row(&[1.0, 1.0, -1.0, 1.0])];
    let loss: Loss = |x| losses::hinge(x[0], x[1]);
    check_value("hinge", &inputs, loss, (0.5 + 3.0 + 4.0) / 4.0);
    check_derivatives("hinge", &inputs, loss);
}

#[test]
fn kl_divergence_is_the_mean_of_rows_and_leaves_out_what_has_no_probability() {
    let log_q = rows(&[[0.25f64.ln(), 0.75f64.ln()], [0.5f64.ln(), 0.5f64.ln()]]);
    let p = rows(&[[0.5, 0.5], [0.8, 0.2]]);
    let loss: Loss = |x| losses::kl_divergence(x[0], x[1]);
    let of_rows = [0.5 * (4.0f64 / 3.0).ln(), 0.8 * 1.6f64.ln() + 0.2 * 0.4f64.ln()];
    check_value(
        "kl_divergence",
        &[log_q.clone(), p.clone()],
        loss,
        (of_rows[0] + of_rows[1]) / 2.0,
    );
    check_derivatives("kl_divergence", &[log_q, p], loss);
    // Where p is 0, neither a q of 0 nor the logarithm of p counts.
    let certain = [rows(&[[0.5f64.ln(), f64::NEG_INFINITY]]), rows(&[[1.0, 0.0]])];
    check_value("kl_divergence", &certain, loss, 2f64.ln());
    let gradients = made(&certain, |_, x| loss(x).grad(x));
    assert_eq!(gradients[0].data, [-1.0, 0.0]);
    assert!(
        gradients[1].data.iter().all(|g| g.is_finite()),
        "{:?}",
        gradients[1].data
    );
}

#[test]
fn cosines_and_their_loss_are_those_of_directions() {
    let x = rows(&[[3.0, 4.0], [1.0, 0.0], [1.0, 1.0]]);
    let y = rows(&[[4.0, 3.0], [-2.0, 0.0], [2.0, 2.0]]);
    let cosines = made(&[x.clone(), y.clone()], |_, x| {
        vec![losses::cosine_similarity(x[0], x[1])]
    });
    assert_eq!(cosines[0].ty, Type::f32(&[3]));
    for (found, expected) in cosines[0].data.iter().zip([0.96, -1.0, 1.0]) {
        assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
    }
    let pairs = [x.clone(), y.clone()];
    check_derivatives("cosine_similarity", &pairs, |x| {
        let cosines = losses::cosine_similarity(x[0], x[1]);
        (cosines * cosines * cosines).sum()
    });
    let loss: Loss = |x| losses::cosine_embedding(x[0], x[1], x[0].trace().constant(row(&[1.0, -1.0, -1.0])), 0.5);
    check_value("cosine_embedding", &pairs, loss, (0.04 + 0.0 + 0.5) / 3.0);
    check_derivatives("cosine_embedding", &pairs, loss);
    // A vector of zeros has no direction, and derivatives that are finite.
    let zeros = [rows(&[[0.0, 0.0]]), rows(&[[1.0, 2.0]])];
    let found = made(&zeros, |_, x| {
        let cosine = losses::cosine_similarity(x[0], x[1]);
        [vec![cosine], cosine.sum().grad(x)].concat()
    });
    assert_eq!(found[0].data, [0.0]);
    assert!(
        found[1..].iter().flat_map(|g| &g.data).all(|g| g.is_finite()),
        "{found:?}"
    );
}

#[test]
fn the_triplet_loss_counts_positives_that_are_not_nearer_by_the_margin() {
    let anchor = rows(&[[0.0, 0.0], [1.0, 1.0]]);
    let positive = rows(&[[3.0, 4.0], [1.0, 2.0]]);
    let negative = rows(&[[0.0, 1.0], [9.0, 1.0]]);
    let distance = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0] + 1e-6).hypot(a[1] - b[1] + 1e-6);
    let first = distance([0.0; 2], [3.0, 4.0]) - distance([0.0; 2], [0.0, 1.0]) + 1.5;
    assert!((first - 5.5).abs() < 1e-5);
    let loss: Loss = |x| losses::triplet_margin(x[0], x[1], x[2], 1.5);
    let inputs = [anchor.clone(), positive, negative];
    check_value("triplet_margin", &inputs, loss, first / 2.0);
    check_derivatives("triplet_margin", &inputs, loss);
    // Equal vectors have a derivative.
    let equal = [anchor.clone(), anchor.clone(), anchor];
    let gradients = made(&equal, |_, x| loss(x).grad(x));
    assert!(
        gradients.iter().flat_map(|g| &g.data).all(|g| g.is_finite()),
        "{gradients:?}"
    );
}

#[test]
fn arguments_that_do_not_fit_are_mistakes() {
    let mistakes: [(Mistake, &str); 8] = [
        (
            |x, _| drop(losses::mse(x, x.unsqueeze(-1)).shape()),
            "mse: the prediction f32[2,3] and the target f32[2,3,1] differ; reshape or cast one of them",
        ),
        (
            |x, ids| drop(losses::mae(ids, x).shape()),
            "mae: the prediction i32[2] has no floats; cast it to f32",
        ),
        (
            |x, ids| drop(losses::binary_cross_entropy(x, ids).shape()),
            "binary_cross_entropy: the logits f32[2,3] and the targets i32[2] differ; reshape or cast one of them",
        ),
        (
            |x, _| drop(losses::huber(x, x, 0.0).shape()),
            "huber: delta is 0; choose a number above 0",
        ),
        (
            |x, _| drop(losses::smooth_l1(x, x, f64::NAN).shape()),
            "smooth_l1: beta is NaN; choose a number above 0",
        ),
        (
            |x, _| drop(losses::kl_divergence(x.sum(), x.sum()).shape()),
            "kl_divergence: needs rows along a last axis, not f32[]",
        ),
        (
            |x, _| drop(losses::cosine_embedding(x, x, x, 0.0).shape()),
            "cosine_embedding: the cosines f32[2] and the target f32[2,3] differ; reshape or cast one of them",
        ),
        (
            |x, _| drop(losses::triplet_margin(x, x, x, f64::INFINITY).shape()),
            "triplet_margin: the margin is inf; choose a finite number",
        ),
    ];
    for (mistake, sentence) in mistakes {
        let trace = Trace::new();
        let x = trace.input("x", DType::F32, &[2, 3]);
        let ids = trace.input("ids", DType::I32, &[2]);
        let error = trace.attempt(|| mistake(x, ids)).unwrap_err().to_string();
        assert!(error.ends_with(sentence) && error.contains("losses.rs:"), "{error}");
    }
}
