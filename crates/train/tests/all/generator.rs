//! Continuing a text with keys and values kept says the same as reading the whole text anew for every token.

use crate::support::device;
use lessen_compile::Precision;
use lessen_device::Host;
use lessen_graph::bf16_bits;
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{AttentionConfig, BatchShape, Model, ParamSpec, Position, Weights, initialize};
use lessen_train::{Generator, Rules, Sampling, Session};
use serde_json::json;

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

/// Checks the text of a generator that keeps `capacity` tokens, when it is asked for 30 tokens.
fn check_generation(what: &str, (model, weights): &(Model, Weights), most: usize, capacity: usize) {
    let mut generator = Generator::new(session(model, weights), model, most).unwrap();
    let sampling = Sampling::greedy(30);
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
            top_k: Some(10),
            seed,
            ..Sampling::default()
        };
        generator.generate(&[0], &sampling).unwrap()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let error = generator.generate(&[VOCAB as i32], &Sampling::greedy(1));
    assert!(
        error.unwrap_err().to_string().contains("23"),
        "the unknown token is named"
    );
}

/// Continuations of all prompts, generated at once.
fn together(generator: &mut Generator, prompts: &[&[i32]], samples: usize, sampling: &Sampling) -> Vec<Vec<i32>> {
    let mut seen: Vec<Vec<i32>> = vec![Vec::new(); prompts.len() * samples];
    let added = generator.generate_all(prompts, samples, sampling, &|_, _| Ok(false), &mut |number, tokens| {
        seen[number].push(tokens[tokens.len() - 1]);
        assert_eq!(seen[number], tokens, "every token is told");
        Ok(())
    });
    let added = added.unwrap();
    assert_eq!(added, seen);
    added
}

#[test]
fn prompts_of_different_lengths_are_continued_as_if_alone() {
    let prompts: [&[i32]; 4] = [
        &[3, 1, 4, 1, 5],
        &[9],
        &[2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4],
        &[6, 2],
    ];
    for (position, most) in [
        (Position::Learned, 40),
        (Position::Rope, 60),
        (Position::Fire, 60),
        (Position::Alibi, 9),
    ] {
        let attention = AttentionConfig {
            position,
            ..AttentionConfig::default()
        };
        let (model, weights) = model_with(attention);
        let new = || Generator::new(session(&model, &weights), &model, most).unwrap();
        let (mut all, mut alone, sampling) = (new(), new(), Sampling::greedy(25));
        let expected: Vec<Vec<i32>> = prompts.iter().map(|p| alone.generate(p, &sampling).unwrap()).collect();
        assert_eq!(
            together(&mut all, &prompts, 1, &sampling),
            expected,
            "{position}, {most}"
        );
        // The same generator with another number of texts.
        assert_eq!(
            together(&mut all, &prompts[1..3], 1, &sampling),
            expected[1..3],
            "{position}, {most}"
        );
        assert_eq!(
            all.generate(prompts[3], &sampling).unwrap(),
            expected[3],
            "{position}, {most}"
        );
    }
}

#[test]
fn samples_of_a_prompt_differ_and_the_first_one_is_that_of_the_prompt_alone() {
    let (model, weights) = model();
    let mut generator = Generator::new(session(&model, &weights), &model, 40).unwrap();
    let sampling = Sampling {
        tokens: 8,
        top_p: Some(0.95),
        rules: Rules {
            repetition_penalty: 1.1,
            ..Rules::default()
        },
        ..Sampling::default()
    };
    let found = together(&mut generator, &[&[0, 1], &[2]], 3, &sampling);
    assert_eq!(found[0], generator.generate(&[0, 1], &sampling).unwrap());
    assert!(
        found[0] != found[1] && found[1] != found[2] && found[3] != found[4],
        "{found:?}"
    );
    assert!(together(&mut generator, &[], 3, &sampling).is_empty());
}

#[test]
fn another_number_of_texts_has_a_cache_of_its_own() {
    let (model, weights) = model();
    let new = || Generator::new(session(&model, &weights), &model, POSITIONS).unwrap();
    let (mut generator, one) = (new(), Sampling::greedy(1));
    // A single token is chosen without a function that reads one more.
    let both = together(&mut generator, &[&[3, 1, 4], &[9]], 1, &one);
    assert_eq!(generator.generate(&[9], &one).unwrap(), both[1]);
    assert_eq!(together(&mut generator, &[&[3, 1, 4], &[9]], 1, &one), both);
    assert_eq!(new().generate(&[3, 1, 4], &one).unwrap(), both[0]);
}

#[test]
fn each_text_ends_by_itself() {
    let (mut model, weights) = model();
    let sampling = Sampling::greedy(10);
    let prompts: [&[i32]; 2] = [&[3, 1, 4], &[7]];
    let whole = together(
        &mut Generator::new(session(&model, &weights), &model, 40).unwrap(),
        &prompts,
        1,
        &sampling,
    );
    // At a token that ends texts.
    let place = |text: &[i32], token| text.iter().position(|own| *own == token).unwrap_or(text.len());
    let Model::GPT2LMHeadModel(gpt2) = &mut model else {
        panic!("another model")
    };
    let end = whole[0][2];
    gpt2.config.fields.insert("eos_token_id".into(), json!([VOCAB, end]));
    let mut generator = Generator::new(session(&model, &weights), &model, 40).unwrap();
    let found = together(&mut generator, &prompts, 1, &sampling);
    for (found, whole) in found.iter().zip(&whole) {
        assert_eq!(*found, whole[..place(whole, end)]);
    }
    // Where the caller ends it.
    let is_second = |tokens: &[i32], prompt: usize| Ok(tokens[0] == 7 && tokens.len() - prompt == 2);
    let found = generator.generate_all(&prompts, 1, &sampling, &is_second, &mut |_, _| Ok(()));
    assert_eq!(found.unwrap()[1], whole[1][..2.min(place(&whole[1], end))]);
    let refused = generator.generate_all(&[&[1], &[]], 1, &sampling, &is_second, &mut |_, _| Ok(()));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "a prompt has no tokens; give at least one"
    );
}

#[test]
fn weights_in_bf16_say_what_their_rounded_values_say_in_half_the_memory() {
    let (model, weights) = model();
    let rounded: Weights = weights
        .iter()
        .map(|(name, weight)| {
            let mut weight = weight.clone();
            if weight.shape.len() > 1 {
                let narrow = |x: &f32| f32::from_bits(u32::from(bf16_bits(*x)) << 16);
                weight.data = weight.data.iter().map(narrow).collect();
            }
            (name.clone(), weight)
        })
        .collect();
    let mut narrow = Session::for_inference(device(1), model.parameters(), Precision::Bf16).unwrap();
    narrow.set_weights(&weights).unwrap();
    assert!(narrow.weights().unwrap() == rounded, "what is held is rounded once");
    let bytes = |session: &Session| session.memory().used.states;
    let wide = session(&model, &rounded);
    let elements = |param: &ParamSpec| param.shape.iter().product::<usize>();
    let saved: usize = model
        .parameters()
        .iter()
        .filter(|p| p.shape.len() > 1)
        .map(|p| 2 * elements(p))
        .sum();
    assert!(saved > 0 && bytes(&wide) - bytes(&narrow) == saved);
    // Few rows compute with f32 and the same matrices, so the most likely tokens are the same.
    let prompt = [3, 1, 4, 1, 5];
    let say = |session: Session| {
        let mut generator = Generator::new(session, &model, POSITIONS).unwrap();
        generator.generate(&prompt, &Sampling::greedy(30)).unwrap()
    };
    assert_eq!(say(narrow), say(wide));
}

#[test]
fn logits_that_are_nan_end_generation_with_an_error_on_every_path() {
    let (model, mut weights) = model();
    // A NaN that only some tokens read, so that the first tokens are sound.
    let table = weights.get_mut("transformer.wpe.weight").unwrap();
    table.data[16 * 3] = f32::NAN;
    let greedy = Sampling::greedy(10);
    let sampled = Sampling {
        temperature: 0.8,
        top_k: Some(5),
        top_p: Some(0.9),
        ..greedy.clone()
    };
    for sampling in [greedy, sampled.clone()] {
        for prompt in [&[1, 2][..], &[1, 2, 3, 4, 5]] {
            let mut generator = Generator::new(session(&model, &weights), &model, POSITIONS).unwrap();
            let sentence = generator.generate(prompt, &sampling).unwrap_err().to_string();
            assert!(
                sentence.contains("is NaN, so the text cannot be continued"),
                "{sentence}"
            );
        }
    }
    let mut generator = Generator::new(session(&model, &weights), &model, POSITIONS).unwrap();
    let mut shown = Vec::new();
    let all = generator.generate_all(
        &[&[1], &[2, 3]],
        2,
        &sampled,
        &|_, _| Ok(false),
        &mut |number, tokens| {
            shown.push((number, tokens.len()));
            Ok(())
        },
    );
    // The tokens before the error were sound and have been shown.
    assert!(all.is_err() && shown.contains(&(0, 1)));
}
