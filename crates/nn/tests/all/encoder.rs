//! The encoder against the same network in PyTorch (`Encoder` of `bench/torch_models.py`, in `f64`), and
//! regression.

use crate::support::{Arrays, assert_close};
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::names::KEY;
use lessen_nn::{BatchShape, Cx, Model, numbered_labels};

const BATCH: BatchShape = BatchShape::Padded { size: 2, length: 6 };

fn encoder(classes: usize) -> Model {
    let config = EncoderConfig {
        vocab_size: 11,
        width: 8,
        layers: 2,
        heads: 2,
        ffn: 12,
        max_length: 6,
        labels: numbered_labels(classes),
        ..EncoderConfig::default()
    };
    LessenEncoder { config }.into()
}

/// Two texts of six and three tokens, and every parameter `sin(0.7 i + length of its name) / 2` as `f32`.
fn given(model: &Model) -> Arrays {
    let mut given = Arrays::new();
    given.insert(
        "tokens".into(),
        Array::i32(&[2, 6], &[3, 1, 4, 1, 5, 9, 2, 6, 5, 0, 0, 0]),
    );
    let mask = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
    given.insert(
        "mask".into(),
        Array::new(Type::new(DType::Bool, &[2, 6]), mask.to_vec()),
    );
    for param in model.parameters() {
        let value = |i: usize| f64::from((0.5 * (0.7 * i as f64 + param.name.len() as f64).sin()) as f32);
        let data = (0..param.shape.iter().product()).map(value).collect();
        given.insert(param.name, Array::f32(&param.shape, data));
    }
    given
}

fn norm(array: &Array) -> f64 {
    array.data.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[test]
fn it_computes_what_pytorch_computes() {
    let model = encoder(3);
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let outputs = model.forward(cx, BATCH);
    trace.output("loss", outputs.loss);
    trace.output("logits", outputs.logits);
    let params = cx.params();
    let weight = |name: &str| trace.tensor(params.iter().find(|param| param.name == name).unwrap().value);
    let (table, qkv) = (
        weight("embeddings.tokens.weight"),
        weight("layers.0.attention.qkv.weight"),
    );
    let gradients = outputs.loss.grad(&[table, qkv]);
    trace.output("table", gradients[0]);
    trace.output("qkv", gradients[1]);
    assert!(!cx.has_input(KEY), "nothing is dropped outside of training");

    let mut given = given(&model);
    given.insert("labels".into(), Array::i32(&[2], &[2, 0]));
    let results = evaluate_exactly(&trace.finish(), &given).unwrap();
    let logits = [
        0.299703052676,
        0.467892538680,
        0.425974544625,
        0.300038949765,
        0.483678945631,
        0.450125444924,
    ];
    assert_close(
        "logits",
        &results["logits"],
        &Array::f32(&[2, 3], logits.to_vec()),
        1e-10,
    );
    assert_close("loss", &results["loss"], &Array::scalar(1.143001528616486), 1e-12);
    assert!((norm(&results["table"]) - 0.022207753646035153).abs() < 1e-12);
    assert!((norm(&results["qkv"]) - 0.017064075870343073).abs() < 1e-12);
}

#[test]
fn padding_changes_nothing() {
    let model = encoder(3);
    let logits = |given: &Arrays| {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        trace.output("logits", model.logits(cx, BATCH));
        evaluate_exactly(&trace.finish(), given)
            .unwrap()
            .remove("logits")
            .unwrap()
    };
    let mut given = given(&model);
    let before = logits(&given);
    given.insert(
        "tokens".into(),
        Array::i32(&[2, 6], &[3, 1, 4, 1, 5, 9, 2, 6, 5, 7, 8, 9]),
    );
    assert_eq!(logits(&given), before);
}

#[test]
fn a_row_of_padding_alone_does_no_harm() {
    let model = encoder(3);
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let params = model.parameters();
    let mut quiet = model.clone();
    quiet.set_dropout(0.0);
    let outputs = quiet.forward(cx, BATCH);
    trace.output("logits", outputs.logits);
    let tensors: Vec<_> = cx.params().iter().map(|p| trace.tensor(p.value)).collect();
    for (param, gradient) in params.iter().zip(outputs.loss.grad(&tensors)) {
        trace.output(&param.name, gradient);
    }
    let mut given = given(&model);
    given.insert("labels".into(), Array::i32(&[2], &[1, -100]));
    let mask = [[1.0; 6], [0.0; 6]].concat();
    given.insert("mask".into(), Array::new(Type::new(DType::Bool, &[2, 6]), mask));
    let results = evaluate_exactly(&trace.finish(), &given).unwrap();
    assert!(results.values().all(|a| a.data.iter().all(|v| v.is_finite())));
}

#[test]
fn one_class_is_a_regression_that_counts_rows_by_weight() {
    let model = encoder(1);
    assert_eq!(model.task(), lessen_nn::Task::Regression);
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let outputs = model.forward(cx, BATCH);
    trace.output("loss", outputs.loss);
    trace.output("prediction", outputs.logits);
    let graph = trace.finish();
    let mut given = given(&model);
    given.insert("targets".into(), Array::f32(&[2], vec![1.5, -2.0]));
    let mut loss_with = |weights: [f64; 2]| {
        given.insert("weights".into(), Array::f32(&[2], weights.to_vec()));
        let results = evaluate_exactly(&graph, &given).unwrap();
        let errors = [results["prediction"].data[0] - 1.5, results["prediction"].data[1] + 2.0];
        (results["loss"].item(), errors)
    };
    let (loss, [a, b]) = loss_with([1.0, 1.0]);
    assert!((loss - (a * a + b * b) / 2.0).abs() < 1e-12);
    let (loss, [a, _]) = loss_with([1.0, 0.0]);
    assert!((loss - a * a).abs() < 1e-12);
    assert_eq!(loss_with([0.0, 0.0]).0, 0.0);
}

#[test]
fn dropout_is_there_in_training_only_and_can_be_set() {
    let mut model = encoder(3);
    let uses_key = |model: &Model, training| {
        let trace = Trace::new();
        let cx = Cx::new(*trace, training);
        model.logits(cx, BATCH);
        cx.has_input(KEY)
    };
    assert!(uses_key(&model, true) && !uses_key(&model, false));
    model.set_dropout(0.0);
    assert!(!uses_key(&model, true));
}
