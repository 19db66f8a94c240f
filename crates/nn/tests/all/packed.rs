//! Batches without padding: the losses, gradients and statistics of padded ones.

use crate::small_models::{BATCH, WEIGHTINGS, all_models, attention, given, loss_and_gradients_of};
use crate::support::{Arrays, assert_close};
use lessen_graph::{Array, Trace, evaluate_exactly};
use lessen_nn::{BatchShape, Context, Model, Position, Selection};

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
    for position in Position::ALL {
        for (i, weighting) in WEIGHTINGS.into_iter().enumerate() {
            for model in all_models(attention(weighting, position, i % 2 == 0)) {
                let expected = loss_and_gradients_of(&model, BATCH, &given(&model));
                let found = loss_and_gradients_of(&model, PACKED, &packed(&model));
                assert_eq!(found.len(), expected.len());
                for (name, array) in &expected {
                    let what = format!(
                        "{name} of {} with {weighting} and {position}",
                        model.architecture().name()
                    );
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
    let cx = Context::recording(&trace, false, &selection);
    model.forward(&cx, batch);
    for recorded in cx.recorded().unwrap() {
        trace.output(&recorded.name, recorded.value);
    }
    drop(cx);
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
