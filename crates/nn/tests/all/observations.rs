//! What the models observe: the names, and the statistics of attention against plain loops.

use std::collections::{BTreeSet, HashMap};

use crate::small_models::{BATCH, given, models};
use lessen_graph::{Array, DType, Trace, Type, evaluate, evaluate_exactly};
use lessen_nn::layers::{Attend, attend};
use lessen_nn::models::bert::{Bert, BertConfig, Head};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{Activation, AttentionConfig, BatchShape, Cx, Model, Selection};

/// The names of the values that a model of one layer observes.
fn observed(model: impl Into<Model>) -> Vec<String> {
    let trace = Trace::new();
    let cx = Cx::recording(*trace, true, &Selection::all());
    model.into().forward(cx, BatchShape::Padded { size: 2, length: 8 });
    let recorded = cx.recorded().unwrap();
    let value = |name: &str| name.split_once('/').map(|(value, _)| value.to_string());
    let names: BTreeSet<String> = recorded.iter().filter_map(|r| value(&r.name)).collect();
    names.into_iter().collect()
}

#[test]
fn every_model_observes_activations_attention_and_logits() {
    let gpt2 = Gpt2Config {
        n_layer: 1,
        ..Gpt2Config::default()
    };
    assert_eq!(
        observed(GPT2LMHeadModel { config: gpt2 }),
        [
            "logits",
            "probabilities",
            "transformer.h.0.attn.attention_scores",
            "transformer.h.0.attn.attention_weights",
            "transformer.h.0.mlp.pre_activation",
        ]
    );
    let encoder = EncoderConfig {
        layers: 1,
        ..EncoderConfig::default()
    };
    assert_eq!(
        observed(LessenEncoder { config: encoder }),
        [
            "layers.0.attention.attention_scores",
            "layers.0.attention.attention_weights",
            "layers.0.mlp.pre_activation",
            "logits",
            "probabilities",
        ]
    );
    let config = BertConfig {
        num_hidden_layers: 1,
        ..BertConfig::default()
    };
    let layer = [
        "bert.encoder.layer.0.attention.self.attention_scores",
        "bert.encoder.layer.0.attention.self.attention_weights",
        "bert.encoder.layer.0.intermediate.pre_activation",
    ];
    let classifier = Bert {
        config: config.clone(),
        head: Head::SequenceClassification,
    };
    let head = ["bert.pooler.pre_activation", "logits", "probabilities"];
    assert_eq!(observed(classifier), [layer, head].concat());
    let head = ["cls.predictions.transform.pre_activation", "logits", "probabilities"];
    assert_eq!(
        observed(Bert {
            config,
            head: Head::MaskedLM
        }),
        [layer, head].concat()
    );
}

const SHAPE: [usize; 4] = [2, 4, 2, 3];

/// Scores and weights of one query.
type Row = (Vec<f64>, Vec<f64>);

/// The rows of the keys that real queries see, in plain loops.
fn rows(q: &Array, k: &Array, mask: Option<&Array>, causal: bool) -> Vec<Row> {
    let [batch, length, heads, width] = SHAPE;
    let mut rows = Vec::new();
    for (b, h, i) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..length).map(move |i| (b, h, i)))) {
        let is_real = |t: usize| mask.is_none_or(|mask| mask.at(&[b, t]) != 0.0);
        let seen = (0..length).filter(|&j| is_real(i) && is_real(j) && (!causal || j <= i));
        let product = |j: usize| {
            (0..width)
                .map(|d| q.at(&[b, i, h, d]) * k.at(&[b, j, h, d]))
                .sum::<f64>()
        };
        let scores: Vec<f64> = seen.map(|j| product(j) / (width as f64).sqrt()).collect();
        let total: f64 = scores.iter().map(|s| s.exp()).sum();
        let weights = scores.iter().map(|s| s.exp() / total).collect();
        rows.push((scores, weights));
    }
    rows.retain(|(scores, _)| !scores.is_empty());
    rows
}

#[test]
fn statistics_of_attention_are_those_of_the_keys_that_queries_see() {
    let mut random = lessen_base::SplitMix64::new(4);
    let mut numbers = || Array::from_fn(Type::f32(&SHAPE), |_| 4.0 * random.unit() - 2.0);
    let (q, k) = (numbers(), numbers());
    let padding = Array::new(
        Type::new(DType::Bool, &SHAPE[..2]),
        vec![1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0],
    );
    for (mask, causal) in [
        (None, false),
        (None, true),
        (Some(&padding), false),
        (Some(&padding), true),
    ] {
        let trace = Trace::new();
        let cx = Cx::recording(*trace, false, &"attention".parse().unwrap());
        let [x, y] = ["q", "k"].map(|name| trace.input(name, DType::F32, &SHAPE));
        let how = Attend {
            heads: SHAPE[2],
            causal,
            mask: mask.map(|mask| trace.input("mask", DType::Bool, &mask.ty.shape)),
            ..Attend::default()
        };
        attend(cx, x, y, y, how);
        cx.recorded()
            .unwrap()
            .iter()
            .for_each(|r| trace.output(&r.name, r.value));
        let given = [("q", Some(&q)), ("k", Some(&k)), ("mask", mask)];
        let inputs = given
            .into_iter()
            .filter_map(|(name, array)| Some((name.to_string(), array?.clone())));
        let found = evaluate(&trace.finish(), &inputs.collect::<HashMap<_, _>>()).unwrap();

        let rows = rows(&q, &k, mask, causal);
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let values: Vec<f64> = values.collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        let deviation = |row: &[f64]| {
            let center = mean(&mut row.iter().copied());
            mean(&mut row.iter().map(|x| (x - center).powi(2))).sqrt()
        };
        let all = |pick: fn(&Row) -> &Vec<f64>| rows.iter().flat_map(pick).copied();
        for (name, expected) in [
            ("attention_scores/count", all(|row| &row.0).count() as f64),
            ("attention_scores/mean", mean(&mut all(|row| &row.0))),
            (
                "attention_scores/max",
                all(|row| &row.0).fold(f64::NEG_INFINITY, f64::max),
            ),
            (
                "attention_scores/row_std",
                mean(&mut rows.iter().map(|row| deviation(&row.0))),
            ),
            ("attention_weights/mean", mean(&mut all(|row| &row.1))),
            ("attention_weights/zeros", 0.0),
            (
                "attention_weights/entropy",
                mean(&mut rows.iter().map(|row| row.1.iter().map(|p| -p * p.ln()).sum::<f64>())),
            ),
        ] {
            let value = found[name].item();
            assert!(
                (value - expected).abs() < 1e-5,
                "{name} is {value}, not {expected}, {causal} {mask:?}"
            );
        }
    }
}

#[test]
fn scores_are_formed_of_a_few_sequences() {
    for (batch, length, sequences) in [(64, 256, 32), (3, 16, 3), (2, 2048, 1)] {
        let trace = Trace::new();
        let cx = Cx::recording(*trace, true, &Selection::all());
        let [q, k] = ["q", "k"].map(|name| trace.input(name, DType::F32, &[batch, length, 2, 4]));
        let how = Attend {
            heads: 2,
            causal: true,
            dropout: 0.5,
            ..Attend::default()
        };
        attend(cx, q, k, k, how);
        let formed = Type::f32(&[sequences, 2, length, length]);
        let products = trace.with_graph(|graph| {
            let nodes = graph.nodes.iter().filter(|node| node.op.name() == "matmul");
            nodes.map(|node| graph.ty(node.outputs[0]).clone()).collect::<Vec<_>>()
        });
        assert_eq!(products, [formed]);
        assert_eq!(
            trace.new_stream(),
            1,
            "the only stream is that of the attention's dropout"
        );
    }
}

#[test]
fn helu_records_the_share_that_only_it_lets_learn() {
    let mut model = models(AttentionConfig::default()).remove(3);
    model.set_activation(Activation::Helu(0.5));
    let trace = Trace::new();
    let cx = Cx::recording(*trace, false, &Selection::all());
    model.forward(cx, BATCH);
    let recorded = cx.recorded().unwrap();
    let name = "transformer.h.0.mlp.pre_activation/only_helu_learns";
    let share = recorded.iter().find(|recorded| recorded.name == name).unwrap();
    trace.output("share", share.value);
    let share = evaluate_exactly(&trace.finish(), &given(&model)).unwrap()["share"].item();
    assert!(share > 0.0 && share < 1.0, "{share}");
}
