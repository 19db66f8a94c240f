//! What fine-tuning changes of a step: frozen parameters, rates by layer, averages, LoRA, and how labels count.

use crate::support::{Arrays, assert_close};
use lessen_graph::{Array, DType, Graph, Tensor, Trace, Type, evaluate_exactly, verify};
use lessen_nn::layers::{conv1d, linear};
use lessen_nn::{Adapter, Context, Criterion, Init, Lora, OptimizerConfig, ParamSpec, UpdateRule, optimizer};
use std::collections::BTreeSet;

const ROWS: usize = 3;

/// A linear layer of a kind.
type Layer = for<'g> fn(&Context<'g>, &str, Tensor<'g>, usize, Init) -> Tensor<'g>;

/// A network with an embedding-like layer, two blocks and a head.
fn outputs<'g>(cx: &Context<'g>) -> Tensor<'g> {
    outputs_of(cx, linear)
}

/// The same, in which the second block has a layer of this kind.
fn outputs_of<'g>(cx: &Context<'g>, second: Layer) -> Tensor<'g> {
    let weight = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &[ROWS, 4]);
    let x = linear(cx, "embeddings.dense", x, 4, weight);
    let x = linear(cx, "layer.0.query", x, 4, weight).tanh();
    let x = second(cx, "layer.1.out", x, 4, weight).tanh();
    linear(cx, "head", x, 2, weight)
}

fn loss<'g>(cx: &Context<'g>) -> Tensor<'g> {
    let y = outputs(cx);
    (y * y).mean()
}

fn sgd() -> UpdateRule {
    UpdateRule::new(OptimizerConfig::Sgd {
        momentum: 0.0,
        nesterov: false,
        weight_decay: 0.0,
    })
}

fn lora() -> Lora {
    Lora {
        rank: 2,
        alpha: 3.0,
        rank_stabilized: false,
        dropout: 0.0,
        targets: vec!["query".into(), "layer.1.out".into()],
        fan_in_fan_out: false,
        base: String::new(),
        whole: "head.*".parse().unwrap(),
    }
}

/// Values for all inputs of a graph: small numbers that follow from the name, and zeros for averages and moments.
fn values(graph: &Graph) -> Arrays {
    let inputs = graph.inputs.iter().map(|input| {
        let ty = graph.ty(input.value).clone();
        let is_zero = input.name.starts_with("ema.") || input.name.starts_with("optimizer.");
        let sum: usize = input.name.bytes().map(usize::from).sum();
        let number = |i: usize| match (is_zero, input.name.as_str()) {
            (true, _) => 0.0,
            (_, "t") => 1.0,
            (_, "lr") => 0.5,
            _ => ((sum * 7 + i * 13) % 23) as f64 / 23.0 - 0.4,
        };
        (
            input.name.clone(),
            Array::new(ty.clone(), (0..ty.numel()).map(number).collect()),
        )
    });
    inputs.collect()
}

/// A step by a rule: its graph, its parameters and the names of its states.
fn step(rule: &UpdateRule) -> (Graph, Vec<ParamSpec>, Vec<String>) {
    let trace = Trace::new();
    let cx = Context::new(&trace, true).with_lora(rule.lora.as_ref());
    let value = loss(&cx);
    let states = optimizer::update(&cx, value, rule).states;
    let params = cx.params();
    drop(cx);
    let graph = trace.finish();
    verify(&graph).unwrap();
    (graph, params, states.into_iter().map(|state| state.name).collect())
}

/// How far a step moves each parameter: the largest change of an element.
fn moved(rule: &UpdateRule) -> Vec<(String, f64)> {
    let (graph, params, _) = step(rule);
    let before = values(&graph);
    let after = evaluate_exactly(&graph, &before).unwrap();
    let change = |name: &str| {
        let Some(after) = after.get(name) else { return 0.0 };
        let pairs = after.data.iter().zip(&before[name].data);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    params
        .iter()
        .map(|param| (param.name.clone(), change(&param.name)))
        .collect()
}

#[test]
fn frozen_parameters_have_neither_gradients_nor_states() {
    let rule = UpdateRule {
        frozen: "embeddings.*,layer.0.*".parse().unwrap(),
        ema: Some(0.9),
        ..UpdateRule::new(OptimizerConfig::adamw(0.0))
    };
    for (name, change) in moved(&rule) {
        let is_frozen = name.starts_with("embeddings.") || name.starts_with("layer.0.");
        assert_eq!(change == 0.0, is_frozen, "{name} moved by {change}");
    }
    let (graph, _, states) = step(&rule);
    assert_eq!(states.len(), 3 * 4, "{states:?}");
    assert!(
        !states
            .iter()
            .any(|state| state.contains("embeddings") || state.contains("layer.0"))
    );
    let all = step(&UpdateRule {
        frozen: Default::default(),
        ..rule
    });
    assert!(graph.nodes.len() < all.0.nodes.len());
}

#[test]
fn the_rate_decays_with_the_distance_from_the_head() {
    let (plain, decayed) = (
        moved(&sgd()),
        moved(&UpdateRule {
            layer_decay: Some(0.5),
            ..sgd()
        }),
    );
    for ((name, whole), (_, part)) in plain.iter().zip(&decayed) {
        let factor = match name.split('.').next_back().map(|_| &name[..6]) {
            Some("embedd") => 0.125,
            Some("layer.") if name.starts_with("layer.0") => 0.25,
            Some("layer.") => 0.5,
            _ => 1.0,
        };
        assert!(
            *whole > 1e-6 && (part - factor * whole).abs() < 1e-12,
            "{name}: {part} of {whole}"
        );
    }
}

#[test]
fn weight_decay_leaves_out_what_is_named() {
    let decayed = |no_decay: &str| {
        moved(&UpdateRule {
            no_decay: no_decay.parse().unwrap(),
            ..UpdateRule::new(OptimizerConfig::adamw(0.5))
        })
    };
    let (all, but_head) = (decayed(""), decayed("head.*"));
    for ((name, a), (_, b)) in all.iter().zip(&but_head) {
        assert_eq!(a != b, name == "head.weight", "{name}");
    }
}

#[test]
fn the_average_weighs_parameters_by_the_steps_since() {
    let decay: f64 = 0.8;
    let rule = UpdateRule {
        ema: Some(decay),
        ..sgd()
    };
    let (graph, _, _) = step(&rule);
    let mut state = values(&graph);
    let (mut sum, mut weight) = (vec![0.0; 12], 0.0);
    for t in 1..=4 {
        state.insert("t".into(), Array::scalar(f64::from(t)));
        state.extend(evaluate_exactly(&graph, &state).unwrap());
        for (sum, p) in sum.iter_mut().zip(&state["head.weight"].data) {
            *sum = decay * *sum + p;
        }
        weight = decay * weight + 1.0;
        for (sum, mean) in sum.iter().zip(&state["ema.head.weight"].data) {
            assert!((sum / weight - mean).abs() < 1e-9, "after step {t}");
        }
    }
    // A context over the averages computes with them.
    let trace = Trace::new();
    let names = BTreeSet::from(["head.weight".to_string()]);
    let cx = Context::new(&trace, false).with_averages(&names);
    let y = outputs(&cx);
    trace.output("y", y);
    assert!(cx.params().iter().any(|param| param.name == "head.weight"));
    drop(cx);
    let averaged = trace.finish();
    let read: Vec<&str> = averaged.inputs.iter().map(|input| input.name.as_str()).collect();
    assert!(read.contains(&"ema.head.weight") && read.contains(&"head.bias") && !read.contains(&"head.weight"));
}

/// The outputs of the network, with adapters or without.
fn traced(lora: Option<&Lora>, second: Layer) -> (Graph, Vec<ParamSpec>) {
    let trace = Trace::new();
    let cx = Context::new(&trace, false).with_lora(lora);
    let y = outputs_of(&cx, second);
    trace.output("y", y);
    trace.output("loss", (y * y).mean());
    let params = cx.params();
    drop(cx);
    (trace.finish(), params)
}

#[test]
fn an_adapter_adds_its_product_to_the_weight() {
    let transposed = Lora {
        targets: vec!["out".into()],
        fan_in_fan_out: true,
        ..lora()
    };
    let both = ["layer.0.query.weight", "layer.1.out.weight"];
    for (lora, second, expected) in [(lora(), linear as Layer, &both[..]), (transposed, conv1d, &both[1..])] {
        check_merge(&lora, second, expected);
    }
}

/// The weights with the adapters in them give the same outputs.
fn check_merge(lora: &Lora, second: Layer, adapted_weights: &[&str]) {
    let (adapted, params) = traced(Some(lora), second);
    let given = values(&adapted);
    let expected = evaluate_exactly(&adapted, &given).unwrap();
    let adapters = Adapter::of(&params);
    let weights: Vec<String> = adapters.iter().map(Adapter::weight).collect();
    assert_eq!(weights, adapted_weights);
    let mut merged = given.clone();
    for adapter in &adapters {
        let floats = |name: &str| given[name].data.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let (a, b) = (floats(&adapter.a()), floats(&adapter.b()));
        let mut weight = floats(&adapter.weight());
        // In two parts, as a file is written.
        let (start, end) = weight.split_at_mut(5);
        adapter.merge((lora.scale(), lora.fan_in_fan_out), (&a, &b), 0, start);
        adapter.merge((lora.scale(), lora.fan_in_fan_out), (&a, &b), 5, end);
        let shape = given[&adapter.weight()].ty.shape.clone();
        let array = Array::f32(&shape, weight.into_iter().map(f64::from).collect());
        merged.insert(adapter.weight(), array);
    }
    let is_plain = |name: &String| !name.contains("lora_");
    merged.retain(|name, _| is_plain(name));
    let (plain, _) = traced(None, second);
    let found = evaluate_exactly(&plain, &merged).unwrap();
    assert_close("y", &found["y"], &expected["y"], 1e-5);
    let untouched = given.into_iter().filter(|(name, _)| is_plain(name)).collect();
    let untouched = evaluate_exactly(&plain, &untouched).unwrap();
    assert!(untouched["y"] != expected["y"], "the adapters do something");
}

#[test]
fn a_step_of_lora_follows_the_gradients_of_its_adapters() {
    let rule = UpdateRule {
        lora: Some(lora()),
        ..sgd()
    };
    let (graph, params, states) = step(&rule);
    assert!(states.is_empty());
    let before = values(&graph);
    let after = evaluate_exactly(&graph, &before).unwrap();
    let (forward, _) = traced(Some(&lora()), linear);
    let loss_at = |given: &Arrays| {
        let mut given = given.clone();
        given.retain(|name, _| forward.inputs.iter().any(|input| input.name == *name));
        evaluate_exactly(&forward, &given).unwrap()["loss"].item()
    };
    for ParamSpec { name, .. } in &params {
        let is_trained = name.contains("lora_") || name.starts_with("head.");
        assert_eq!(after.contains_key(name), is_trained, "{name}");
        for i in 0..if is_trained { before[name].data.len() } else { 0 } {
            let shifted = |by: f64| {
                let mut given = before.clone();
                given.get_mut(name).unwrap().data[i] += by;
                loss_at(&given)
            };
            let slope = (shifted(1e-4) - shifted(-1e-4)) / 2e-4;
            let gradient = (before[name].data[i] - after[name].data[i]) / 0.5;
            assert!((slope - gradient).abs() < 1e-6, "{name}[{i}]: {gradient} for {slope}");
        }
    }
}

#[test]
fn adapters_begin_as_nothing() {
    let (_, params) = traced(Some(&lora()), linear);
    let adapters = Adapter::of(&params);
    assert_eq!(adapters.len(), 2);
    for adapter in adapters {
        let find = |name: String| params.iter().find(|param| param.name == name).unwrap();
        let (a, b) = (find(adapter.a()), find(adapter.b()));
        let bound = 1.0 / (adapter.inputs as f64).sqrt();
        assert_eq!((a.init, b.init), (Init::Uniform { bound }, Init::Zeros));
        assert_eq!((&a.shape[..], &b.shape[..]), (&[2, 4][..], &[4, 2][..]));
    }
}

/// The loss of a classifier of three classes by hand: labels, then the weights of classes.
fn classifier_loss(criterion: &Criterion, labels: &[i32]) -> f64 {
    use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
    use lessen_nn::{BatchShape, Model, numbered_labels};
    let config = EncoderConfig {
        vocab_size: 8,
        width: 4,
        layers: 1,
        heads: 1,
        ffn: 4,
        max_length: 2,
        labels: numbered_labels(3),
        ..EncoderConfig::default()
    };
    let model = Model::from(LessenEncoder { config });
    let trace = Trace::new();
    let cx = Context::new(&trace, false).with_criterion(criterion);
    let batch = BatchShape::Padded {
        size: labels.len(),
        length: 2,
    };
    let outputs = model.forward(&cx, batch);
    trace.output("loss", outputs.loss);
    trace.output("logits", outputs.logits);
    drop(cx);
    let graph = trace.finish();
    let mut given = values(&graph);
    given.insert("labels".into(), Array::i32(&[labels.len()], labels));
    let tokens: Vec<i32> = (0..2 * labels.len() as i32).map(|i| i % 8).collect();
    given.insert("tokens".into(), Array::i32(&[labels.len(), 2], &tokens));
    let mask = Type::new(DType::Bool, &[labels.len(), 2]);
    given.insert("mask".into(), Array::full(mask, 1.0));
    let results = evaluate_exactly(&graph, &given).unwrap();
    let (mut sum, mut whole) = (0.0, 0.0);
    for (logits, &label) in results["logits"].data.chunks(3).zip(labels) {
        if label < 0 {
            continue;
        }
        let log_sum = logits.iter().map(|z| z.exp()).sum::<f64>().ln();
        let weight = criterion
            .class_weights
            .as_ref()
            .map_or(1.0, |w| f64::from(w[label as usize]));
        let s = criterion.smoothing;
        let target = |class: usize| f64::from(class == label as usize) * (1.0 - s) + s / 3.0;
        let own: f64 = (0..3).map(|class| target(class) * (log_sum - logits[class])).sum();
        sum += weight * own;
        whole += weight;
    }
    let expected = if whole > 0.0 { sum / whole } else { 0.0 };
    let found = results["loss"].item();
    assert!(
        (found - expected).abs() < 1e-9,
        "{found} for {expected} with {criterion:?}"
    );
    found
}

#[test]
fn smoothing_and_class_weights_count_labels_as_they_say() {
    let labels = [2, 0, -100, 1, 2];
    let criterion = |smoothing, class_weights| Criterion {
        smoothing,
        class_weights,
    };
    let weights = Some(vec![0.5, 1.0, 3.0]);
    let losses = [
        classifier_loss(&criterion(0.0, None), &labels),
        classifier_loss(&criterion(0.1, None), &labels),
        classifier_loss(&criterion(0.0, weights.clone()), &labels),
        classifier_loss(&criterion(0.1, weights.clone()), &labels),
    ];
    for (i, loss) in losses.iter().enumerate() {
        assert!(
            losses[..i].iter().all(|other| (other - loss).abs() > 1e-6),
            "{losses:?}"
        );
    }
    // Equal weights are none, and a batch without labels has no loss.
    let equal = classifier_loss(&criterion(0.0, Some(vec![2.0; 3])), &labels);
    assert!((equal - losses[0]).abs() < 1e-12);
    assert_eq!(classifier_loss(&criterion(0.0, weights), &[-100, -100]), 0.0);
}

#[test]
fn several_labels_of_a_text_have_binary_cross_entropies() {
    use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
    use lessen_nn::{BatchShape, Model, Task, numbered_labels};
    let config = EncoderConfig {
        vocab_size: 8,
        width: 4,
        layers: 1,
        heads: 1,
        ffn: 4,
        max_length: 2,
        labels: numbered_labels(3),
        multi_label: true,
        ..EncoderConfig::default()
    };
    let model = Model::from(LessenEncoder { config });
    assert_eq!(model.task(), Task::MultiLabelClassification { classes: 3 });
    let trace = Trace::new();
    let cx = Context::new(&trace, false);
    let outputs = model.forward(&cx, BatchShape::Padded { size: 3, length: 2 });
    trace.output("loss", outputs.loss);
    trace.output("logits", outputs.logits);
    drop(cx);
    let graph = trace.finish();
    let mut given = values(&graph);
    let targets = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    given.insert("targets".into(), Array::f32(&[3, 3], targets.to_vec()));
    // The last row is padding.
    given.insert("weights".into(), Array::f32(&[3], vec![1.0, 1.0, 0.0]));
    given.insert("tokens".into(), Array::i32(&[3, 2], &[0, 1, 2, 3, 4, 5]));
    given.insert("mask".into(), Array::full(Type::new(DType::Bool, &[3, 2]), 1.0));
    // Logits so large that a plain logarithm of the probability would be infinite.
    let bias = Array::f32(&[3], vec![800.0, -800.0, 0.5]);
    given.insert("classifier.bias".into(), bias);
    let results = evaluate_exactly(&graph, &given).unwrap();
    let softplus = |z: f64| z.max(0.0) + (-z.abs()).exp().ln_1p();
    let rows = results["logits"].data.iter().zip(&targets).take(6);
    let expected: f64 = rows
        .map(|(&z, &y)| y * softplus(-z) + (1.0 - y) * softplus(z))
        .sum::<f64>()
        / 6.0;
    let found = results["loss"].item();
    assert!(
        found > 100.0 && (found - expected).abs() < 1e-9 * expected,
        "{found} for {expected}"
    );

    // The configuration says so to transformers, and is read back.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("config.json"),
        serde_json::to_string(&model.config_json()).unwrap(),
    )
    .unwrap();
    assert_eq!(model.config_json()["problem_type"], "multi_label_classification");
    assert_eq!(Model::from_dir(dir.path()).unwrap().task(), model.task());
}
