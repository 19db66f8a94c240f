//! Products of stacks whose leading axes broadcast, as compiled for the CPU, against the reference evaluator.

use std::collections::HashMap;

use crate::plans::runner::Options;
use crate::plans::runner::run_once;
use lessen_graph::{Array, DType, Trace, Type, evaluate};

/// Runs a graph on the CPU and asserts that its results equal the results of the reference evaluator.
fn assert_same(what: &str, trace: Trace, inputs: &HashMap<String, Array>) {
    let graph = trace.finish();
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let (_, got) = run_once(&graph, &options, inputs);
    for (name, expected) in evaluate(&graph, inputs).unwrap() {
        assert_eq!(got[&name].len(), expected.data.len(), "{what}, {name}");
        for (i, (&got, &expected)) in got[&name].iter().zip(&expected.data).enumerate() {
            let near = got == expected as f32 || (f64::from(got) - expected).abs() <= 1e-5 * (1.0 + expected.abs());
            assert!(near, "{what}, {name}, element {i}: {got}, not {expected}");
        }
    }
}

#[test]
fn an_operand_with_stride_zero_gives_the_product_and_its_derivatives() {
    let leads: [(&[usize], &[usize]); 7] = [
        (&[], &[5]),
        (&[1], &[5]),
        (&[5], &[1]),
        (&[3, 1], &[3, 4]),
        (&[3, 1], &[1, 4]),
        (&[4], &[3, 1]),
        (&[3, 4], &[1, 1]),
    ];
    for (lead_a, lead_b) in leads {
        for (m, k, n) in [(2, 3, 4), (70, 33, 65), (1, 1, 1)] {
            let (a, b) = ([lead_a, &[m, k]].concat(), [lead_b, &[n, k]].concat());
            let filled = |shape: &[usize]| {
                let mut next = 0;
                Array::from_fn(Type::f32(shape), |_| {
                    next += 1;
                    f64::from(next * 37 % 101) / 64.0 - 0.75
                })
            };
            let inputs = HashMap::from([("a".to_string(), filled(&a)), ("b".to_string(), filled(&b))]);
            let trace = Trace::new();
            let (x, y) = (trace.input("a", DType::F32, &a), trace.input("b", DType::F32, &b));
            let product = x.matmul_t(y);
            trace.output("product", product);
            trace.output("product of the copy", x.matmul(y.transpose(-1, -2)));
            for (name, gradient) in ["da", "db"].into_iter().zip((product * product).sum().grad(&[x, y])) {
                trace.output(name, gradient * (1.0 / 256.0));
            }
            assert_same(&format!("{a:?} {b:?}"), trace, &inputs);
        }
    }
}
