//! LoRA: what adapters add, how they are trained, and how they are merged.

use crate::fine_tuning::{Layer, outputs_of, sgd, step, values};
use crate::support::{Arrays, assert_close};
use lessen_graph::{Array, Graph, Trace, evaluate_exactly};
use lessen_nn::layers::{gpt2_linear, linear};
use lessen_nn::{Adapter, Cx, Init, Lora, ParamSpec, UpdateRule};

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

/// The outputs of the network, with adapters or without.
fn traced(lora: Option<&Lora>, second: Layer) -> (Graph, Vec<ParamSpec>) {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false).with_lora(lora);
    let y = outputs_of(cx, second);
    trace.output("y", y);
    trace.output("loss", (y * y).mean());
    let params = cx.params();
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
    for (lora, second, expected) in [
        (lora(), linear as Layer, &both[..]),
        (transposed, gpt2_linear, &both[1..]),
    ] {
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
        let mut weight = given[&adapter.weight()].data.clone();
        // In two parts, as a file is written.
        let (start, end) = weight.split_at_mut(5);
        adapter.merge((lora.scale(), lora.fan_in_fan_out), (&a, &b), 0, start);
        adapter.merge((lora.scale(), lora.fan_in_fan_out), (&a, &b), 5, end);
        let shape = given[&adapter.weight()].ty.shape.clone();
        let array = Array::f32(&shape, weight.into_iter().map(|x| f64::from(x as f32)).collect());
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
