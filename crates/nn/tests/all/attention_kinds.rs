//! Models with every attention and every way to know positions: padding, lengths, names and files.

use std::collections::BTreeSet;
use std::fs;

use crate::small_models::{BATCH, WEIGHTINGS, attention, deep_fire, given, loss_and_gradients, models};
use crate::support::{Arrays, Folder, assert_close};
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::{AttentionConfig, BatchShape, Cx, FireConfig, Loss, Model, Position};
use serde_json::Value;

/// The logits of two texts of `length` tokens; the second text has three tokens and then the token `padding`.
fn logits(model: &Model, length: usize, padding: i32) -> Array {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    trace.output("logits", model.logits(cx, BatchShape::Padded { size: 2, length }));
    let mut given = given(model);
    let token = |i: usize| match (i / length, i % length) {
        (1, 3..) => padding,
        (text, place) => ((place * place + 2 * text) % 9) as i32,
    };
    let tokens: Vec<i32> = (0..2 * length).map(token).collect();
    given.insert("tokens".into(), Array::i32(&[2, length], &tokens));
    given.insert("types".into(), Array::i32(&[2, length], &vec![0; 2 * length]));
    let mask = (0..2 * length).map(|i| f64::from(i < length + 3)).collect();
    given.insert("mask".into(), Array::new(Type::new(DType::Bool, &[2, length]), mask));
    evaluate_exactly(&trace.finish(), &given)
        .unwrap()
        .remove("logits")
        .unwrap()
}

#[test]
fn padding_changes_no_class() {
    for weighting in WEIGHTINGS {
        let of_position = |position| attention(weighting, position, true);
        let attentions = Position::ALL.map(of_position);
        for own in attentions.into_iter().chain([deep_fire(weighting)]) {
            for model in &models(own)[..2] {
                let what = format!("{} with {own:?}", model.architecture().name());
                let short = logits(model, 4, 0);
                assert_close(&what, &logits(model, 4, 7), &short, 1e-13);
                // The second text alone does not change with the length of the batch.
                let second = |logits: &Array| Array::f32(&[3], logits.data[3..].to_vec());
                assert_close(&what, &second(&logits(model, 5, 0)), &second(&short), 1e-13);
            }
        }
    }
}

#[test]
fn only_learned_positions_limit_the_length() {
    for position in Position::ALL {
        for model in models(attention("softmax", position, true)) {
            let refused = |length| model.check_length(length).map_err(|error| error.to_string()).err();
            assert_eq!(refused(5), None);
            if position == Position::Learned {
                assert_eq!(model.max_length(), Some(5));
                assert!(refused(6).unwrap().contains("has position embeddings for 5"));
            } else {
                assert_eq!((model.max_length(), refused(40)), (None, None));
                assert!(refused(0).unwrap().ends_with("set data.max_length to at least 1"));
                assert!(logits(&model, 40, 0).data.iter().all(|x| x.is_finite()));
            }
        }
    }
}

#[test]
fn positions_are_known_where_there_are_any() {
    // The mean of the states of a text without positions does not depend on the order of its tokens.
    let swapped = |model: &Model| {
        let found = |given: &Arrays| {
            let trace = Trace::new();
            let cx = Cx::new(*trace, false);
            trace.output("logits", model.logits(cx, BATCH));
            evaluate_exactly(&trace.finish(), given)
                .unwrap()
                .remove("logits")
                .unwrap()
        };
        let mut given = given(model);
        let before = found(&given);
        given.insert("tokens".into(), Array::i32(&[2, 5], &[1, 3, 4, 1, 5, 2, 6, 5, 0, 0]));
        let after = found(&given);
        let apart = before.data.iter().zip(&after.data).map(|(a, b)| (a - b).abs());
        apart.fold(0.0, f64::max)
    };
    for position in Position::ALL {
        let model = &models(attention("softmax", position, true))[0];
        assert_eq!(swapped(model) > 1e-6, position != Position::None, "{position}");
    }
}

#[test]
fn parameters_keep_their_names_and_only_positions_and_weights_differ() {
    let names = |model: &Model| -> BTreeSet<String> { model.parameters().into_iter().map(|p| p.name).collect() };
    let plain = models(AttentionConfig::default());
    let fire = models(attention("norm_softmax:learned", Position::Fire, true));
    let own = models(attention("softmax", Position::Fire, false));
    for (i, [table, layer, shared]) in [
        ["embeddings.positions.weight", "layers.1.attention", "fire"],
        [
            "bert.embeddings.position_embeddings.weight",
            "bert.encoder.layer.1.attention.self",
            "bert.encoder.fire",
        ],
        [
            "bert.embeddings.position_embeddings.weight",
            "bert.encoder.layer.1.attention.self",
            "bert.encoder.fire",
        ],
        ["transformer.wpe.weight", "transformer.h.1.attn", "transformer.fire"],
    ]
    .into_iter()
    .enumerate()
    {
        let (plain, fire, own) = (names(&plain[i]), names(&fire[i]), names(&own[i]));
        assert_eq!(plain.difference(&fire).collect::<Vec<_>>(), [table]);
        let parts = ["b1", "b2", "c", "l", "w1", "w2"];
        let mut added: Vec<String> = parts.iter().map(|part| format!("{shared}.{part}")).collect();
        let weights = ["0", "1"].map(|index| format!("{}.head_weight", layer.replace('1', index)));
        added.extend(weights);
        added.sort();
        assert_eq!(fire.difference(&plain).cloned().collect::<Vec<_>>(), added);
        let added = ["0", "1"].iter().flat_map(|index| {
            let layer = layer.replace('1', index);
            parts.iter().map(move |part| format!("{layer}.fire.{part}"))
        });
        assert_eq!(
            own.difference(&plain).cloned().collect::<Vec<_>>(),
            added.collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_file_keeps_attention_positions_and_loss_in_fields_of_our_own() {
    let folder = Folder::new();
    let path = folder.file("config.json");
    let plain = models(AttentionConfig::default());
    for position in Position::ALL {
        for weighting in WEIGHTINGS {
            for (i, mut model) in models(attention(weighting, position, false)).into_iter().enumerate() {
                model.set_loss("norm_softmax:gamma=2".parse().unwrap());
                let json = model.config_json();
                fs::write(&path, Value::Object(json.clone()).to_string()).unwrap();
                let read = Model::from_dir(&folder.0).unwrap();
                let mut expected = model.attention();
                if position != Position::Fire {
                    expected.fire = FireConfig::DEFAULT;
                }
                assert_eq!((read.attention(), read.loss()), (expected, model.loss()));
                assert_eq!(read.config_json(), json);
                assert_eq!(read.parameters().len(), model.parameters().len());
                // The fields that transformers reads equal the fields of a plain model, which has no other fields.
                let known = |json: serde_json::Map<String, Value>| -> serde_json::Map<String, Value> {
                    json.into_iter()
                        .filter(|(field, _)| !field.starts_with("lessen_"))
                        .collect()
                };
                assert_eq!(known(json), plain[i].config_json());
                let mut read = read;
                read.set_attention(AttentionConfig::default()).unwrap();
                read.set_loss(Loss::default());
                assert_eq!(read.config_json(), plain[i].config_json());
            }
        }
    }
}

#[test]
fn settings_of_fire_are_read_from_a_file_and_unusual_ones_alone_are_written() {
    let folder = Folder::new();
    for model in models(deep_fire("softmax")) {
        let json = model.config_json();
        assert_eq!(json["lessen_fire_layers"], 2);
        assert_eq!(json["lessen_fire_length"], 1.5);
        assert_eq!(json["lessen_fire_length_learned"], false);
        fs::write(folder.file("config.json"), Value::Object(json.clone()).to_string()).unwrap();
        let read = Model::from_dir(&folder.0).unwrap();
        assert_eq!((read.attention(), read.config_json()), (model.attention(), json));
        let names = |model: &Model| -> Vec<String> { model.parameters().into_iter().map(|p| p.name).collect() };
        assert_eq!(names(&read), names(&model));
        let of_fire: Vec<String> = names(&read).into_iter().filter(|name| name.contains("fire.")).collect();
        let parts: Vec<&str> = of_fire.iter().filter_map(|name| name.rsplit('.').next()).collect();
        assert_eq!(parts, ["c", "w1", "b1", "w2", "b2", "w_middle", "b_middle"]);
    }
    let usual = models(attention("softmax", Position::Fire, true))
        .remove(0)
        .config_json();
    let fields: Vec<&String> = usual.keys().filter(|field| field.starts_with("lessen_fire")).collect();
    assert_eq!(fields, ["lessen_fire_width", "lessen_fire_shared"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new();
    let fault = |changes: &[(&str, Value)]| {
        let mut json = models(AttentionConfig::default())[3].config_json();
        for (field, value) in changes {
            json.insert(field.to_string(), value.clone());
        }
        fs::write(folder.file("config.json"), Value::Object(json).to_string()).unwrap();
        let sentence = Model::from_dir(&folder.0).unwrap_err().to_string();
        sentence.replace(&folder.0.display().to_string(), "DIR")
    };
    let message = fault(&[("lessen_attention", "tanh".into())]);
    assert!(
        message.starts_with(
            "DIR/config.json: the field `lessen_attention` is `tanh`, which Lessen does not have; it has softmax, "
        ),
        "{message}"
    );
    assert_eq!(
        fault(&[("lessen_position", "sinusoidal".into())]),
        "DIR/config.json: the field `lessen_position` is `sinusoidal`, which Lessen does not have; it has learned, none, \
         rope, alibi, fire"
    );
    assert_eq!(
        fault(&[("lessen_position", "rope".into()), ("n_head", 8.into())]),
        "DIR/config.json: the field `lessen_position` is `rope`, for which heads of 1 are odd"
    );
    assert_eq!(
        fault(&[("lessen_fire_layers", 3.into())]),
        "DIR/config.json: the field `lessen_fire_layers` must be 1 or 2, it is 3"
    );
    assert_eq!(
        fault(&[("lessen_fire_length", 0.into())]),
        "DIR/config.json: the field `lessen_fire_length` must be above 0, it is 0"
    );
    assert_eq!(
        fault(&[("lessen_fire_shared", 1.into())]),
        "DIR/config.json: the field `lessen_fire_shared` must be true or false, it is 1"
    );
    let message = fault(&[("lessen_loss", "relu".into())]);
    assert!(message.contains("the field `lessen_loss` is `relu`, which Lessen does not have; it has softmax, "));
}

#[test]
fn shared_heads_of_keys_and_values_are_repeated_ones() {
    for position in Position::ALL {
        let grouped = models(attention("softmax", position, true)).remove(0);
        let Model::LessenEncoder(LessenEncoder { config }) = &grouped else {
            panic!("another model")
        };
        let config = EncoderConfig {
            kv_heads: None,
            ..config.clone()
        };
        let full = Model::from(LessenEncoder { config });
        let few = given(&grouped);
        let mut many = few.clone();
        for layer in 0..2 {
            for part in ["weight", "bias"] {
                let name = format!("layers.{layer}.attention.qkv.{part}");
                // 4 heads of queries, 2 of keys and 2 of values, each of 2 rows.
                let rows = &few[&name];
                let width = rows.data.len() / 16;
                let head = |index: usize| &rows.data[index * 2 * width..][..2 * width];
                let order = [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7];
                let data: Vec<f64> = order.iter().flat_map(|&index| head(index).to_vec()).collect();
                let shape = [&[24], &rows.ty.shape[1..]].concat();
                many.insert(name, Array::f32(&shape, data));
            }
        }
        let (few, many) = (loss_and_gradients(&grouped, &few), loss_and_gradients(&full, &many));
        assert!((few["loss"].item() - many["loss"].item()).abs() < 1e-12, "{position}");
    }
}
