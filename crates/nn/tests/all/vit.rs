//! ViT and DeiT: sizes, names, what they compute of images, and what their `config.json` says.

use std::fs;

use crate::support::{Arrays, Folder, arrays, assert_close};
use lessen_graph::{Array, Trace, evaluate_exactly};
use lessen_nn::models::vit::{Vit, VitConfig, VitFamily, VitSize};
use lessen_nn::{Architecture, BatchShape, Criterion, Cx, Head, Model, Position, Task, initialize, numbered_labels};
use serde_json::{Map, Value, json};

/// Images of 4 x 6 pixels with 3 channels, in four patches of 2 x 3.
const IMAGE: [usize; 3] = [4, 6, 3];

fn tiny(family: VitFamily) -> VitConfig {
    VitConfig {
        family,
        hidden_size: 8,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 6,
        initializer_range: 0.5,
        image_size: [4, 6],
        patch_size: [2, 3],
        labels: numbered_labels(3),
        ..VitConfig::default()
    }
}

fn model(config: VitConfig) -> Model {
    Vit { config }.into()
}

fn batch(mixed: bool) -> BatchShape {
    BatchShape::Images {
        size: 2,
        image: IMAGE,
        mixed,
    }
}

/// Two images and the model's first parameters.
fn given(model: &Model) -> Arrays {
    let mut given = arrays(&initialize(&model.parameters(), 3));
    let pixels = (0..2 * 4 * 6 * 3).map(|i| (0.37 * f64::from(i)).sin()).collect();
    given.insert("images".into(), Array::f32(&[2, 4, 6, 3], pixels));
    given
}

fn logits(model: &Model, given: &Arrays) -> Array {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    trace.output("logits", model.logits(cx, batch(false)));
    evaluate_exactly(&trace.finish(), given)
        .unwrap()
        .remove("logits")
        .unwrap()
}

fn loss(model: &Model, criterion: &Criterion, mixed: bool, given: &Arrays) -> f64 {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true).with_criterion(criterion);
    trace.output("loss", model.forward(cx, batch(mixed)).loss);
    evaluate_exactly(&trace.finish(), given).unwrap()["loss"].data[0]
}

#[test]
fn every_size_has_the_parameters_of_its_paper() {
    let count = |family, size| -> usize {
        let config = VitConfig {
            labels: numbered_labels(1000),
            ..VitConfig::of(family, size)
        };
        let parameters = model(config).parameters();
        parameters.iter().map(|p| p.shape.iter().product::<usize>()).sum()
    };
    let vits = VitSize::ALL.map(|size| count(VitFamily::Vit, size));
    assert_eq!(
        vits,
        [
            5_717_416,
            22_050_664,
            86_567_656,
            304_326_632,
            632_045_800,
            1_844_440_680
        ]
    );
    // The distillation token and its position.
    assert_eq!(count(VitFamily::Deit, VitSize::Tiny), 5_717_416 + 2 * 192);
}

#[test]
fn parameters_have_the_names_of_transformers() {
    for (family, prefix, tokens) in [(VitFamily::Vit, "vit", 1), (VitFamily::Deit, "deit", 2)] {
        let config = VitConfig {
            num_hidden_layers: 1,
            ..tiny(family)
        };
        let mut found: Vec<(String, Vec<usize>)> = model(config)
            .parameters()
            .into_iter()
            .map(|param| (param.name, param.shape))
            .collect();
        let mut wanted = vec![
            (format!("{prefix}.embeddings.cls_token"), vec![1, 1, 8]),
            (
                format!("{prefix}.embeddings.position_embeddings"),
                vec![1, 4 + tokens, 8],
            ),
            (
                format!("{prefix}.embeddings.patch_embeddings.projection.weight"),
                vec![8, 3, 2, 3],
            ),
            (format!("{prefix}.embeddings.patch_embeddings.projection.bias"), vec![8]),
        ];
        if family == VitFamily::Deit {
            wanted.push((format!("{prefix}.embeddings.distillation_token"), vec![1, 1, 8]));
        }
        let layer = format!("{prefix}.encoder.layer.0");
        for (name, out, inner) in [
            (format!("{layer}.attention.attention.query"), 8, 8),
            (format!("{layer}.attention.attention.key"), 8, 8),
            (format!("{layer}.attention.attention.value"), 8, 8),
            (format!("{layer}.attention.output.dense"), 8, 8),
            (format!("{layer}.intermediate.dense"), 6, 8),
            (format!("{layer}.output.dense"), 8, 6),
            ("classifier".to_string(), 3, 8),
        ] {
            wanted.push((format!("{name}.weight"), vec![out, inner]));
            wanted.push((format!("{name}.bias"), vec![out]));
        }
        for norm in [
            format!("{layer}.layernorm_before"),
            format!("{layer}.layernorm_after"),
            format!("{prefix}.layernorm"),
        ] {
            wanted.push((format!("{norm}.weight"), vec![8]));
            wanted.push((format!("{norm}.bias"), vec![8]));
        }
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
    }
}

#[test]
fn queries_keys_and_values_can_lack_biases() {
    let config = VitConfig {
        qkv_bias: false,
        ..tiny(VitFamily::Vit)
    };
    let model = model(config);
    let parameters = model.parameters();
    let has = |part: &str| parameters.iter().any(|param| param.name.ends_with(part));
    assert!(has("query.weight") && has("attention.output.dense.bias"));
    assert!(!has("query.bias") && !has("key.bias") && !has("value.bias"));
    assert_eq!(logits(&model, &given(&model)).ty.shape[..], [2, 3]);
}

#[test]
fn only_positions_tell_the_order_of_patches() {
    for family in VitFamily::ALL {
        let mut model = model(tiny(family));
        for position in [Position::Learned, Position::None] {
            let attention = lessen_nn::AttentionConfig {
                position,
                ..model.attention()
            };
            model.set_attention(attention).unwrap();
            let mut given = given(&model);
            let before = logits(&model, &given);
            assert_eq!(before.ty.shape[..], [2, 3]);
            // The upper and the lower row of patches change places: rows 0 and 1 of pixels with rows 2 and 3.
            let images = given.get_mut("images").unwrap();
            for image in images.data.chunks_exact_mut(4 * 6 * 3) {
                image.rotate_left(2 * 6 * 3);
            }
            let after = logits(&model, &given);
            let differs = before.data.iter().zip(&after.data).any(|(a, b)| (a - b).abs() > 1e-3);
            match position {
                Position::None => assert_close("logits", &after, &before, 1e-9),
                _ => assert!(differs, "{family:?}: {before:?}"),
            }
        }
    }
}

#[test]
fn the_loss_of_mixed_images_is_that_of_their_labels_by_their_shares() {
    let model = model(tiny(VitFamily::Deit));
    let mut given = given(&model);
    for criterion in [
        Criterion::default(),
        Criterion {
            smoothing: 0.1,
            class_weights: Some(vec![0.5, 1.0, 3.0]),
            ..Criterion::default()
        },
    ] {
        given.insert("labels".into(), Array::i32(&[2], &[2, 0]));
        given.insert("weights".into(), Array::f32(&[2], vec![1.0; 2]));
        let whole = vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0];
        given.insert("targets".into(), Array::f32(&[2, 3], whole));
        let plain = loss(&model, &criterion, false, &given);
        let mixed = loss(&model, &criterion, true, &given);
        assert!((plain - mixed).abs() < 1e-9 * plain, "{plain} and {mixed}");
    }
    // Of one image alone, the loss is linear in the shares.
    given.insert("weights".into(), Array::f32(&[2], vec![0.0, 1.0]));
    let mut of = |shares: [f64; 3]| {
        let targets = [[1.0, 0.0, 0.0], shares].concat();
        given.insert("targets".into(), Array::f32(&[2, 3], targets));
        loss(&model, &Criterion::default(), true, &given)
    };
    let (first, third) = (of([1.0, 0.0, 0.0]), of([0.0, 0.0, 1.0]));
    let between = of([0.25, 0.0, 0.75]);
    assert!((between - (0.25 * first + 0.75 * third)).abs() < 1e-9, "{between}");
}

#[test]
#[should_panic(expected = "a model of images cannot read a batch of texts")]
fn a_batch_of_texts_is_refused() {
    let trace = Trace::new();
    let texts = BatchShape::Padded { size: 2, length: 5 };
    model(tiny(VitFamily::Vit)).logits(Cx::new(*trace, false), texts);
}

#[test]
#[should_panic(expected = "a model of texts cannot read a batch of images")]
fn a_model_of_texts_refuses_images() {
    let trace = Trace::new();
    let config = lessen_nn::models::encoder::EncoderConfig::default();
    let encoder = Model::from(lessen_nn::models::encoder::LessenEncoder { config });
    encoder.logits(Cx::new(*trace, false), batch(false));
}

/// What transformers writes of a small ViT.
fn fields(family: VitFamily) -> Map<String, Value> {
    let fields = json!({
        "architectures": [family.class()],
        "attention_probs_dropout_prob": 0.0,
        "dtype": "float32",
        "encoder_stride": 16,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": 8,
        "id2label": { "0": "cat", "1": "dog", "2": "owl" },
        "image_size": 32,
        "initializer_range": 0.02,
        "intermediate_size": 6,
        "label2id": { "cat": 0, "dog": 1, "owl": 2 },
        "layer_norm_eps": 1e-12,
        "model_type": family.model_type(),
        "num_attention_heads": 2,
        "num_channels": 1,
        "num_hidden_layers": 2,
        "patch_size": [8, 4],
        "pooler_act": "tanh",
        "pooler_output_size": 8,
        "qkv_bias": false,
    });
    fields.as_object().unwrap().clone()
}

fn read(map: &Map<String, Value>) -> Result<Model, String> {
    let folder = Folder::new();
    fs::write(folder.file("config.json"), Value::Object(map.clone()).to_string()).unwrap();
    let shown = folder.0.display().to_string();
    Model::from_dir(&folder.0).map_err(|error| error.to_string().replace(&shown, "DIR"))
}

#[test]
fn a_configuration_is_read_and_comes_back() {
    for family in VitFamily::ALL {
        let map = fields(family);
        let model = read(&map).unwrap();
        assert_eq!(
            (model.architecture(), model.task()),
            (Architecture::Vit(family), Task::Classification { classes: 3 })
        );
        assert_eq!(model.config_json(), map);
        assert_eq!(model.image(), Some([32, 32, 1]));
        assert_eq!(
            (model.vocab_size(), model.max_length(), model.decoder().is_none()),
            (0, None, true)
        );
        let Model::Vit(vit) = model else { panic!("a ViT") };
        assert_eq!((vit.config.patch_size, vit.config.qkv_bias), ([8, 4], false));
        assert_eq!(
            vit.config.sequence(),
            4 * 8 + if family == VitFamily::Vit { 1 } else { 2 }
        );
    }
}

#[test]
fn a_checkpoint_without_head_gets_one() {
    let mut map = fields(VitFamily::Vit);
    map.insert("architectures".into(), json!(["ViTModel"]));
    map.remove("id2label");
    let folder = Folder::new();
    fs::write(folder.file("config.json"), Value::Object(map).to_string()).unwrap();
    let model = Model::from_dir_with(&folder.0, Head::SequenceClassification).unwrap();
    assert_eq!(model.architecture(), Architecture::Vit(VitFamily::Vit));
    assert!(model.is_head("classifier.weight") && !model.is_head("vit.layernorm.weight"));
}

#[test]
fn contradictory_sizes_are_told() {
    let fault = |field: &str, value: Value| {
        let mut map = fields(VitFamily::Vit);
        map.insert(field.into(), value);
        read(&map).unwrap_err()
    };
    for (field, value, expected) in [
        (
            "patch_size",
            json!(5),
            "`patch_size` is 5, which does not divide `image_size` (32)",
        ),
        (
            "patch_size",
            json!([8, 5]),
            "`patch_size` is [8,5], which does not divide `image_size` (32)",
        ),
        (
            "image_size",
            json!([32, 32, 3]),
            "`image_size` must be a whole number or a list of two, height and width",
        ),
        (
            "image_size",
            json!(8192),
            "`image_size` asks for 67108864 numbers of an image, and Lessen reads at most 16777216",
        ),
        (
            "num_attention_heads",
            json!(3),
            "`hidden_size` is 8, which `num_attention_heads` (3) does not divide",
        ),
    ] {
        assert_eq!(fault(field, value), format!("DIR/config.json: the field {expected}"));
    }
}

#[test]
fn images_are_checked_before_anything_is_traced() {
    let model = model(tiny(VitFamily::Vit));
    assert_eq!(model.check_image(IMAGE), Ok(()));
    assert_eq!(
        model.check_image([4, 4, 1]).unwrap_err().to_string(),
        "images of 4 x 4 x 1 (rows, columns, channels) do not fit the model, which reads 4 x 6 x 3; set image.size and \
         image.channels to those of the model"
    );
}
