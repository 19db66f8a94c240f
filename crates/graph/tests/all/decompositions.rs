//! Decompositions give what the operations give.

use lessen_graph::ops::{Attention, CrossEntropy, Dropout, LayerNorm, RmsNorm};
use lessen_graph::{Array, DType, Op, Tensor, Trace, Type, evaluate_op};

use crate::cases::cases;
use crate::check::{assert_near, function, run};
use crate::prng::Prng;

#[test]
fn decompositions_evaluate_as_their_operations() {
    let mut compared = std::collections::BTreeSet::new();
    for seed in [11, 12, 13] {
        for case in cases(seed) {
            let inputs: Vec<&Array> = case.inputs.iter().collect();
            let expected = evaluate_op(&*case.op, &inputs).unwrap();
            let simple = function(|_, x| case.op.decompose(x).unwrap_or_default());
            let found = run(&case.inputs, &simple);
            for (k, (a, b)) in expected.iter().zip(&found).enumerate() {
                assert_near(&format!("seed {seed}, {:?}, output {k}", case.op), a, b, 1e-13);
                compared.insert(case.op.name());
            }
        }
    }
    assert!(compared.len() >= 20, "operations with a decomposition: {compared:?}");
}

#[test]
fn decomposed_dropout_draws_the_same_bits_for_every_size() {
    let mut r = Prng::new(14);
    let key = r.key();
    for n in [0, 1, 2, 7, 8, 9, 33] {
        let mut x = r.normal(&[n]);
        if n > 7 {
            x.data[..4].copy_from_slice(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        }
        let op = Dropout {
            p: 0.5,
            stream: 9,
            first: 11,
        };
        let inputs = [x, key.clone()];
        let expected = evaluate_op(&op, &[&inputs[0], &inputs[1]]).unwrap();
        let found = run(&inputs, &function(|_, x| op.decompose(x).unwrap()));
        assert_near(&format!("{n} elements"), &expected[0], &found[0], 0.0);
    }
}

#[test]
fn decompositions_keep_the_types_of_bf16() {
    let bf16 = |shape: &[usize]| Type::new(DType::BF16, shape);
    let head = bf16(&[1, 2, 1, 3]);
    let attention = Attention {
        causal: true,
        ..Attention::default()
    };
    let all: [(&dyn Op, Vec<Type>); 4] = [
        (&LayerNorm { eps: 1e-5 }, vec![bf16(&[2, 3]), bf16(&[3]), bf16(&[3])]),
        (&RmsNorm { eps: 1e-5 }, vec![bf16(&[2, 3]), bf16(&[3])]),
        (
            &CrossEntropy {
                ignore: -1,
                smoothing: 0.1,
            },
            vec![bf16(&[2, 3]), Type::new(DType::I32, &[2])],
        ),
        (&attention, vec![head.clone(), head.clone(), head]),
    ];
    for (op, types) in all {
        let trace = Trace::new();
        let inputs: Vec<Tensor> = types
            .iter()
            .enumerate()
            .map(|(i, t)| trace.input(&i.to_string(), t.dtype, &t.shape))
            .collect();
        let simple: Vec<Type> = op.decompose(&inputs).unwrap().iter().map(|y| y.ty()).collect();
        assert_eq!(simple, op.infer(&types).unwrap(), "{}", op.name());
        assert_eq!(simple[1].dtype, DType::F32);
    }
}
