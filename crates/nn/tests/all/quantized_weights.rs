//! Checkpoints whose weights are integers of 8 bits with scales beside.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lessen_nn::checkpoint::{InputScales, Integers};
use lessen_nn::{Init, Model, ParamSpec, checkpoint};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};
use serde_json::{Value, json};

use crate::support::{Folder, load, model};

/// A tensor: name, dtype, shape, bytes.
type Stored<'a> = (&'a str, Dtype, &'a [usize], Vec<u8>);

fn write(dir: &Path, tensors: &[Stored<'_>]) {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        let view = TensorView::new(*dtype, shape.to_vec(), bytes).unwrap();
        (name.to_string(), view)
    });
    fs::write(dir.join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
}

fn floats(all: &[f32]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn integers(all: &[i8]) -> Vec<u8> {
    all.iter().map(|x| *x as u8).collect()
}

fn param(shape: &[usize]) -> ParamSpec {
    let trace = lessen_graph::Trace::new();
    ParamSpec {
        name: "a.weight".to_string(),
        shape: shape.to_vec(),
        init: Init::Zeros,
        value: trace.state("a.weight", lessen_graph::DType::F32, shape).id(),
        is_turned: false,
        is_buffer: false,
    }
}

const LEVELS: [i8; 8] = [-128, -127, 0, 127, 1, -1, 5, 100];

/// What the weight `[2, 4]` of `LEVELS` with these tensors beside it is read as.
fn read(beside: &[Stored<'_>]) -> lessen_base::Result<Vec<f32>> {
    let folder = Folder::new();
    let mut all = vec![("a.weight", Dtype::I8, &[2, 4][..], integers(&LEVELS))];
    all.extend(beside.iter().cloned());
    write(&folder.0, &all);
    let loaded = load(&folder, &[param(&[2, 4])])?;
    assert!(loaded.extra.is_empty(), "{:?}", loaded.extra);
    Ok(loaded.weights["a.weight"].data.clone())
}

#[test]
fn scales_belong_to_all_a_row_or_a_part_of_a_row() {
    let expected = |scale: fn(usize) -> f32, zero: fn(usize) -> i32| -> Vec<f32> {
        let number = |(i, x): (usize, &i8)| (i32::from(*x) - zero(i)) as f32 * scale(i);
        LEVELS.iter().enumerate().map(number).collect()
    };
    let scale = |shape: &'static [usize], all: &[f32]| ("a.weight_scale", Dtype::F32, shape, floats(all));
    for shape in [&[][..], &[1], &[1, 1]] {
        assert_eq!(read(&[scale(shape, &[0.5])]).unwrap(), expected(|_| 0.5, |_| 0));
    }
    for shape in [&[2][..], &[2, 1]] {
        let of_row = |i: usize| [0.25, 2.0][i / 4];
        assert_eq!(read(&[scale(shape, &[0.25, 2.0])]).unwrap(), expected(of_row, |_| 0));
    }
    let groups = scale(&[2, 2], &[0.25, 0.5, 1.0, 2.0]);
    assert_eq!(
        read(&[groups]).unwrap(),
        expected(|i| [0.25, 0.5, 1.0, 2.0][i / 2], |_| 0)
    );
    let zeros = ("a.weight_zero_point", Dtype::I8, &[2, 1][..], integers(&[-128, 3]));
    let with_zeros = read(&[scale(&[2, 1], &[0.25, 2.0]), zeros]).unwrap();
    assert_eq!(with_zeros, expected(|i| [0.25, 2.0][i / 4], |i| [-128, 3][i / 4]));
    let halves = half::f16::from_f32(0.5).to_le_bytes().to_vec();
    let of_halves = read(&[("a.weight_scale", Dtype::F16, &[], halves)]).unwrap();
    assert_eq!(of_halves, expected(|_| 0.5, |_| 0));
}

#[test]
fn scales_that_are_missing_or_no_positive_numbers_are_refused_by_name() {
    let refused = |beside: &[Stored<'_>], words: &str| {
        let sentence = read(beside).unwrap_err().to_string();
        assert!(sentence.contains(words), "{sentence}");
    };
    refused(
        &[],
        "the tensor `a.weight` holds I8, and there is no tensor `a.weight_scale` beside it",
    );
    for (scale, shown) in [(0.0, "0"), (-0.5, "-0.5"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let scales = ("a.weight_scale", Dtype::F32, &[2][..], floats(&[1.0, scale]));
        refused(
            &[scales],
            &format!("`a.weight_scale` has the scale {shown} at number 1"),
        );
    }
    let three = ("a.weight_scale", Dtype::F32, &[3][..], floats(&[1.0; 3]));
    refused(&[three], "has the shape [3], which are no scales of [2, 4]");
    let of_columns = ("a.weight_scale", Dtype::F32, &[2, 3][..], floats(&[1.0; 6]));
    refused(&[of_columns], "has the shape [2, 3], which are no scales of [2, 4]");
    let scale = ("a.weight_scale", Dtype::F32, &[2][..], floats(&[1.0; 2]));
    let wide = ("a.weight_zero_point", Dtype::I32, &[2][..], vec![0; 8]);
    refused(
        &[scale.clone(), wide],
        "`a.weight_zero_point` holds I32 of the shape [2]",
    );
    let one = ("a.weight_zero_point", Dtype::I8, &[1][..], vec![0]);
    refused(&[scale, one], "zero points are I8, one for each scale");
}

#[test]
fn a_quantized_folder_is_near_its_source_and_is_not_quantized_again() {
    let (model, weights) = model("bert-tiny-cls");
    let folder = Folder::new();
    let (source, target) = (folder.file("source"), folder.file("target"));
    checkpoint::save(&source, &model.config_json(), &weights).unwrap();
    let names: BTreeSet<String> = weights
        .iter()
        .filter(|(name, weight)| name.contains("dense.weight") && weight.shape.len() == 2)
        .map(|(name, _)| name.clone())
        .collect();
    assert!(names.len() > 3);
    let none = InputScales::default();
    let chosen = (&names, Integers::Eight);
    let [before, after] = checkpoint::quantize(&source, &target, &model.parameters(), chosen, &none).unwrap();
    let bytes = fs::read(target.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let total: usize = tensors.iter().map(|(_, view)| view.data().len()).sum();
    assert_eq!(total, after);
    assert!(after < before);
    for name in &names {
        let rows = weights[name].shape[0];
        assert_eq!(tensors.tensor(name).unwrap().dtype(), Dtype::I8);
        assert_eq!(tensors.tensor(&format!("{name}_scale")).unwrap().shape(), [rows, 1]);
    }
    let again = Model::from_dir(&target).unwrap();
    let loaded = checkpoint::load(&target, &again.parameters(), &|_| false).unwrap();
    assert!(loaded.extra.is_empty() && loaded.missing.is_empty());
    for (name, weight) in &loaded.weights {
        let own = &weights[name];
        if !names.contains(name) {
            assert_eq!(weight, own, "{name}");
            continue;
        }
        for (found, own) in weight.data.chunks(own.shape[1]).zip(own.data.chunks(own.shape[1])) {
            let largest = own.iter().fold(0f32, |most, x| most.max(x.abs()));
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= largest / 253.0;
            assert!(found.iter().zip(own).all(near), "{name}");
        }
    }
    let refused = checkpoint::quantize(&target, &folder.file("twice"), &model.parameters(), chosen, &none).unwrap_err();
    assert!(refused.to_string().contains("the model is quantized"), "{refused}");
}

#[test]
fn other_ways_to_quantize_are_refused_by_name() {
    let with = |config: Value| {
        let (model, weights) = model("bert-tiny-cls");
        let folder = Folder::new();
        let mut fields = model.config_json();
        checkpoint::save(&folder.0, &fields, &weights).unwrap();
        fields.insert("quantization_config".to_string(), config);
        fs::write(folder.file("config.json"), serde_json::to_vec(&fields).unwrap()).unwrap();
        Model::from_dir(&folder.0).map(drop)
    };
    let group = |bits: u64, inputs: Value| {
        json!({
            "quant_method": "compressed-tensors",
            "format": "int-quantized",
            "config_groups": {"group_0": {
                "weights": {"num_bits": bits, "type": "int"},
                "input_activations": inputs,
            }},
        })
    };
    let packed = |weights: Value| {
        json!({
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {"group_0": {"weights": weights, "input_activations": null}},
        })
    };
    for config in [
        packed(json!({"num_bits": 4, "type": "int", "symmetric": true, "actorder": "weight"})),
        json!(null),
        json!({}),
        group(8, json!(null)),
        group(8, json!({"num_bits": 8, "dynamic": true})),
    ] {
        with(config).unwrap();
    }
    for (config, words) in [
        (json!({"quant_method": "gptq", "bits": 4}), "the method gptq"),
        (json!({"quant_method": "awq"}), "the method awq"),
        (json!({"load_in_8bit": true}), "the method nothing"),
        (
            json!({"quant_method": "compressed-tensors", "format": "marlin-24"}),
            "the format marlin-24",
        ),
        (group(4, json!(null)), "weights of another type than int8 in group_0"),
        (
            json!({"quant_method": "compressed-tensors", "format": "int-quantized", "kv_cache_scheme": {"num_bits": 8}}),
            "a kv_cache_scheme",
        ),
        (
            packed(json!({"num_bits": 8})),
            "weights of another type than int4 in group_0",
        ),
        (
            packed(json!({"num_bits": 4, "symmetric": false})),
            "weights of 4 bits that are not symmetric in group_0",
        ),
        (
            packed(json!({"num_bits": 4, "type": "float"})),
            "weights of another type than int4",
        ),
        (
            packed(json!({"num_bits": 4, "actorder": "group"})),
            "another order of inputs (actorder \"group\") in group_0",
        ),
        (
            group(8, json!({"num_bits": 8, "dynamic": false})),
            "fixed ranges of input_activations in group_0",
        ),
    ] {
        let sentence = with(config).unwrap_err().to_string();
        assert!(
            sentence.contains("`quantization_config`") && sentence.contains(words),
            "{sentence}"
        );
    }
}
