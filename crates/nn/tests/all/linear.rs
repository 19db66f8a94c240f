//! The linear classifier, and the wide part of the encoder, against sums of table rows in plain `f64`.

use crate::support::{Arrays, Folder, assert_close};
use lessen_base::SplitMix64;
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::linear::{LessenLinear, LinearConfig};
use lessen_nn::{Architecture, BatchShape, Cx, Head, Model, Ngrams, Task, numbered_labels};
use serde_json::{Value, json};
use std::fs;

const VOCAB: usize = 11;
const BUCKETS: usize = 4;
const TEXTS: [&[i32]; 3] = [&[3, 1, 4, 1, 5, 9], &[2, 6, 5], &[]];
/// The tokens of each text that belong to the first text of a pair.
const FIRSTS: [usize; 3] = [2, 3, 0];
const PADDED: BatchShape = BatchShape::Padded { size: 3, length: 6 };
const PACKED: BatchShape = BatchShape::Packed { size: 3, tokens: 11 };

fn linear(buckets: usize, classes: usize) -> Model {
    let config = LinearConfig {
        vocab_size: VOCAB,
        buckets,
        max_length: 6,
        labels: numbered_labels(classes),
        ..LinearConfig::default()
    };
    LessenLinear { config }.into()
}

/// A linear model that counts tokens of both texts of a pair.
fn of_pairs() -> Model {
    let Model::LessenLinear(mut model) = linear(BUCKETS, 3) else {
        panic!("a linear model");
    };
    model.config.shared = true;
    model.into()
}

/// An encoder whose wide part counts tokens of both texts of a pair.
fn encoder_of_pairs() -> Model {
    let Model::LessenEncoder(mut model) = encoder(Some(BUCKETS)) else {
        panic!("an encoder");
    };
    model.config.shared = true;
    model.into()
}

fn encoder(ngrams: Option<usize>) -> Model {
    let config = EncoderConfig {
        vocab_size: VOCAB,
        width: 8,
        layers: 1,
        heads: 2,
        ffn: 12,
        max_length: 6,
        ngrams,
        labels: numbered_labels(3),
        ..EncoderConfig::default()
    };
    LessenEncoder { config }.into()
}

/// Parameters drawn from their names, and labels.
fn parameters(model: &Model) -> Arrays {
    let mut given = Arrays::from([("labels".to_string(), Array::i32(&[3], &[2, 0, 1]))]);
    for param in model.parameters() {
        let mut random = SplitMix64::named(5, &param.name);
        let data = (0..param.shape.iter().product()).map(|_| random.unit() - 0.5);
        given.insert(param.name, Array::f32(&param.shape, data.collect()));
    }
    given
}

/// The texts in rows, in which padding has a token of a first text, as of a second one.
fn padded(model: &Model) -> Arrays {
    let mut given = parameters(model);
    let (mut tokens, mut mask, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for (text, first) in TEXTS.iter().zip(FIRSTS) {
        tokens.extend((0..6).map(|i| text.get(i).copied().unwrap_or(3)));
        types.extend((0..6).map(|i| i32::from(i >= first)));
        mask.extend((0..6).map(|i| f64::from(i < text.len())));
    }
    given.insert("tokens".into(), Array::i32(&[3, 6], &tokens));
    given.insert("types".into(), Array::i32(&[3, 6], &types));
    given.insert("mask".into(), Array::new(Type::new(DType::Bool, &[3, 6]), mask));
    given
}

/// The texts one after another, and two tokens that belong to none.
fn packed(model: &Model) -> Arrays {
    let mut given = parameters(model);
    let tokens = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 3];
    given.insert("tokens".into(), Array::i32(&[1, 11], &tokens));
    let types = [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1];
    given.insert("types".into(), Array::i32(&[1, 11], &types));
    for (name, values) in [
        ("positions", &[0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 0][..]),
        ("segments", &[0, 0, 0, 0, 0, 0, 1, 1, 1, 3, 3]),
        ("starts", &[0, 6, 9, 9]),
        ("firsts", &[0, 6, 0]),
    ] {
        given.insert(name.into(), Array::i32(&[values.len()], values));
    }
    given
}

/// Loss, logits and derivatives of a batch.
fn results(model: &Model, batch: BatchShape, given: &Arrays) -> Arrays {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let outputs = model.forward(cx, batch);
    trace.output("loss", outputs.loss);
    trace.output("logits", outputs.logits);
    let params = cx.params();
    let tensors: Vec<_> = params.iter().map(|param| trace.tensor(param.value)).collect();
    for (param, gradient) in params.iter().zip(outputs.loss.grad(&tensors)) {
        trace.output(&param.name, gradient);
    }
    evaluate_exactly(&trace.finish(), given).unwrap()
}

/// The logits of tokens and pairs by their definition.
fn expected(given: &Arrays, buckets: usize, classes: usize) -> Vec<f64> {
    let mut logits = Vec::new();
    for text in TEXTS {
        let mut rows: Vec<&[f64]> = Vec::new();
        let row = |table: &str, index: usize| &given[table].data[index * classes..][..classes];
        rows.extend(text.iter().map(|token| row("ngrams.words.weight", *token as usize)));
        let pairs = text.windows(2).filter(|_| buckets > 0);
        rows.extend(pairs.map(|pair| {
            let hash = (pair[0] as usize % 46_337 * 40_503 + pair[1] as usize) % buckets;
            row("ngrams.pairs.weight", hash)
        }));
        let root = (rows.len().max(1) as f64).sqrt();
        logits.extend((0..classes).map(|class| rows.iter().map(|row| row[class]).sum::<f64>() / root));
    }
    logits
}

#[test]
fn logits_are_sums_of_the_rows_of_tokens_and_pairs() {
    for buckets in [0, 1, BUCKETS] {
        let model = linear(buckets, 3);
        let given = padded(&model);
        let mut logits = expected(&given, buckets, 3);
        let bias = &given["classifier.bias"].data;
        logits
            .iter_mut()
            .enumerate()
            .for_each(|(i, logit)| *logit += bias[i % 3]);
        let found = results(&model, PADDED, &given);
        assert_close("logits", &found["logits"], &Array::f32(&[3, 3], logits), 1e-12);
    }
}

#[test]
fn a_batch_without_padding_has_the_loss_and_the_derivatives_of_a_padded_one() {
    for model in [
        linear(BUCKETS, 3),
        linear(0, 3),
        encoder(Some(BUCKETS)),
        encoder(Some(0)),
        of_pairs(),
        encoder_of_pairs(),
    ] {
        let expected = results(&model, PADDED, &padded(&model));
        let found = results(&model, PACKED, &packed(&model));
        assert_eq!(found.len(), expected.len());
        for (name, array) in &expected {
            assert_close(name, &found[name], array, 1e-11);
        }
    }
}

#[test]
fn padding_in_front_changes_nothing() {
    let model = linear(BUCKETS, 3);
    let mut given = padded(&model);
    let before = results(&model, PADDED, &given);
    for name in ["tokens", "mask"] {
        given.get_mut(name).unwrap().data[6..12].rotate_right(3);
    }
    assert_close(
        "logits",
        &results(&model, PADDED, &given)["logits"],
        &before["logits"],
        1e-12,
    );
}

#[test]
fn derivatives_agree_with_differences() {
    const STEP: f64 = 1e-6;
    for model in [
        linear(BUCKETS, 3),
        encoder(Some(BUCKETS)),
        of_pairs(),
        encoder_of_pairs(),
    ] {
        let given = padded(&model);
        let found = results(&model, PADDED, &given);
        let mut random = SplitMix64::new(7);
        let (mut before, mut after, mut slope) = (given.clone(), given.clone(), 0.0);
        for param in model.parameters() {
            for (i, derivative) in found[&param.name].data.iter().enumerate() {
                let direction = random.unit() - 0.5;
                slope += direction * derivative;
                before.get_mut(&param.name).unwrap().data[i] -= STEP * direction;
                after.get_mut(&param.name).unwrap().data[i] += STEP * direction;
            }
        }
        let loss = |given: &Arrays| results(&model, PADDED, given)["loss"].item();
        let difference = (loss(&after) - loss(&before)) / (2.0 * STEP);
        let what = model.architecture().name();
        assert!((difference - slope).abs() < 1e-8, "{what}: {slope}, {difference}");
    }
}

#[test]
fn the_wide_part_is_added_to_the_head() {
    let (plain, wide) = (encoder(None), encoder(Some(BUCKETS)));
    let given = padded(&wide);
    let deep = results(&plain, PADDED, &given)["logits"].clone();
    let sums = expected(&given, BUCKETS, 3);
    let both = deep.data.iter().zip(sums).map(|(a, b)| a + b).collect();
    let found = results(&wide, PADDED, &given);
    assert_close("logits", &found["logits"], &Array::f32(&[3, 3], both), 1e-12);
    for table in ["ngrams.words.weight", "ngrams.pairs.weight"] {
        assert!(wide.is_head(table) && wide.parameters().iter().any(|param| param.name == table));
    }
}

#[test]
fn tokens_of_both_texts_have_rows_of_their_own_and_a_share() {
    let (plain, model) = (linear(BUCKETS, 3), of_pairs());
    let given = padded(&model);
    let mut logits = results(&plain, PADDED, &given)["logits"].clone();
    // Token 1 alone is in both texts of the first pair, twice among 6 tokens and 5 pairs of tokens.
    for class in 0..3 {
        let row = given["ngrams.shared.weight"].data[3 + class];
        let share = given["ngrams.share.weight"].data[class];
        logits.data[class] += 2.0 * row / 11.0_f64.sqrt() + share * 2.0 / 6.0;
    }
    for (batch, given) in [(PADDED, given), (PACKED, packed(&model))] {
        assert_close("logits", &results(&model, batch, &given)["logits"], &logits, 1e-12);
    }
}

#[test]
fn texts_of_a_pair_can_change_places_where_pairs_of_tokens_do_not_count() {
    let mut model = of_pairs();
    if let Model::LessenLinear(own) = &mut model {
        own.config.buckets = 0;
    }
    let mut given = padded(&model);
    let before = results(&model, PADDED, &given)["logits"].clone();
    given.get_mut("tokens").unwrap().data[..6].rotate_left(2);
    given.get_mut("types").unwrap().data[..6].copy_from_slice(&[0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    assert_close("logits", &results(&model, PADDED, &given)["logits"], &before, 1e-12);
}

#[test]
fn it_is_a_regression_with_one_class_and_begins_with_zeros() {
    let model = linear(BUCKETS, 1);
    assert_eq!(model.task(), Task::Regression);
    assert_eq!(model.max_length(), None);
    assert!(model.check_length(100_000).is_ok());
    for (name, weight) in lessen_nn::initialize(&model.parameters(), 3) {
        assert!(weight.data.iter().all(|value| *value == 0.0), "{name}");
    }
    let mut given = padded(&model);
    given.insert("targets".into(), Array::f32(&[3], vec![1.5, -2.0, 9.0]));
    given.insert("weights".into(), Array::f32(&[3], vec![1.0, 1.0, 0.0]));
    let found = results(&model, PADDED, &given);
    let logits = &found["logits"].data;
    let errors = [logits[0] - 1.5, logits[1] + 2.0];
    let loss = errors.iter().map(|error| error * error).sum::<f64>() / 2.0;
    assert!((found["loss"].item() - loss).abs() < 1e-12);
}

#[test]
fn configurations_are_read_as_they_are_written() {
    let folder = Folder::new();
    let again = |fields: Value| {
        fs::write(folder.file("config.json"), fields.to_string()).unwrap();
        Model::from_dir(&folder.0)
    };
    let mut model = linear(BUCKETS, 3);
    model.set_multi_label(true);
    let fields = Value::Object(model.config_json());
    assert_eq!(fields["architectures"], json!(["LessenLinear"]));
    assert_eq!(fields["model_type"], "lessen-linear");
    let read = again(fields.clone()).unwrap();
    assert_eq!(read.architecture(), Architecture::LessenLinear);
    assert_eq!(read.parameters(), model.parameters());
    assert_eq!(Value::Object(read.config_json()), fields);
    assert!(read.is_multi_label());
    let with_head = |head| Architecture::with_head("lessen-linear", head);
    assert_eq!(
        with_head(Head::SequenceClassification),
        Some(Architecture::LessenLinear)
    );
    assert_eq!(with_head(Head::MaskedLM), None);

    let model = encoder(Some(BUCKETS));
    let read = again(Value::Object(model.config_json())).unwrap();
    assert_eq!(read.parameters(), model.parameters());
    assert!(!encoder(None).config_json().contains_key("ngrams"));
    for (plain, model) in [
        (linear(BUCKETS, 3), of_pairs()),
        (encoder(Some(BUCKETS)), encoder_of_pairs()),
    ] {
        let fields = model.config_json();
        assert_eq!(fields["shared"], json!(true));
        assert!(!plain.config_json().contains_key("shared"));
        let read = again(Value::Object(fields)).unwrap();
        assert_eq!(read.parameters(), model.parameters());
        let names = ["ngrams.shared.weight", "ngrams.share.weight"];
        assert!(
            names
                .iter()
                .all(|name| read.is_head(name) && lessen_nn::is_by_class(name))
        );
        assert_eq!(read.parameters().len(), plain.parameters().len() + names.len());
    }
}

#[test]
fn wrong_fields_and_missing_states_are_told() {
    let folder = Folder::new();
    let write = |field: &str, value: Value| {
        let mut fields = linear(BUCKETS, 3).config_json();
        fields.insert(field.to_string(), value);
        fs::write(folder.file("config.json"), Value::Object(fields).to_string()).unwrap();
    };
    for (field, value, expected) in [
        (
            "buckets",
            json!(1000),
            format!("is 1000, neither 0 nor a power of two up to {}", Ngrams::MOST_BUCKETS),
        ),
        ("pad_token_id", json!(11), "is 11, not one of the 11 tokens".to_string()),
    ] {
        write(field, value);
        let sentence = Model::from_dir(&folder.0).unwrap_err().to_string();
        assert!(
            sentence.ends_with(&format!("the field `{field}` {expected}")),
            "{sentence}"
        );
    }
    write("buckets", json!(4));
    let sentence = Model::from_dir_for_states(&folder.0).unwrap_err().to_string();
    assert!(sentence.contains("is `lessen-linear`, and Lessen computes the states of texts only of bert"));
    assert!(
        !sentence.contains("only of lessen-linear") && !sentence.contains(", lessen-linear"),
        "{sentence}"
    );
}
