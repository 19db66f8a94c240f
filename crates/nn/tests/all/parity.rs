//! Models against recorded results of transformers: logits, loss, gradients, and five AdamW steps.

use crate::support::{Arrays, arrays, assert_close, expected, model, part};
use lessen_graph::{Array, DType, Graph, Trace, evaluate_exactly, verify};
use lessen_nn::names::KEY;
use lessen_nn::{BatchShape, Cx, Model, OptimizerConfig, UpdateRule, optimizer};

const BATCH: BatchShape = BatchShape::Padded { size: 4, length: 12 };
const STEPS: usize = 5;
/// Recorded values are rounded to `f32`; both sides compute in `f64`.
const TOLERANCE: f64 = 1e-6;

fn inputs(recorded: &Arrays, batch: usize) -> Arrays {
    let names = [
        ("tokens", "input_ids", DType::I32),
        ("mask", "attention_mask", DType::Bool),
        ("types", "token_type_ids", DType::I32),
        ("labels", "labels", DType::I32),
        ("answers", "answers", DType::I32),
        ("targets", "targets", DType::F32),
    ];
    let there = names
        .into_iter()
        .filter(|(_, theirs, _)| recorded.contains_key(*theirs));
    let given = there.map(|(ours, theirs, dtype)| (ours.to_string(), part(&recorded[theirs], batch, dtype)));
    let weights = recorded
        .contains_key("targets")
        .then(|| Array::f32(&[BATCH.size()], vec![1.0; BATCH.size()]));
    given.chain(weights.map(|ones| ("weights".to_string(), ones))).collect()
}

/// Loss, scores and gradients in one graph.
fn gradients(model: &Model) -> Graph {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let outputs = model.forward(cx, BATCH);
    trace.output("loss", outputs.loss);
    trace.output("logits", outputs.logits);
    let params = cx.params();
    let tensors: Vec<_> = params.iter().map(|p| trace.tensor(p.value)).collect();
    for (param, gradient) in params.iter().zip(outputs.loss.grad(&tensors)) {
        trace.output(&format!("grad.{}", param.name), gradient);
    }
    assert!(!cx.has_input(KEY), "without dropout nothing is random");
    trace.finish()
}

fn training(model: &Model) -> (Graph, Vec<lessen_nn::StateSpec>) {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let outputs = model.forward(cx, BATCH);
    trace.output("loss", outputs.loss);
    let rule = UpdateRule::new(OptimizerConfig::adamw(0.01));
    let states = optimizer::update(cx, outputs.loss, &rule).states;
    (trace.finish(), states)
}

/// Zeros where logits are of padding, whose positions are not the same in RoBERTa.
fn real(logits: &Array, recorded: &Arrays) -> Array {
    let Some(mask) = recorded.get("attention_mask").filter(|_| logits.ty.shape.len() == 3) else {
        return logits.clone();
    };
    let width = logits.ty.shape[2];
    let real = mask.data.iter().flat_map(|&real| std::iter::repeat_n(real, width));
    let data = logits.data.iter().zip(real).map(|(logit, real)| logit * real).collect();
    Array::new(logits.ty.clone(), data)
}

fn check(name: &str) {
    let (model, weights) = model(name);
    let recorded = expected(name);

    let graph = gradients(&model);
    verify(&graph).unwrap();
    let mut given = arrays(&weights);
    given.extend(inputs(&recorded, 0));
    let results = evaluate_exactly(&graph, &given).unwrap();
    assert_close("loss", &results["loss"], &recorded["loss"], TOLERANCE);
    let (got, theirs) = (&results["logits"], &recorded["logits"]);
    assert_close("logits", &real(got, &recorded), &real(theirs, &recorded), TOLERANCE);
    for name in weights.keys() {
        let name = format!("grad.{name}");
        assert_close(&name, &results[&name], &recorded[&name], TOLERANCE);
    }
    let recorded_gradients = recorded.keys().filter(|k| k.starts_with("grad.")).count();
    assert_eq!(
        recorded_gradients,
        weights.len(),
        "every tensor of transformers is a parameter of ours"
    );

    let (graph, states) = training(&model);
    verify(&graph).unwrap();
    let mut state = arrays(&weights);
    for spec in &states {
        state.insert(
            spec.name.clone(),
            Array::full(lessen_graph::Type::f32(&spec.shape), 0.0),
        );
    }
    for step in 0..STEPS {
        let mut given = state.clone();
        given.extend(inputs(&recorded, step));
        given.insert("@lr".into(), Array::scalar(1e-3));
        given.insert("@t".into(), Array::scalar((step + 1) as f64));
        let mut results = evaluate_exactly(&graph, &given).unwrap();
        let loss = results.remove("loss").unwrap();
        let theirs = part(&recorded["losses"], step, DType::F32);
        assert_close(&format!("loss of step {step}"), &loss, &theirs, TOLERANCE);
        assert_eq!(results.len(), state.len(), "every parameter and state is updated");
        state = results;
    }
    for name in weights.keys() {
        assert_close(name, &state[name], &recorded[&format!("final.{name}")], TOLERANCE);
    }
}

#[test]
fn bert_classifier() {
    check("bert-tiny-cls");
}

#[test]
fn bert_masked_language_model() {
    check("bert-tiny-mlm");
}

#[test]
fn roberta() {
    check("roberta-tiny-cls");
    check("roberta-tiny-mlm");
    check("roberta-tiny-token");
}

#[test]
fn distilbert() {
    check("distilbert-tiny-cls");
    check("distilbert-tiny-mlm");
    check("distilbert-tiny-qa");
}

#[test]
fn mpnet() {
    check("mpnet-tiny-cls");
    check("mpnet-tiny-mlm");
    check("mpnet-tiny-token");
    check("mpnet-tiny-qa");
}

#[test]
fn regression() {
    check("distilbert-tiny-regression");
}

#[test]
fn several_labels_of_a_text() {
    check("roberta-tiny-multi");
}

#[test]
fn gpt2_language_model() {
    check("gpt2-tiny");
}

#[test]
fn llama_language_model() {
    check("llama-tiny");
    check("llama-biased-tiny");
}

#[test]
fn olmo_language_model() {
    check("olmo-tiny");
}

#[test]
fn qwen2_language_model() {
    check("qwen2-tiny");
}

#[test]
fn gpt_neox_language_models() {
    check("gpt-neox-tiny");
    check("gpt-neox-sequential-tiny");
}

#[test]
fn gptj_language_model() {
    check("gptj-tiny");
}
