//! Layers of sequences: convolutions, recurrent networks that continue, and random numbers.

use lessen_graph::{Array, DType, Tensor, Trace, Type, concat, evaluate_exactly};
use lessen_nn::layers::{self, Convolution, Convolution1d, Recurrent};
use lessen_nn::{Cx, Init};

use crate::support::{Arrays, assert_close};

/// Evaluates a model function on a sequence, with values of its parameters that follow from their places.
fn computed(x: &Array, model: impl Fn(Cx, Tensor) -> Vec<Tensor>) -> (Vec<(String, Vec<usize>)>, Vec<Array>) {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let results = model(cx, cx.input("x", DType::F32, &x.ty.shape));
    for (i, result) in results.iter().enumerate() {
        trace.output(&i.to_string(), *result);
    }
    let mut given = Arrays::from([("x".to_string(), x.clone())]);
    let mut declared = Vec::new();
    for param in cx.params() {
        let values = Init::Normal { std: 0.5 }.values(3, &param.name, param.shape.iter().product());
        let values = values.into_iter().map(f64::from).collect();
        given.insert(param.name.clone(), Array::f32(&param.shape, values));
        declared.push((param.name, param.shape));
    }
    let mut found = evaluate_exactly(&trace.finish(), &given).unwrap();
    let results = (0..results.len())
        .map(|i| found.remove(&i.to_string()).unwrap())
        .collect();
    (declared, results)
}

fn sequence(shape: &[usize]) -> Array {
    Array::from_fn(Type::f32(shape), |i| {
        ((i[0] * 7 + i[1] * 5 + i[2] * 11) % 13) as f64 / 6.0 - 1.0
    })
}

/// The names and shapes of parameters.
fn shapes(expected: &[(&str, &[usize])]) -> Vec<(String, Vec<usize>)> {
    let owned = expected.iter().map(|(name, shape)| (name.to_string(), shape.to_vec()));
    owned.collect()
}

#[test]
fn convolutions_of_sequences_have_the_parameters_of_pytorch() {
    let x = sequence(&[2, 6, 4]);
    let (declared, found) = computed(&x, |cx, x| {
        let how = Convolution1d::centred(6, 3, 2).grouped(2).with_bias();
        vec![layers::conv1d(cx, "conv", x, how)]
    });
    assert_eq!(declared, shapes(&[("conv.weight", &[6, 2, 3]), ("conv.bias", &[6])]));
    assert_eq!(found[0].ty, Type::f32(&[2, 3, 6]));
    let (declared, found) = computed(&x, |cx, x| {
        let how = Convolution1d::centred(6, 3, 2).grouped(2).with_bias();
        vec![layers::conv_transpose1d(cx, "up", x, how, 1)]
    });
    assert_eq!(declared, shapes(&[("up.weight", &[4, 3, 3]), ("up.bias", &[6])]));
    assert_eq!(found[0].ty, Type::f32(&[2, 12, 6]));
    let (declared, found) = computed(&x, |cx, x| {
        let how = Convolution::square(3, 4, 2).with_bias();
        vec![layers::conv_transpose2d(cx, "up", x.unsqueeze(1), how, [0, 1])]
    });
    assert_eq!(declared, shapes(&[("up.weight", &[4, 3, 4, 4]), ("up.bias", &[3])]));
    assert_eq!(found[0].ty, Type::f32(&[2, 2, 13, 3]));
}

#[test]
fn a_causal_convolution_keeps_the_length_and_sees_no_later_step() {
    let x = sequence(&[1, 7, 2]);
    let mut later = x.clone();
    later.data[2 * 4..].fill(9.0);
    let model = |cx: Cx, x: Tensor| vec![layers::conv1d(cx, "conv", x, Convolution1d::causal(3, 3, 2))];
    let [of_x, of_later] = [x, later].map(|x| computed(&x, model).1.remove(0));
    assert_eq!(of_x.ty, Type::f32(&[1, 7, 3]));
    assert_eq!(of_x.data[..3 * 4], of_later.data[..3 * 4]);
    assert_ne!(of_x.data[3 * 4..3 * 5], of_later.data[3 * 4..3 * 5]);
}

#[test]
fn a_recurrent_network_continues_from_the_states_that_it_gives() {
    let x = sequence(&[2, 5, 3]);
    let how = Recurrent {
        layers: 2,
        ..Recurrent::of(4)
    };
    let (_, found) = computed(&x, |cx, x| {
        let (first, second) = (x.slice(1, 0, 2), x.slice(1, 2, 3));
        let whole = layers::lstm(cx, "lstm", x, how);
        let before = layers::lstm(cx, "lstm", first, how);
        let after = layers::lstm_from(cx, "lstm", second, how, (&before.h, &before.c));
        let gated = layers::gru(cx, "gru", x, how);
        let before_gated = layers::gru(cx, "gru", first, how);
        let after_gated = layers::gru_from(cx, "gru", second, how, &before_gated.h);
        let mut all = vec![whole.y, concat(&[before.y, after.y], 1)];
        all.extend([gated.y, concat(&[before_gated.y, after_gated.y], 1)]);
        let last = whole.h.iter().zip(&after.h).chain(whole.c.iter().zip(&after.c));
        all.extend(
            last.chain(gated.h.iter().zip(&after_gated.h))
                .flat_map(|(a, b)| [*a, *b]),
        );
        all
    });
    assert_eq!(found.len(), 2 * (2 + 2 + 2 + 2));
    for pair in found.chunks(2) {
        assert_close("in two parts", &pair[1], &pair[0], 1e-12);
    }
}

#[test]
fn first_states_that_do_not_fit_are_mistakes() {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let x = cx.input("x", DType::F32, &[2, 5, 3]);
    let state = cx.input("h", DType::F32, &[2, 4]);
    let how = Recurrent {
        is_bidirectional: true,
        ..Recurrent::of(4)
    };
    let mistake = |first: &[Tensor]| {
        let error = trace
            .attempt(|| layers::gru_from(cx, "gru", x, how, first))
            .unwrap_err();
        let error = error.to_string();
        assert!(error.contains("sequences.rs:"), "{error}");
        error.split_once(": ").unwrap().1.to_string()
    };
    let rest = "are given to a recurrent network; give 2 of f32[2,4], one for each layer and direction";
    assert_eq!(mistake(&[state]), format!("1 first states {rest}"));
    let wrong = state.transpose(0, 1);
    assert_eq!(mistake(&[state, wrong]), format!("2 first states of f32[4,2] {rest}"));
    let error = trace.attempt(|| layers::lstm_from(cx, "lstm", x, how, (&[state, state], &[])));
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with(&format!("0 first cells {rest}")), "{error}");
}

#[test]
fn a_model_draws_other_numbers_at_every_call_and_for_every_key() {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let all = [
        cx.normal(&[8]),
        cx.normal(&[8]),
        cx.uniform(&[8]),
        cx.bernoulli(&[8], 0.5).cast(DType::F32),
    ];
    for (i, drawn) in all.into_iter().enumerate() {
        trace.output(&i.to_string(), drawn);
    }
    let error = trace.attempt(|| cx.bernoulli(&[8], 1.5)).unwrap_err().to_string();
    assert!(
        error.ends_with("bernoulli: the probability 1.5 is not from 0 to 1"),
        "{error}"
    );
    let graph = trace.finish();
    let drawn = [1.0, 2.0].map(|word| {
        let key = Array::new(Type::new(DType::U32, &[2]), vec![word, 7.0]);
        evaluate_exactly(&graph, &Arrays::from([(lessen_nn::names::KEY.to_string(), key)])).unwrap()
    });
    assert_ne!(drawn[0]["0"].data, drawn[0]["1"].data);
    for name in ["0", "1", "2", "3"] {
        assert_ne!(drawn[0][name].data, drawn[1][name].data, "draw {name}");
    }
}
