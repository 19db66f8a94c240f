//! Checkpoints: saving and loading, older names, other dtypes and shards.

use std::fs;

use crate::support::{Folder, fault, fixture, load, model, read, write};
use lessen_nn::{Head, Model, Weight, Weights, checkpoint};
use safetensors::{Dtype, SafeTensors};

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&b| f32::from_le_bytes(b))
        .collect()
}

#[test]
fn what_is_saved_is_loaded() {
    for name in [
        "bert-tiny-cls",
        "bert-tiny-mlm",
        "gpt2-tiny",
        "roberta-tiny-cls",
        "roberta-tiny-mlm",
        "roberta-tiny-token",
        "distilbert-tiny-qa",
        "distilbert-tiny-cls",
        "distilbert-tiny-mlm",
        "mpnet-tiny-cls",
        "mpnet-tiny-mlm",
    ] {
        let (model, mut weights) = model(name);
        for (i, weight) in weights.values_mut().enumerate() {
            weight.data[0] = i as f32 - 0.1;
        }
        let folder = Folder::new();
        let dir = folder.file("not/there/yet");
        checkpoint::save(&dir, &model.config_json(), &weights).unwrap();
        checkpoint::save(&dir, &model.config_json(), &weights).unwrap();

        let again = Model::from_dir(&dir).unwrap();
        assert_eq!(again.config_json(), model.config_json());
        let loaded = checkpoint::load(&dir, &again.parameters(), &|_| false).unwrap();
        assert_eq!(loaded.weights, weights);
        let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|f| f.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(
            files,
            ["config.json", "model.safetensors"],
            "nothing is left beside the files"
        );
    }
}

#[test]
fn what_is_saved_is_sound_for_the_safetensors_crate() {
    let folder = Folder::new();
    let weights = Weights::from([
        (
            "b".to_string(),
            Weight {
                shape: vec![2, 3],
                data: vec![1.0, 2.0, 3.0, 4.0, 5.0, -0.0],
            },
        ),
        (
            "a".to_string(),
            Weight {
                shape: vec![],
                data: vec![7.5],
            },
        ),
        (
            "empty".to_string(),
            Weight {
                shape: vec![0, 4],
                data: vec![],
            },
        ),
    ]);
    checkpoint::save(&folder.0, &serde_json::Map::new(), &weights).unwrap();
    let bytes = fs::read(folder.file("model.safetensors")).unwrap();
    let (header, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    assert_eq!(header % 8, 0);
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.len(), 3);
    let b = file.tensor("b").unwrap();
    assert_eq!((b.dtype(), b.shape()), (Dtype::F32, &[2, 3][..]));
    assert_eq!(f32s(b.data()), weights["b"].data);
}

#[test]
fn other_float_types_are_converted() {
    let (model, weights) = model("gpt2-tiny");
    let mut tensors = read("gpt2-tiny");
    let mut expected = weights.clone();
    for (i, (name, (dtype, _, bytes))) in tensors.iter_mut().enumerate() {
        let values = f32s(bytes);
        let kept = &mut expected.get_mut(name).unwrap().data;
        match i % 4 {
            0 => {
                *dtype = Dtype::F64;
                *bytes = values.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect();
            }
            1 => {
                *dtype = Dtype::BF16;
                *bytes = values
                    .iter()
                    .flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes())
                    .collect();
                kept.iter_mut()
                    .for_each(|v| *v = f32::from_bits(v.to_bits() & 0xffff_0000));
            }
            2 => {
                *dtype = Dtype::F16;
                *bytes = values.iter().flat_map(|_| 0xc100u16.to_le_bytes()).collect();
                kept.fill(-2.5);
            }
            _ => {}
        }
    }
    let folder = Folder::new();
    write(&folder, "model.safetensors", &tensors);
    assert_eq!(load(&folder, &model.parameters()).unwrap().weights, expected);
}

#[test]
fn shards_are_found_through_their_index() {
    let (model, weights) = model("bert-tiny-mlm");
    let (mut first, folder) = (read("bert-tiny-mlm"), Folder::new());
    let second = first.split_off("bert.encoder.layer.1");
    write(&folder, "model-00001-of-00002.safetensors", &first);
    write(&folder, "model-00002-of-00002.safetensors", &second);
    let shard = |i| serde_json::json!(format!("model-0000{i}-of-00002.safetensors"));
    let places = first
        .keys()
        .map(|n| (n.clone(), shard(1)))
        .chain(second.keys().map(|n| (n.clone(), shard(2))));
    let index = |map: serde_json::Map<_, _>| serde_json::json!({ "metadata": {}, "weight_map": map }).to_string();
    let map: serde_json::Map<_, _> = places.collect();
    fs::write(folder.file("model.safetensors.index.json"), index(map.clone())).unwrap();
    assert_eq!(load(&folder, &model.parameters()).unwrap().weights, weights);

    let mut outside = map.clone();
    outside.insert("cls.predictions.bias".into(), "../model.safetensors".into());
    fs::write(folder.file("model.safetensors.index.json"), index(outside)).unwrap();
    assert_eq!(
        fault(&folder),
        "DIR/model.safetensors.index.json gives no file name for the tensor `cls.predictions.bias`"
    );

    fs::write(folder.file("model.safetensors.index.json"), index(map)).unwrap();
    fs::remove_file(folder.file("model-00002-of-00002.safetensors")).unwrap();
    assert!(fault(&folder).starts_with("DIR/model-00002-of-00002.safetensors cannot be read: "));
}

#[test]
fn names_of_older_and_headless_checkpoints_are_understood() {
    let rename = |name: &str, how: &dyn Fn(&str) -> String| {
        let folder = Folder::new();
        let tensors = read(name).into_iter().map(|(n, t)| (how(&n), t)).collect();
        write(&folder, "model.safetensors", &tensors);
        let (model, weights) = model(name);
        let loaded = load(&folder, &model.parameters()).unwrap();
        assert_eq!(loaded.weights, weights);
        assert!(loaded.extra.is_empty());
    };
    rename("gpt2-tiny", &|n| n.replace("transformer.", ""));
    rename("gpt-neox-tiny", &|n| n.replace("gpt_neox.", ""));
    rename("gptj-tiny", &|n| n.replace("transformer.", ""));
    rename("gpt2-tiny", &|n| n.replace("transformer.wte.weight", "lm_head.weight"));
    rename("bert-tiny-cls", &|n| {
        n.replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta")
    });
    rename("bert-tiny-cls", &|n| {
        n.replace("bert.", "").replace("LayerNorm.bias", "LayerNorm.beta")
    });
    rename("bert-tiny-mlm", &|n| {
        n.replace("cls.predictions.bias", "cls.predictions.decoder.bias")
    });
    rename("roberta-tiny-mlm", &|n| {
        n.replace("roberta.embeddings.word_embeddings", "lm_head.decoder")
            .replace("lm_head.bias", "lm_head.decoder.bias")
            .replace("roberta.", "")
    });
    rename("mpnet-tiny-mlm", &|n| {
        n.replace("mpnet.embeddings.word_embeddings", "lm_head.decoder")
            .replace("mpnet.", "")
    });
    rename("distilbert-tiny-mlm", &|n| {
        n.replace("distilbert.embeddings.word_embeddings", "vocab_projector")
            .replace("distilbert.", "")
    });
}

#[test]
fn copies_and_constants_are_ignored_and_other_extras_reported() {
    let (model, weights) = model("gpt2-tiny");
    let mut tensors = read("gpt2-tiny");
    tensors.insert("lm_head.weight".into(), tensors["transformer.wte.weight"].clone());
    tensors.insert(
        "transformer.h.0.attn.bias".into(),
        (Dtype::U8, vec![1, 1, 2, 2], vec![1, 0, 1, 1]),
    );
    tensors.insert(
        "transformer.h.0.attn.masked_bias".into(),
        (Dtype::F32, vec![], vec![0; 4]),
    );
    tensors.insert("score.weight".into(), (Dtype::F32, vec![1], vec![0; 4]));
    let folder = Folder::new();
    write(&folder, "model.safetensors", &tensors);
    let loaded = load(&folder, &model.parameters()).unwrap();
    assert_eq!(loaded.weights, weights);
    assert_eq!(loaded.extra, ["score.weight"]);
}

#[test]
fn a_new_head_may_be_missing() {
    let dir = fixture("bert-tiny-mlm");
    let model = Model::from_dir_with(&dir, Head::SequenceClassification).unwrap();
    let loaded = checkpoint::load(&dir, &model.parameters(), &|name| model.is_head(name)).unwrap();
    assert_eq!(
        loaded.missing,
        [
            "bert.pooler.dense.weight",
            "bert.pooler.dense.bias",
            "classifier.weight",
            "classifier.bias"
        ]
    );
    assert!(loaded.extra.iter().all(|name| name.starts_with("cls.predictions.")) && loaded.extra.len() == 5);
    assert_eq!(loaded.weights.len() + 4, model.parameters().len());
}

#[test]
fn a_head_of_another_shape_counts_as_missing_and_nothing_else_does() {
    let dir = fixture("bert-tiny-cls");
    let mut model = Model::from_dir(&dir).unwrap();
    model.set_labels(lessen_nn::numbered_labels(3));
    let params = model.parameters();
    let loaded = checkpoint::load(&dir, &params, &|name| model.is_head(name)).unwrap();
    assert_eq!(loaded.missing, ["classifier.weight", "classifier.bias"]);
    assert!(loaded.extra.is_empty());
    assert_eq!(loaded.weights.len() + 2, params.len());

    let mut tensors = read("bert-tiny-cls");
    tensors.get_mut("bert.embeddings.LayerNorm.bias").unwrap().1 = vec![1, 32];
    let folder = Folder::new();
    write(&folder, "model.safetensors", &tensors);
    let sentence = checkpoint::load(&folder.0, &params, &|name| model.is_head(name)).unwrap_err();
    assert!(
        sentence
            .to_string()
            .contains("`bert.embeddings.LayerNorm.bias` has the shape [1, 32]"),
        "{sentence}"
    );
}
