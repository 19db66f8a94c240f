//! States: every reader of a state sees its old value, wherever the update is placed and however the new value is made.

use std::collections::HashMap;

use lessen_compile::Placement;
use lessen_device::suite::check_plan as check;
use lessen_graph::{Array, DType, Phase, Tensor, Trace, TraceRef, clip_coefficient, evaluate, global_norm};

use crate::plans::runner::Options;
use crate::plans::runner::{bits, run_once};
use crate::random::Random;

type States = HashMap<&'static str, Tensor>;

/// Traces a program over states `a`, `b`, `c` of `[rows, columns]` and an input `x` of the same shape, and checks its
/// outputs and states after a run in both placements with the reference.
fn check_program(rows: usize, columns: usize, write: impl Fn(TraceRef, Tensor, States)) {
    let trace = Trace::new();
    let mut random = Random::new(5);
    let shape = [rows, columns];
    let mut inputs = HashMap::new();
    {
        let states = ["a", "b", "c"].map(|name| (name, trace.state(name, DType::F32, &shape)));
        let x = trace.input("x", DType::F32, &shape);
        for name in ["a", "b", "c", "x"] {
            inputs.insert(name.to_string(), random.array(&shape, 1.0));
        }
        write(*trace, x, states.into_iter().collect());
    }
    let graph = trace.finish();
    let expected = evaluate(&graph, &inputs).unwrap();
    let mut first = None;
    for placement in [Placement::Separate, Placement::BackwardFused] {
        let options = Options {
            threads: 2,
            placement,
            budget: None,
        };
        let (plan, found) = run_once(&graph, &options, &inputs);
        check(&plan).unwrap_or_else(|e| panic!("{placement:?}: {e}"));
        for (name, array) in &expected {
            for (i, (&f, &e)) in found[name].iter().zip(&array.data).enumerate() {
                let close = (f64::from(f) - e).abs() <= 1e-5 * e.abs().max(1.0);
                assert!(close, "{placement:?}: element {i} of `{name}` is {f}, not {e}");
            }
        }
        let bits = bits(&found);
        assert_eq!(
            *first.get_or_insert_with(|| bits.clone()),
            bits,
            "{placement:?} gives other bits"
        );
    }
}

/// `p - 0.1 g` as the part of the step that updates.
fn descend(p: Tensor, g: Tensor) {
    let trace = p.trace();
    let new = trace.in_phase(Phase::Update, || p - g * 0.125);
    trace.assign(p, new);
}

#[test]
fn a_weight_that_is_read_first_and_last_is_updated_after_its_last_reader() {
    check_program(12, 12, |trace, x, s| {
        let hidden = (x.matmul(s["a"]) + s["b"]).tanh();
        let logits = hidden.matmul_t(s["a"]) * s["c"];
        let loss = (logits * logits).sum() * 0.01;
        trace.output("loss", loss);
        let wrt = ["a", "b", "c"].map(|n| s[n]);
        for (p, g) in wrt.into_iter().zip(loss.grad(&wrt)) {
            descend(p, g);
        }
    });
}

#[test]
fn clipping_by_the_global_norm_waits_for_all_gradients() {
    check_program(9, 9, |trace, x, s| {
        let loss = (x.matmul(s["a"]).tanh().matmul(s["b"]).tanh().matmul(s["c"])).sum();
        trace.output("loss", loss);
        let wrt = ["a", "b", "c"].map(|n| s[n]);
        let gradients = loss.grad(&wrt);
        let norm = trace.in_phase(Phase::Update, || global_norm(&gradients));
        trace.output("norm", norm);
        let clip = trace.in_phase(Phase::Update, || clip_coefficient(norm, 0.5));
        for (p, g) in wrt.into_iter().zip(gradients) {
            let clipped = trace.in_phase(Phase::Update, || g * clip);
            descend(p, clipped);
        }
    });
}

#[test]
fn a_reader_behind_the_update_sees_the_old_value() {
    check_program(150, 8, |trace, x, s| {
        let new = trace.in_phase(Phase::Update, || s["a"] + x);
        trace.assign(s["a"], new);
        // Written after the update, and even by way of the new value.
        trace.output("old", s["a"] * 2.0);
        trace.output("change", new - s["a"]);
        trace.output("old sum", s["a"].transpose(0, 1).sum_axes(&[1]));
    });
}

#[test]
fn outputs_return_old_and_new_values_of_an_assigned_state() {
    check_program(7, 5, |trace, x, s| {
        trace.output("old", s["a"]);
        trace.output("old transposed", s["a"].transpose(0, 1));
        let new = s["a"] * 0.5 + x;
        trace.assign(s["a"], new);
        trace.output("new", new);
        trace.output("new transposed", new.transpose(0, 1));
        trace.output("untouched", s["b"]);
    });
}

#[test]
fn one_state_takes_the_value_of_another() {
    check_program(6, 4, |trace, _, s| trace.assign(s["a"], s["b"]));
    // The other changes in the same run: the old value counts.
    check_program(6, 4, |trace, x, s| {
        trace.assign(s["a"], s["b"]);
        trace.assign(s["b"], s["b"] + x);
    });
    check_program(6, 4, |trace, x, s| {
        trace.assign(s["b"], s["b"] + x);
        trace.assign(s["a"], s["b"]);
    });
    check_program(6, 4, |trace, x, s| {
        let new = s["b"] + x;
        trace.assign(s["b"], new);
        trace.assign(s["a"], new);
        trace.assign(s["c"], new);
    });
}

#[test]
fn states_swap_and_rotate() {
    check_program(6, 4, |trace, _, s| {
        trace.assign(s["a"], s["b"]);
        trace.assign(s["b"], s["a"]);
    });
    check_program(150, 6, |trace, _, s| {
        trace.assign(s["a"], s["b"]);
        trace.assign(s["b"], s["c"]);
        trace.assign(s["c"], s["a"]);
    });
}

#[test]
fn states_that_are_updated_from_each_other_see_each_others_old_values() {
    check_program(150, 6, |trace, x, s| {
        let (a, b) = (s["a"], s["b"]);
        trace.assign(a, a * 0.5 + b * x);
        trace.assign(b, b * 0.25 - a);
    });
    check_program(8, 8, |trace, x, s| {
        let (a, b) = (s["a"], s["b"]);
        trace.assign(a, a + b.transpose(0, 1));
        trace.assign(b, x.matmul(a));
    });
}

#[test]
fn a_state_takes_a_view_an_input_or_a_constant() {
    check_program(8, 8, |trace, x, s| {
        trace.assign(s["a"], s["a"].transpose(0, 1));
        trace.assign(s["b"], x);
        trace.assign(s["c"], trace.full(DType::F32, &[8, 8], 2.5));
    });
    check_program(8, 8, |trace, x, s| {
        trace.assign(s["a"], x.transpose(0, 1));
        trace.assign(s["b"], x.slice(0, 3, 1).broadcast_to(&[8, 8]));
        let table = Array::from_fn(x.ty(), |i| (i[0] * 10 + i[1]) as f64);
        trace.assign(s["c"], trace.constant(table));
    });
    check_program(8, 8, |trace, x, s| {
        let y = (x * 2.0).tanh();
        trace.assign(s["a"], y.transpose(0, 1));
        trace.assign(s["b"], y);
        trace.assign(s["c"], s["c"]);
        trace.output("y", y);
    });
}

#[test]
fn a_product_is_not_written_over_its_own_factor() {
    check_program(8, 8, |trace, x, s| {
        trace.assign(s["a"], s["a"].matmul(x));
        trace.assign(s["b"], x.matmul_t(s["b"]));
        trace.assign(s["c"], s["c"].softmax());
    });
}

#[test]
fn a_state_takes_a_sum_over_rows() {
    let trace = Trace::new();
    let mut random = Random::new(3);
    let (rows, columns) = (300, 7);
    let mut inputs = HashMap::new();
    {
        let total = trace.state("total", DType::F32, &[columns]);
        let x = trace.input("x", DType::F32, &[rows, columns]);
        inputs.insert("total".to_string(), random.array(&[columns], 1.0));
        inputs.insert("x".to_string(), random.array(&[rows, columns], 1.0));
        trace.output("old", total + 1.0);
        trace.assign(total, (x * total).sum_rows());
    }
    let graph = trace.finish();
    let expected = evaluate(&graph, &inputs).unwrap();
    let (plan, found) = run_once(
        &graph,
        &Options {
            threads: 2,
            ..Options::default()
        },
        &inputs,
    );
    check(&plan).unwrap();
    for name in ["old", "total"] {
        for (&f, &e) in found[name].iter().zip(&expected[name].data) {
            assert!((f64::from(f) - e).abs() <= 1e-4, "{name}: {f}, not {e}");
        }
    }
}
