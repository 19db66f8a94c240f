//! The reversible encoder: what its streams read, and that its configuration says so.

use crate::small_models::{given, loss_and_gradients, models};
use crate::support::Arrays;
use lessen_nn::models::encoder::LessenEncoder;
use lessen_nn::{AttentionConfig, Model};
use serde_json::Value;
use std::fs;

/// The encoder of the small models, of one layer.
fn encoder(reversible: bool) -> Model {
    let Some(Model::LessenEncoder(LessenEncoder { mut config })) = models(AttentionConfig::DEFAULT).into_iter().next()
    else {
        panic!("the first model is the encoder");
    };
    (config.layers, config.reversible) = (1, reversible);
    LessenEncoder { config }.into()
}

/// The parameters, with the parameters of a part multiplied.
fn scaled(given: &Arrays, part: &str, by: f64) -> Arrays {
    let mut given = given.clone();
    for (name, array) in &mut given {
        if name.contains(part) {
            array.data.iter_mut().for_each(|x| *x *= by);
        }
    }
    given
}

#[test]
fn each_stream_gets_what_the_other_says() {
    let (plain, reversible) = (encoder(false), encoder(true));
    let (attention, feed_forward) = ("layers.0.attention.out", "layers.0.mlp.down");
    let given = given(&plain);
    let loss = |model: &Model, given: &Arrays| loss_and_gradients(model, given)["loss"].data[0];
    // Without one of both branches, the mean of the streams has half of the other one.
    for (off, on) in [(attention, feed_forward), (feed_forward, attention)] {
        let alone = scaled(&given, off, 0.0);
        let (half, both) = (loss(&plain, &scaled(&alone, on, 0.5)), loss(&reversible, &alone));
        assert!((half - both).abs() < 1e-12, "{half}, {both}");
    }
    // With both, the feed-forward layer reads what attention has said.
    let (first, second) = (loss(&reversible, &given), loss(&plain, &given));
    assert!((first - second).abs() > 1e-3, "{first}, {second}");
}

#[test]
fn its_configuration_says_so() {
    let fields = encoder(true).config_json();
    assert_eq!(fields["reversible"], true);
    assert!(!encoder(false).config_json().contains_key("reversible"));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), Value::Object(fields).to_string()).unwrap();
    let Model::LessenEncoder(read) = Model::from_dir(dir.path()).unwrap() else {
        panic!("an encoder");
    };
    assert!(read.config.reversible);
}
