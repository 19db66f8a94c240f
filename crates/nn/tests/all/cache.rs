//! Generation with a key/value cache gives the logits of the whole text at once.

use crate::support::{Arrays, arrays, assert_close, model};
use lessen_graph::{Array, DType, Graph, Trace, Type, evaluate_exactly, verify};
use lessen_nn::models::gpt2::GPT2LMHeadModel;
use lessen_nn::{AttentionConfig, BatchShape, Context, Model, Position, initialize_missing};

const TEXTS: usize = 2;
const LENGTH: usize = 9;
const PROMPT: usize = 4;
const CAPACITY: usize = 12;
const TOKENS: [[i32; LENGTH]; TEXTS] = [[5, 17, 3, 59, 0, 22, 8, 41, 30], [12, 12, 7, 1, 33, 9, 50, 2, 26]];

fn gpt2() -> (GPT2LMHeadModel, Arrays) {
    gpt2_with(AttentionConfig::default())
}

/// The recorded model with another attention, whose own parameters are drawn.
fn gpt2_with(attention: AttentionConfig) -> (GPT2LMHeadModel, Arrays) {
    let (mut model, mut weights) = model("gpt2-tiny");
    model.set_attention(attention).unwrap();
    let parameters = model.parameters();
    initialize_missing(&mut weights, &parameters, 1);
    weights.retain(|name, _| parameters.iter().any(|param| param.name == *name));
    let Model::GPT2LMHeadModel(model) = model else {
        panic!("another model")
    };
    (model, arrays(&weights))
}

fn graph(build: impl for<'g> Fn(&Context<'g>) -> lessen_graph::Tensor<'g>) -> Graph {
    let trace = Trace::new();
    let cx = Context::new(&trace, false);
    let logits = build(&cx);
    trace.output("logits", logits);
    let graph = trace.finish();
    verify(&graph).unwrap();
    graph
}

fn tokens(from: usize, to: usize, padding: usize) -> Array {
    let row = |text: &[i32; LENGTH]| [&text[from..to], &vec![58; padding]].concat();
    Array::i32(
        &[TEXTS, to - from + padding],
        &TOKENS.iter().flat_map(row).collect::<Vec<i32>>(),
    )
}

/// Scores `[TEXTS, LENGTH, vocabulary]` of the whole texts, and of them those at one place.
fn whole(model: &GPT2LMHeadModel, weights: &Arrays) -> impl Fn(usize) -> Array {
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
    given.insert("tokens".into(), tokens(0, LENGTH, 0));
    let logits = evaluate_exactly(&all, &given).unwrap().remove("logits").unwrap();
    move |place| {
        let vocabulary = logits.ty.shape[2];
        let ty = Type::f32(&[TEXTS, vocabulary]);
        Array::from_fn(ty, |index| logits.at(&[index[0], place, index[1]]))
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
            let (model, weights) = gpt2_with(attention);
            check(&format!("{weighting}, {position}"), &model, &weights);
        }
    }
}

fn check(what: &str, model: &GPT2LMHeadModel, weights: &Arrays) {
    let expected = whole(model, weights);
    for padding in [0, 3] {
        let prefill = graph(|cx| model.prefill(cx, [TEXTS, PROMPT + padding], CAPACITY));
        let decode = graph(|cx| model.decode(cx, TEXTS, CAPACITY));
        let run = |graph: &Graph, state: &mut Arrays, tokens: Array, position: usize| {
            let mut given = state.clone();
            given.insert("tokens".into(), tokens);
            given.insert(
                "position".into(),
                Array::new(Type::new(DType::I32, &[]), vec![position as f64]),
            );
            let mut results = evaluate_exactly(graph, &given).unwrap();
            let logits = results.remove("logits").unwrap();
            assert_eq!(results.len(), model.cache_states(TEXTS, CAPACITY).len());
            state.extend(results);
            logits
        };
        // The initial values of the cache do not matter.
        let mut state = weights.clone();
        for spec in model.cache_states(TEXTS, CAPACITY) {
            state.insert(spec.name, Array::full(Type::f32(&spec.shape), 7.0));
        }
        let logits = run(&prefill, &mut state, tokens(0, PROMPT, padding), PROMPT - 1);
        assert_close(
            &format!("the prompt's scores, {what}"),
            &logits,
            &expected(PROMPT - 1),
            1e-12,
        );
        for place in PROMPT..LENGTH {
            let logits = run(&decode, &mut state, tokens(place, place + 1, 0), place);
            assert_close(
                &format!("the scores at {place}, {what}"),
                &logits,
                &expected(place),
                1e-12,
            );
        }
    }
}

#[test]
fn both_graphs_use_the_parameters_of_the_model() {
    let (model, weights) = gpt2();
    for decoding in [false, true] {
        let trace = Trace::new();
        let cx = Context::new(&trace, false);
        if decoding {
            model.decode(&cx, 1, CAPACITY);
        } else {
            model.prefill(&cx, [1, 5], CAPACITY);
        }
        let mut names: Vec<String> = cx.params().into_iter().map(|p| p.name).collect();
        names.sort();
        assert_eq!(
            names,
            weights
                .keys()
                .cloned()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
    }
}
