//! Checkpoints in other dtypes.

use std::fs;

use crate::support::{Folder, Tensors, fixture, model, read, write};
use half::{bf16, f16};
use lessen_nn::checkpoint::{self, WeightDtype};
use lessen_nn::{Model, Weights};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

fn rounded(weights: &Weights, dtype: WeightDtype) -> Weights {
    let mut weights = weights.clone();
    for value in weights.values_mut().flat_map(|weight| &mut weight.data) {
        *value = match dtype {
            WeightDtype::F32 => *value,
            WeightDtype::Bf16 => bf16::from_f32(*value).to_f32(),
            WeightDtype::F16 => f16::from_f32(*value).to_f32(),
        };
    }
    weights
}

fn config_of(folder: &Folder) -> Value {
    serde_json::from_slice(&fs::read(folder.file("config.json")).unwrap()).unwrap()
}

#[test]
fn weights_are_rounded_to_the_dtype_and_config_json_names_it() {
    let (model, weights) = model("gpt2-tiny");
    for (dtype, stored, name, size) in [
        (WeightDtype::F32, Dtype::F32, "float32", 4),
        (WeightDtype::Bf16, Dtype::BF16, "bfloat16", 2),
        (WeightDtype::F16, Dtype::F16, "float16", 2),
    ] {
        assert_eq!(WeightDtype::from_name(dtype.name()), Some(dtype));
        let folder = Folder::new();
        checkpoint::convert(&fixture("gpt2-tiny"), &folder.0, dtype).unwrap();
        assert_eq!(config_of(&folder)["dtype"], json!(name));
        assert_eq!(Model::from_dir(&folder.0).unwrap().vocab_size(), model.vocab_size());
        let bytes = fs::read(folder.file("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert!(file.tensors().iter().all(|(_, view)| view.dtype() == stored));
        let elements: usize = weights.values().map(|weight| weight.data.len()).sum();
        assert_eq!(
            file.tensors().iter().map(|(_, view)| view.data().len()).sum::<usize>(),
            size * elements
        );
        let loaded = checkpoint::load(&folder.0, &model.parameters(), &|_| false).unwrap();
        assert_eq!(loaded.weights, rounded(&weights, dtype));
    }
    assert_eq!(WeightDtype::from_name("f64"), None);
}

#[test]
fn shards_become_one_file_and_integers_stay_integers() {
    let mut shards = [Tensors::new(), Tensors::new()];
    for (index, (name, tensor)) in read("gpt2-tiny").into_iter().enumerate() {
        shards[index % 2].insert(name, tensor);
    }
    let position = (
        Dtype::I64,
        vec![2],
        [7i64.to_le_bytes(), (-1i64).to_le_bytes()].concat(),
    );
    shards[1].insert("position_ids".into(), position.clone());
    let source = Folder::new();
    let mut places = serde_json::Map::new();
    for (index, shard) in shards.iter().enumerate() {
        let file = format!("model-{index}.safetensors");
        write(&source, &file, shard);
        places.extend(shard.keys().map(|name| (name.clone(), json!(file))));
    }
    let index = json!({ "weight_map": places });
    fs::write(source.file("model.safetensors.index.json"), index.to_string()).unwrap();
    fs::copy(fixture("gpt2-tiny").join("config.json"), source.file("config.json")).unwrap();

    let target = Folder::new();
    checkpoint::convert(&source.0, &target.file("new"), WeightDtype::Bf16).unwrap();
    let bytes = fs::read(target.file("new/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let found = file.tensor("position_ids").unwrap();
    assert_eq!((found.dtype(), found.shape().to_vec(), found.data().to_vec()), position);
    let (model, weights) = model("gpt2-tiny");
    let loaded = checkpoint::load(&target.file("new"), &model.parameters(), &|_| false).unwrap();
    assert_eq!(loaded.weights, rounded(&weights, WeightDtype::Bf16));
}

#[test]
fn a_number_that_the_dtype_does_not_reach_is_refused_and_nothing_is_written() {
    let mut tensors = read("gpt2-tiny");
    let bytes = &mut tensors.get_mut("transformer.ln_f.bias").unwrap().2;
    bytes[..4].copy_from_slice(&1e5f32.to_le_bytes());
    let (source, target) = (Folder::copy_of("gpt2-tiny"), Folder::new());
    write(&source, "model.safetensors", &tensors);
    let refused = checkpoint::convert(&source.0, &target.0, WeightDtype::F16).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the tensor `transformer.ln_f.bias` has the number 1e5, which f16 does not reach; store it as f32"
    );
    assert_eq!(fs::read_dir(&target.0).unwrap().count(), 0);
    checkpoint::convert(&source.0, &target.0, WeightDtype::Bf16).unwrap();
}
