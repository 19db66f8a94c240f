//! Convolutional networks as models: what their `config.json` says, and how they are changed.

use std::fs;

use crate::support::{Arrays, Folder};
use lessen_graph::{Array, Trace, evaluate_exactly};
use lessen_nn::layers::Spread;
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig, Network};
use lessen_nn::{
    Activation, Architecture, AttentionConfig, BatchShape, Cx, Head, Model, Position, Task, initialize, numbered_labels,
};
use serde_json::json;

fn model(network: &str) -> Model {
    let config = ImageClassifierConfig::of(Network::of(network).unwrap(), [32, 32, 3]);
    ImageClassifier { config }.into()
}

fn read(config: &serde_json::Value) -> Result<Model, String> {
    let folder = Folder::new();
    fs::write(folder.file("config.json"), config.to_string()).unwrap();
    Model::from_dir(&folder.0).map_err(|error| error.to_string())
}

#[test]
fn a_config_says_the_whole_model() {
    let mut first = model("mobilenet-v2");
    first.set_labels(numbered_labels(7));
    first.set_activation(Activation::Gelu);
    first.set_dropout(0.3);
    let json = first.config_json();
    assert_eq!(json["architectures"], json!(["LessenImageClassifier"]));
    assert_eq!(json["network"], "mobilenet-v2");
    let again = read(&json.into()).unwrap();
    assert_eq!(again.architecture(), Architecture::ImageClassifier);
    assert_eq!(again.parameters(), first.parameters());
    assert_eq!(
        (again.activation(), again.image()),
        (Activation::Gelu, Some([32, 32, 3]))
    );
    assert_eq!(again.task(), Task::Classification { classes: 7 });
    // The network's own activation and dropout stand nowhere.
    let own = model("resnet20").config_json();
    assert!(!own.contains_key("activation") && !own.contains_key("dropout"));
    assert_eq!(read(&own.into()).unwrap().activation(), Activation::Relu);
}

#[test]
fn batch_normalization_by_range_is_said_by_the_config_and_refused_without_batch_normalization() {
    let mut first = model("resnet20");
    first.set_spread(Spread::Range).unwrap();
    let json = first.config_json();
    assert_eq!(json["batch_norm"], "range");
    assert_eq!(read(&json.into()).unwrap(), {
        let mut again = read(&first.config_json().into()).unwrap();
        again.set_spread(Spread::Range).unwrap();
        again
    });
    assert!(!model("resnet20").config_json().contains_key("batch_norm"));
    let mut other = model("lenet");
    assert_eq!(
        other.set_spread(Spread::Range).unwrap_err().to_string(),
        "the network lenet has no batch normalization, which `range` is a setting of; leave it out"
    );
    let mut json = model("lenet").config_json();
    json.insert("batch_norm".to_string(), json!("range"));
    assert!(read(&json.into()).unwrap_err().contains("`batch_norm` is `range`"));
}

#[test]
fn mistakes_in_a_config_are_sentences() {
    let changed = |field: &str, value: serde_json::Value| {
        let mut json = model("alexnet-cifar").config_json();
        json.insert(field.to_string(), value);
        read(&json.into()).unwrap_err()
    };
    for (field, value, says) in [
        (
            "network",
            json!("resnet21"),
            "`network` is `resnet21`, and Lessen has only convnet-3, ",
        ),
        ("network", json!(null), "`network` is missing; it is one of convnet-3, "),
        (
            "image_size",
            json!(2),
            "`image_size` does not fit: images of 2 x 2 pixels",
        ),
        ("image_size", json!(100_000), "more than Lessen reads"),
        ("activation", json!("loud"), "names the activation `loud`"),
        ("dropout", json!(1.5), "`dropout`"),
    ] {
        let sentence = changed(field, value);
        assert!(sentence.contains(says), "{sentence}");
    }
}

#[test]
fn networks_are_classifiers_without_attention() {
    let mut model = model("resnet18");
    let head: Vec<String> = model
        .parameters()
        .into_iter()
        .map(|p| p.name)
        .filter(|n| model.is_head(n))
        .collect();
    assert_eq!(head, ["fc.weight", "fc.bias"]);
    let family = model.architecture().model_type();
    assert_eq!(
        Architecture::with_head(family, Head::SequenceClassification),
        Some(Architecture::ImageClassifier)
    );
    assert_eq!(Architecture::with_head(family, Head::MaskedLM), None);
    assert_eq!((model.vocab_size(), model.max_length()), (0, None));
    assert!(model.set_attention(model.attention()).is_ok());
    let other = AttentionConfig {
        position: Position::Alibi,
        ..model.attention()
    };
    let error = model.set_attention(other).unwrap_err().to_string();
    assert!(error.starts_with("the network resnet18 has no attention"), "{error}");
}

#[test]
fn every_network_has_a_loss_and_its_head_is_a_layer_of_it() {
    for network in Network::ALL {
        // ResNet-1202 takes seconds to trace, and is ResNet-20 with more blocks.
        if network.name() == "resnet1202" {
            continue;
        }
        let image = [64, 64, 3];
        let config = ImageClassifierConfig::of(network, image);
        let model = Model::from(ImageClassifier { config });
        let heads = model
            .parameters()
            .into_iter()
            .filter(|param| model.is_head(&param.name));
        // The wide part has a matrix beside the layer.
        let expected = if network.name() == "wide-mlp" { 3 } else { 2 };
        assert_eq!(heads.count(), expected, "{network:?}");
        let trace = Trace::new();
        let cx = Cx::new(*trace, true);
        let batch = BatchShape::Images {
            size: 2,
            image,
            mixed: false,
        };
        let outputs = model.forward(cx, batch);
        assert_eq!(outputs.logits.shape(), [2, 2], "{network:?}");
        assert!(outputs.loss.shape().is_empty());
    }
}

/// Logits of a network for two rows of three numbers, with the parameters that the model draws, and further ones.
fn of_rows(model: &Model, more: &[(&str, Array)]) -> (Vec<f64>, f64) {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let batch = BatchShape::Images {
        size: 2,
        image: [1, 3, 1],
        mixed: false,
    };
    let outputs = model.forward(cx, batch);
    trace.output("logits", outputs.logits);
    trace.output("loss", outputs.loss);
    let mut given = Arrays::new();
    for (name, weight) in initialize(&model.parameters(), 3) {
        let data = weight.data.iter().map(|&value| value.into()).collect();
        given.insert(name, Array::f32(&weight.shape, data));
    }
    let rows = Array::f32(&[2, 1, 3, 1], vec![1.0, -2.0, 0.5, 0.0, 3.0, -1.0]);
    given.insert("images".into(), rows);
    given.extend(more.iter().map(|(name, array)| (name.to_string(), array.clone())));
    let results = evaluate_exactly(&trace.finish(), &given).unwrap();
    (results["logits"].data.clone(), results["loss"].item())
}

#[test]
fn networks_over_rows_of_numbers_are_classifiers_and_regressions() {
    for network in ["linear-array", "mlp", "wide-mlp"] {
        let config = ImageClassifierConfig::of(Network::of(network).unwrap(), [1, 3, 1]);
        let mut model = Model::from(ImageClassifier { config });
        model.set_labels(numbered_labels(3));
        let (logits, _) = of_rows(&model, &[("labels", Array::i32(&[2], &[2, 0]))]);
        assert_eq!(logits.len(), 6, "{network}");
        model.set_labels(numbered_labels(1));
        assert_eq!(model.task(), Task::Regression);
        let more = [("targets", vec![1.5, 7.0]), ("weights", vec![1.0, 0.0])];
        let more = more.map(|(name, values)| (name, Array::f32(&[2], values)));
        let (found, loss) = of_rows(&model, &more);
        assert_eq!(found.len(), 2);
        assert!((loss - (found[0] - 1.5).powi(2)).abs() < 1e-12, "{network}");
        assert_eq!(
            read(&model.config_json().into()).unwrap().parameters(),
            model.parameters()
        );
    }
}

#[test]
fn the_wide_part_adds_its_products_and_begins_with_zeros() {
    let of = |network: &str| {
        let config = ImageClassifierConfig::of(Network::of(network).unwrap(), [1, 3, 1]);
        Model::from(ImageClassifier { config })
    };
    let labels = ("labels", Array::i32(&[2], &[1, 0]));
    let (deep, _) = of_rows(&of("mlp"), std::slice::from_ref(&labels));
    let (same, _) = of_rows(&of("wide-mlp"), std::slice::from_ref(&labels));
    assert_eq!(deep, same);
    let wide = ("wide.weight", Array::f32(&[2, 3], vec![1.0, 0.0, 2.0, 0.0, -1.0, 0.0]));
    let (both, _) = of_rows(&of("wide-mlp"), &[labels, wide]);
    let added: Vec<f64> = both.iter().zip(&deep).map(|(both, deep)| both - deep).collect();
    for (found, expected) in added.iter().zip([2.0, 2.0, -2.0, -3.0]) {
        assert!((found - expected).abs() < 1e-9, "{added:?}");
    }
    assert!(of("wide-mlp").is_head("wide.weight") && of("wide-mlp").is_head("fc_3.bias"));
    assert!(!of("mlp").is_head("wide.weight"));
}
