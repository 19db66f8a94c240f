//! Continuing a text with keys and values kept says the same as reading the whole text anew for every token.

use crate::support::device;
use lessen_compile::Host;
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{AttentionConfig, BatchShape, Model, Position, Weights, initialize};
use lessen_train::{Generator, Sampling, Session};

const VOCAB: usize = 23;
const POSITIONS: usize = 12;

fn model() -> (Model, Weights) {
    model_with(AttentionConfig::default())
}

fn model_with(attention: AttentionConfig) -> (Model, Weights) {
    let mut config = Gpt2Config {
        vocab_size: VOCAB,
        n_positions: POSITIONS,
        n_embd: 16,
        n_layer: 2,
        n_head: 2,
        initializer_range: 0.5,
        attention,
        ..Gpt2Config::default()
    };
    config.set_dropout(0.0);
    let model = Model::from(GPT2LMHeadModel { config });
    let weights = initialize(&model.parameters(), 5);
    (model, weights)
}

fn session(model: &Model, weights: &Weights) -> Session {
    Session::new(device(1), model.parameters(), weights).unwrap()
}

/// The most likely token after `text`.
fn next(model: &Model, weights: &Weights, text: &[i32]) -> i32 {
    let mut session = session(model, weights);
    let shape = BatchShape::Padded {
        size: 1,
        length: text.len(),
    };
    let function = session
        .function(|cx| vec![("logits", model.logits(cx, shape))])
        .unwrap();
    let results = session.run(function, &[("tokens", Host::I32(text))]).unwrap();
    let logits = results.f32("logits").unwrap();
    let last = &logits[logits.len() - VOCAB..];
    (0..VOCAB).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap() as i32
}

/// Checks what a generator says that keeps `capacity` tokens, when it is asked for 30.
fn check_generation(what: &str, (model, weights): &(Model, Weights), most: usize, capacity: usize) {
    let mut generator = Generator::new(session(model, weights), model, most).unwrap();
    let sampling = Sampling {
        tokens: 30,
        temperature: 0.0,
        top_k: None,
        seed: 0,
    };
    let prompt = [3, 1, 4, 1, 5];
    let found = generator.generate(&prompt, &sampling).unwrap();
    // A full cache is read anew from the last half of it.
    let mut text = prompt.to_vec();
    let mut start = 0;
    for _ in 0..sampling.tokens {
        if text.len() - start > capacity {
            start = text.len() - capacity / 2;
        }
        text.push(next(model, weights, &text[start..]));
    }
    assert_eq!(found, text[prompt.len()..], "{what}");
    assert!(found.iter().any(|token| *token != found[0]), "{found:?}");
    // A generator can be asked again.
    assert_eq!(generator.generate(&prompt, &sampling).unwrap(), found, "{what}");
}

#[test]
fn the_cache_changes_no_token() {
    check_generation("learned", &model(), 40, POSITIONS);
}

#[test]
fn without_a_table_of_positions_the_cache_is_as_large_as_asked() {
    for (position, weighting) in [
        (Position::None, "relu:2"),
        (Position::Rope, "softmax"),
        (Position::Alibi, "norm_softmax"),
        (Position::Fire, "sigmoid:keys"),
    ] {
        let attention = AttentionConfig {
            weighting: weighting.parse().unwrap(),
            position,
            ..AttentionConfig::default()
        };
        let model = model_with(attention);
        for most in [40, 10] {
            check_generation(&format!("{position}, {most}"), &model, most, most);
        }
    }
}

#[test]
fn a_seed_decides_what_is_drawn() {
    let (model, weights) = model();
    let mut generator = Generator::new(session(&model, &weights), &model, 40).unwrap();
    let mut draw = |seed| {
        let sampling = Sampling {
            tokens: 20,
            temperature: 1.0,
            top_k: Some(10),
            seed,
        };
        generator.generate(&[0], &sampling).unwrap()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let error = generator.generate(
        &[VOCAB as i32],
        &Sampling {
            tokens: 1,
            temperature: 0.0,
            top_k: None,
            seed: 0,
        },
    );
    assert!(
        error.unwrap_err().to_string().contains("23"),
        "the unknown token is named"
    );
}
