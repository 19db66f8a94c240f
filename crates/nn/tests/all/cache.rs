//! Generation with a key/value cache gives the logits of the whole text at once.

use crate::support::{Arrays, arrays, assert_close, model};
use lessen_graph::{Array, DType, Graph, Trace, Type, evaluate_exactly, verify};
use lessen_nn::models::decoder::Decoder;
use lessen_nn::models::llama::LlamaConfig;
use lessen_nn::{AttentionConfig, BatchShape, Cx, Position, Rotary, initialize_missing};

const TEXTS: usize = 2;
const LENGTH: usize = 9;
/// Tokens of the prompts.
const PROMPTS: [usize; TEXTS] = [4, 6];
const CAPACITY: usize = 12;
const TOKENS: [[i32; LENGTH]; TEXTS] = [[5, 17, 3, 59, 0, 22, 8, 41, 30], [12, 12, 7, 1, 33, 9, 50, 2, 26]];

/// A recorded model with another attention, whose own parameters are drawn.
fn decoder_with(name: &str, attention: AttentionConfig) -> (Decoder, Arrays) {
    let (mut model, mut weights) = model(name);
    model.set_attention(attention).unwrap();
    let parameters = model.parameters();
    initialize_missing(&mut weights, &parameters, 1);
    weights.retain(|name, _| parameters.iter().any(|param| param.name == *name));
    (model.decoder().unwrap(), arrays(&weights))
}

fn graph(build: impl Fn(Cx) -> lessen_graph::Tensor) -> Graph {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let logits = build(cx);
    trace.output("logits", logits);
    let graph = trace.finish();
    verify(&graph).unwrap();
    graph
}

/// Scores `[TEXTS, vocabulary]` of the whole texts at one place of each.
fn whole(model: &Decoder, weights: &Arrays) -> impl Fn([usize; TEXTS]) -> Array {
    let all = graph(|cx| {
        model.logits(
            cx,
            BatchShape::Padded {
                size: TEXTS,
                length: LENGTH,
            },
        )
    });
    let mut given = weights.clone();
    given.insert("tokens".into(), Array::i32(&[TEXTS, LENGTH], TOKENS.as_flattened()));
    let logits = evaluate_exactly(&all, &given).unwrap().remove("logits").unwrap();
    move |places| {
        let vocabulary = logits.ty.shape[2];
        let ty = Type::f32(&[TEXTS, vocabulary]);
        Array::from_fn(ty, |index| logits.at(&[index[0], places[index[0]], index[1]]))
    }
}

#[test]
fn prompt_and_continuation_equal_the_whole_text() {
    for position in Position::ALL {
        for weighting in [
            "softmax",
            "norm_softmax:gamma=inf,learned",
            "logit_norm",
            "relu:keys",
            "sigmoid:keys",
        ] {
            let attention = AttentionConfig {
                weighting: weighting.parse().unwrap(),
                position,
                ..AttentionConfig::default()
            };
            let (model, weights) = decoder_with("gpt2-tiny", attention);
            check(&format!("{weighting}, {position}"), &model, &weights);
        }
    }
}

fn check(what: &str, model: &Decoder, weights: &Arrays) {
    let expected = whole(model, weights);
    for padding in [0, 3] {
        let length = PROMPTS[1] + padding;
        let prefill = graph(|cx| model.prefill(cx, [TEXTS, length], CAPACITY));
        let decode = graph(|cx| model.decode(cx, TEXTS, CAPACITY));
        let run = |graph: &Graph, state: &mut Arrays, tokens: Array, places: [usize; TEXTS]| {
            let mut given = state.clone();
            given.insert("tokens".into(), tokens);
            let positions = places.map(|place| place as i32);
            given.insert("position".into(), Array::i32(&[TEXTS], &positions));
            let mut results = evaluate_exactly(graph, &given).unwrap();
            let logits = results.remove("logits").unwrap();
            assert_eq!(results.len(), model.cache_states(TEXTS, CAPACITY).len());
            state.extend(results);
            logits
        };
        // The initial values of the cache do not matter, nor do the tokens after a prompt.
        let mut state = weights.clone();
        for spec in model.cache_states(TEXTS, CAPACITY) {
            state.insert(spec.name, Array::full(Type::f32(&spec.shape), 7.0));
        }
        let prompts = Array::from_fn(Type::new(DType::I32, &[TEXTS, length]), |at| {
            if at[1] < PROMPTS[at[0]] {
                TOKENS[at[0]][at[1]].into()
            } else {
                58.0
            }
        });
        let mut places = PROMPTS.map(|length| length - 1);
        let logits = run(&prefill, &mut state, prompts, places);
        assert_close(
            &format!("the prompts' scores, {what}"),
            &logits,
            &expected(places),
            1e-12,
        );
        while places[1] + 1 < LENGTH {
            places = places.map(|place| place + 1);
            let tokens = [TOKENS[0][places[0]], TOKENS[1][places[1]]];
            let logits = run(&decode, &mut state, Array::i32(&[TEXTS, 1], &tokens), places);
            assert_close(
                &format!("the scores at {places:?}, {what}"),
                &logits,
                &expected(places),
                1e-12,
            );
        }
    }
}

#[test]
fn parts_of_heads_and_interleaved_pairs_are_cached_too() {
    for name in ["gpt-neox-tiny", "gpt-neox-sequential-tiny", "gptj-tiny"] {
        let own = model(name).0.attention();
        assert!(own.rotary.width.is_some() && own.rotary.interleaved == (name == "gptj-tiny"));
        for position in Position::ALL {
            let (model, weights) = decoder_with(name, AttentionConfig { position, ..own });
            check(&format!("{name}, {position}"), &model, &weights);
        }
    }
}

#[test]
fn grouped_queries_and_scaled_angles_are_cached_too() {
    for name in ["llama-tiny", "olmo-tiny", "qwen2-tiny"] {
        for position in Position::ALL {
            let attention = AttentionConfig {
                position,
                ..LlamaConfig::ATTENTION
            };
            let (model, weights) = decoder_with(name, attention);
            check(&format!("{name}, {position}"), &model, &weights);
        }
        let own = model(name).0.attention();
        assert_ne!(own.rotary, Rotary::DEFAULT);
        let (model, weights) = decoder_with(name, own);
        check(name, &model, &weights);
    }
}

#[test]
fn both_graphs_use_the_parameters_of_the_model() {
    let (model, weights) = decoder_with("gpt2-tiny", AttentionConfig::default());
    for decoding in [false, true] {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        if decoding {
            model.decode(cx, 1, CAPACITY);
        } else {
            model.prefill(cx, [1, 5], CAPACITY);
        }
        let names: std::collections::BTreeSet<String> = cx.params().into_iter().map(|p| p.name).collect();
        assert_eq!(names, weights.keys().cloned().collect());
    }
}
