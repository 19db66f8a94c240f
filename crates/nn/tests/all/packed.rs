//! Batches without padding: the losses, gradients and statistics of padded ones.

use crate::small_models::{BATCH, WEIGHTINGS, all_models, attention, deep_fire, given, loss_and_gradients_of};
use crate::support::{Arrays, arrays, assert_close, model};
use lessen_graph::{Array, Trace, evaluate_exactly};
use lessen_nn::{BatchShape, Cx, Model, Position, Selection};

/// The two texts of [`given`] and an empty one, with three tokens that belong to none.
const PACKED: BatchShape = BatchShape::Packed { size: 3, tokens: 11 };

/// The inputs of [`given`] without padding.
fn packed(model: &Model) -> Arrays {
    let mut given = given(model);
    given.remove("mask");
    for (name, values) in [
        ("tokens", [3, 1, 4, 1, 5, 2, 6, 5, 7, 7, 7]),
        ("types", [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1]),
    ] {
        given.insert(name.into(), Array::i32(&[1, 11], &values));
    }
    for (name, values) in [
        ("positions", &[0, 1, 2, 3, 4, 0, 1, 2, 0, 0, 0][..]),
        ("segments", &[0, 0, 0, 0, 0, 1, 1, 1, 3, 3, 3]),
        ("starts", &[0, 5, 8, 8]),
        ("firsts", &[0, 5, 0]),
    ] {
        given.insert(name.into(), Array::i32(&[values.len()], values));
    }
    let labels = if model.labels().is_empty() {
        Array::i32(&[1, 11], &[1, 4, 1, 5, -100, 6, 5, -100, -100, -100, -100])
    } else {
        Array::i32(&[3], &[2, 0, -100])
    };
    given.insert("labels".into(), labels);
    given
}

#[test]
fn a_batch_without_padding_has_the_loss_and_the_gradients_of_a_padded_one() {
    for (i, weighting) in WEIGHTINGS.into_iter().enumerate() {
        let of_position = |position| attention(weighting, position, i % 2 == 0);
        let attentions = Position::ALL.map(of_position);
        for own in attentions.into_iter().chain([deep_fire(weighting)]) {
            for model in all_models(own) {
                let expected = loss_and_gradients_of(&model, BATCH, &given(&model));
                let found = loss_and_gradients_of(&model, PACKED, &packed(&model));
                assert_eq!(found.len(), expected.len());
                for (name, array) in &expected {
                    let what = format!("{name} of {} with {own:?}", model.architecture().name());
                    assert_close(&what, &found[name], array, 1e-11);
                }
            }
        }
    }
}

/// All statistics that a model records of a batch.
fn statistics(model: &Model, batch: BatchShape, given: &Arrays) -> Arrays {
    let trace = Trace::new();
    let selection: Selection = "*".parse().unwrap();
    let cx = Cx::recording(*trace, false, &selection);
    model.forward(cx, batch);
    for recorded in cx.recorded().unwrap() {
        trace.output(&recorded.name, recorded.value);
    }
    evaluate_exactly(&trace.finish(), given).unwrap()
}

#[test]
fn statistics_count_real_tokens_alone() {
    for model in all_models(attention("softmax", Position::Learned, true)) {
        // A causal model has no padding mask: its padded statistics count padding.
        if model.decoder().is_some() {
            continue;
        }
        let expected = statistics(&model, BATCH, &given(&model));
        let found = statistics(&model, PACKED, &packed(&model));
        assert_eq!(found.len(), expected.len());
        for (name, array) in &expected {
            assert_close(name, &found[name], array, 1e-10);
        }
    }
}

#[test]
fn padding_within_a_text_is_read_as_transformers_does() {
    // Logits of transformers 5.24 in `f64`; 1 is the token of padding, and all tokens are attended to.
    check_texts(
        "roberta-tiny-cls",
        &[
            (&[0, 5, 7, 9, 2], [0.151574014, -0.613112378, -0.133368078]),
            (&[0, 5, 1, 7, 1, 1, 9, 2], [0.130487304, -0.633311038, 0.034681492]),
            (&[1, 5, 7], [0.056066, -0.822999014, 0.370272657]),
            (&[5, 7, 1], [0.172458034, -0.800539649, -0.243584732]),
            (&[1, 1, 1], [-0.01355267, -0.8170625, 0.479845362]),
            (&[0, 1, 2], [0.074422871, -0.704229787, -0.065245443]),
        ],
    );
    check_texts(
        "mpnet-tiny-cls",
        &[
            (&[0, 5, 7, 9, 2], [0.278402809, 0.355515481, 0.006347203]),
            (&[0, 5, 1, 7, 1, 1, 9, 2], [0.160516177, 0.332252798, 0.287811946]),
            (&[1, 5, 7], [0.032582892, 0.473136156, -0.880334323]),
            (&[5, 7, 1], [0.367144106, 0.745698045, 0.199830542]),
            (&[1, 1, 1], [0.166086273, 0.817403083, -0.733913651]),
            (&[0, 1, 2], [0.19641793, 0.341429556, 0.26435695]),
        ],
    );
}

/// Compares the logits of texts, one after another in a row, and each in a batch of its own.
fn check_texts(name: &str, recorded: &[(&[i32], [f64; 3])]) {
    let (model, weights) = model(name);
    let logits = |batch: BatchShape, inputs: &[(&str, Array)]| {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        trace.output("logits", model.logits(cx, batch));
        let mut given = arrays(&weights);
        given.extend(inputs.iter().map(|(name, array)| (name.to_string(), array.clone())));
        evaluate_exactly(&trace.finish(), &given).unwrap()["logits"].clone()
    };
    // One after another in a row, with a tail that belongs to none of them.
    let n = 32;
    let (mut tokens, mut positions, mut segments, mut starts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (number, (text, _)) in recorded.iter().enumerate() {
        starts.push(tokens.len() as i32);
        tokens.extend_from_slice(text);
        positions.extend(0..text.len() as i32);
        segments.resize(tokens.len(), number as i32);
    }
    let firsts = starts.clone();
    starts.push(tokens.len() as i32);
    tokens.resize(n, 1);
    positions.resize(n, 0);
    segments.resize(n, recorded.len() as i32);
    let batch = BatchShape::Packed {
        size: recorded.len(),
        tokens: n,
    };
    let inputs = [
        ("tokens", Array::i32(&[1, n], &tokens)),
        ("positions", Array::i32(&[n], &positions)),
        ("segments", Array::i32(&[n], &segments)),
        ("starts", Array::i32(&[starts.len()], &starts)),
        ("firsts", Array::i32(&[firsts.len()], &firsts)),
    ];
    let expected: Vec<f64> = recorded.iter().flat_map(|(_, logits)| *logits).collect();
    let expected = Array::new(lessen_graph::Type::f32(&[recorded.len(), 3]), expected);
    assert_close(&format!("logits of {name}"), &logits(batch, &inputs), &expected, 1e-6);
    // Each in a batch of its own, filled up.
    for (text, own) in recorded {
        let mut tokens = text.to_vec();
        tokens.resize(10, 1);
        let mask = (0..10).map(|place| f64::from(u8::from(place < text.len()))).collect();
        let batch = BatchShape::Padded { size: 1, length: 10 };
        let inputs = [
            ("tokens", Array::i32(&[1, 10], &tokens)),
            (
                "mask",
                Array::new(lessen_graph::Type::new(lessen_graph::DType::Bool, &[1, 10]), mask),
            ),
        ];
        let expected = Array::new(lessen_graph::Type::f32(&[1, 3]), own.to_vec());
        assert_close(&format!("{name}: {text:?}"), &logits(batch, &inputs), &expected, 1e-6);
    }
}
