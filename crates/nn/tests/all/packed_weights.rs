//! Checkpoints whose matrices are codes of 4 bits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use lessen_graph::ops::DequantizeGroups;
use lessen_nn::checkpoint::{InputScales, Integers, Receive, WeightDtype};
use lessen_nn::{Model, ParamSpec, Weights, checkpoint};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::support::{Folder, Tensors, fixture, model, write};

/// The matrices of a model's layers: those of blocks.
fn matrices(params: &[ParamSpec]) -> BTreeSet<String> {
    let is_of_block = |param: &&ParamSpec| param.shape.len() == 2 && param.name.split('.').any(|part| part == "0");
    params
        .iter()
        .filter(is_of_block)
        .map(|param| param.name.clone())
        .collect()
}

/// A recorded model with matrices in 4 bits, and its first weights.
fn packed(name: &str, group: usize) -> (Folder, Model, Weights, BTreeSet<String>) {
    let (model, weights) = model(name);
    let folder = Folder::new();
    let names = matrices(&model.parameters());
    assert!(names.len() >= 4, "{name}");
    let chosen = (&names, Integers::Four { group });
    let none = InputScales::default();
    checkpoint::quantize(&fixture(name), &folder.0, &model.parameters(), chosen, &none).unwrap();
    (folder, model, weights, names)
}

fn tensors(folder: &Folder) -> Tensors {
    let bytes = fs::read(folder.file("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(n, v)| (n.to_string(), (v.dtype(), v.shape().to_vec(), v.data().to_vec())))
        .collect()
}

/// Elements of a row of words, and of a row of scales.
fn decoded(tensors: &Tensors, name: &str, row: usize, column: usize) -> f32 {
    let (_, shape, bytes) = &tensors[&format!("{name}_packed")];
    let (_, scale_shape, scales) = &tensors[&format!("{name}_scale")];
    let extents = &tensors[&format!("{name}_shape")].2;
    let columns = i64::from_le_bytes(extents[8..].try_into().unwrap()) as usize;
    let word = row * shape[1] + column / 8;
    let word = u32::from_le_bytes(bytes[4 * word..4 * word + 4].try_into().unwrap());
    let level = (word >> (4 * (column % 8)) & 15) as f32 - 8.0;
    let width = columns / scale_shape[1];
    let scale = row * scale_shape[1] + column / width;
    level * f32::from_le_bytes(scales[4 * scale..4 * scale + 4].try_into().unwrap())
}

#[test]
fn a_packed_folder_is_read_as_its_codes_say_and_is_near_its_source() {
    for (name, group) in [
        ("bert-tiny-cls", 32),
        ("gpt2-tiny", 32),
        ("gpt2-tiny", 128),
        ("llama-tiny", 32),
    ] {
        let (folder, model, weights, names) = packed(name, group);
        let stored = tensors(&folder);
        let params = Model::from_dir(&folder.0).unwrap().parameters();
        let loaded = checkpoint::load(&folder.0, &params, &|_| false).unwrap();
        assert!(loaded.extra.is_empty() && loaded.missing.is_empty(), "{loaded:?}");
        // A copy in floats has the same numbers.
        let wide = folder.file("wide");
        checkpoint::convert(&folder.0, &wide, WeightDtype::F32).unwrap();
        let copied = checkpoint::load(&wide, &params, &|_| false).unwrap();
        assert_eq!(copied, loaded, "{name}");
        for param in model.parameters() {
            let (found, own) = (&loaded.weights[&param.name], &weights[&param.name]);
            if !names.contains(&param.name) {
                assert_eq!(found, own, "{}", param.name);
                continue;
            }
            let [rows, columns] = param.shape[..] else {
                panic!("{}", param.name)
            };
            let inputs = if param.is_turned { rows } else { columns };
            let width = Integers::Four { group }.group_of(inputs);
            assert!(width <= group && inputs.is_multiple_of(width) || width == inputs);
            let mut most = BTreeMap::new();
            let place = |i: usize| match param.is_turned {
                true => (i % columns, i / columns),
                false => (i / columns, i % columns),
            };
            for (i, x) in own.data.iter().enumerate() {
                let (row, at) = place(i);
                let largest = most.entry((row, at / width)).or_insert(0f32);
                *largest = largest.max(x.abs());
            }
            for (i, (found, own)) in found.data.iter().zip(&own.data).enumerate() {
                let (row, at) = place(i);
                assert_eq!(*found, decoded(&stored, &param.name, row, at), "{}, {i}", param.name);
                let half = most[&(row, at / width)] / 14.0;
                assert!((found - own).abs() <= half * 1.001, "{}, {i}", param.name);
            }
        }
        let refused = checkpoint::check_unquantized(&folder.0).unwrap_err().to_string();
        assert!(refused.contains("the model is quantized"), "{refused}");
    }
}

/// Takes codes where it can.
struct Codes {
    groups: BTreeMap<String, usize>,
    numbers: BTreeSet<String>,
    codes: BTreeMap<String, (Vec<u8>, Vec<f32>)>,
}

/// How rows of a parameter are restored.
fn op_of(param: &ParamSpec, group: usize) -> DequantizeGroups {
    let columns = param.shape[usize::from(!param.is_turned)];
    DequantizeGroups { group, columns }
}

impl Receive for Codes {
    fn numbers(&mut self, param: &ParamSpec, _: usize, _: &[f32]) -> lessen_base::Result<()> {
        self.numbers.insert(param.name.clone());
        Ok(())
    }

    fn groups(&self, param: &ParamSpec) -> Option<DequantizeGroups> {
        self.groups.get(&param.name).map(|group| op_of(param, *group))
    }

    fn codes(&mut self, param: &ParamSpec, row: usize, codes: &[u8], scales: &[f32]) -> lessen_base::Result<()> {
        let own = self.codes.entry(param.name.clone()).or_default();
        let columns = op_of(param, self.groups[&param.name]);
        let [of_codes, of_scales] = columns.types(1).unwrap().map(|ty| ty.last());
        assert_eq!((own.0.len(), own.1.len()), (row * of_codes, row * of_scales));
        own.0.extend_from_slice(codes);
        own.1.extend_from_slice(scales);
        Ok(())
    }
}

#[test]
fn codes_are_taken_as_they_are_and_stand_for_the_same_numbers() {
    for name in ["gpt2-tiny", "llama-tiny"] {
        let (folder, model, _, names) = packed(name, 32);
        let params = model.parameters();
        let groups = checkpoint::stored_groups(&folder.0, &params).unwrap();
        let mut taken = Codes {
            groups,
            numbers: BTreeSet::new(),
            codes: BTreeMap::new(),
        };
        checkpoint::load_into(&folder.0, &params, &|_| false, &mut taken).unwrap();
        let numbers = checkpoint::load(&folder.0, &params, &|_| false).unwrap().weights;
        assert!(taken.codes.keys().eq(&names), "{name}");
        for param in params.iter().filter(|param| names.contains(&param.name)) {
            assert!(!taken.numbers.contains(&param.name));
            let op = op_of(param, taken.groups[&param.name]);
            let [of_codes, of_scales] = op.types(1).unwrap().map(|ty| ty.last());
            let (codes, scales) = &taken.codes[&param.name];
            for (i, number) in numbers[&param.name].data.iter().enumerate() {
                let (row, at) = match param.is_turned {
                    true => (i % param.shape[1], i / param.shape[1]),
                    false => (i / param.shape[1], i % param.shape[1]),
                };
                let (codes, scales) = (&codes[row * of_codes..], &scales[row * of_scales..]);
                assert_eq!(op.element(codes, scales, at), *number, "{} {i}", param.name);
            }
        }
    }
}

/// What loading a packed BERT says whose tensors are changed.
fn fault(change: impl FnOnce(&mut Tensors, &str)) -> String {
    let (folder, model, _, names) = packed("bert-tiny-cls", 32);
    let mut all = tensors(&folder);
    change(&mut all, names.first().unwrap());
    write(&folder, "model.safetensors", &all);
    let error = checkpoint::load(&folder.0, &model.parameters(), &|_| false).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

#[test]
fn tensors_of_packed_matrices_that_do_not_fit_are_refused_by_name() {
    let scale = |bytes: [u8; 4]| {
        fault(move |all, name| all.get_mut(&format!("{name}_scale")).unwrap().2[4..8].copy_from_slice(&bytes))
    };
    for (number, shown) in [(0.0, "0"), (-0.5, "-0.5"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let sentence = scale(f32::to_le_bytes(number));
        assert!(
            sentence.contains(&format!("_scale` has the scale {shown} at number 1")),
            "{sentence}"
        );
    }
    let shape = |ending: &'static str, dtype, shape: &'static [usize], bytes: usize| {
        fault(move |all, name| {
            let tensor = (dtype, shape.to_vec(), vec![1; bytes]);
            all.insert(format!("{name}{ending}"), tensor);
        })
    };
    for (sentence, says) in [
        (
            shape("_packed", Dtype::I32, &[32, 3], 384),
            "_packed` holds I32 of the shape [32, 3]",
        ),
        (shape("_packed", Dtype::U8, &[32, 4], 128), "_packed` holds U8"),
        (
            shape("_scale", Dtype::F32, &[32, 3], 384),
            "_scale` has the shape [32, 3]",
        ),
        (shape("_scale", Dtype::I32, &[32, 1], 128), "_scale` holds I32"),
        (shape("_shape", Dtype::F32, &[2], 8), "_shape` holds F32"),
        (
            shape("_shape", Dtype::I64, &[3], 24),
            "_shape` holds I64 of the shape [3]",
        ),
        (
            shape("_shape", Dtype::I32, &[2], 8),
            "_packed` is of the shape [16843009, 16843009]",
        ),
        (
            shape("_zero_point", Dtype::I32, &[4, 1], 16),
            "_zero_point` has zero points",
        ),
        (
            shape("_g_idx", Dtype::I32, &[32], 128),
            "_g_idx` has an order of its inputs",
        ),
        (
            fault(|all, name| drop(all.remove(&format!("{name}_scale")))),
            "_scale` beside it",
        ),
        (
            fault(|all, name| drop(all.remove(&format!("{name}_shape")))),
            "_shape` beside it",
        ),
        (
            fault(|all, name| drop(all.remove(&format!("{name}_packed")))),
            "has no tensor",
        ),
        (
            fault(|all, name| {
                let extents = [-32i64, 32].map(i64::to_le_bytes).concat();
                all.get_mut(&format!("{name}_shape")).unwrap().2 = extents;
            }),
            "[-32, 32]",
        ),
    ] {
        assert!(sentence.contains(says), "{sentence}, not {says}");
    }
}

/// What others write: one group for a row, scales of half precision, all 16 levels, and a scale for all.
#[test]
fn folders_of_others_are_read() {
    let (folder, model, _, names) = packed("bert-tiny-cls", 32);
    let name = names.first().unwrap();
    let mut all = tensors(&folder);
    let codes: Vec<u8> = (0..32 * 16).map(|i| (i * 37 % 256) as u8).collect();
    all.insert(format!("{name}_packed"), (Dtype::I32, vec![32, 4], codes.clone()));
    let load = |all: &Tensors| {
        write(&folder, "model.safetensors", all);
        let loaded = checkpoint::load(&folder.0, &model.parameters(), &|_| false).unwrap();
        loaded.weights[name].data.clone()
    };
    let level = |i: usize| f32::from(codes[i / 2] >> (4 * (i % 2)) & 15) - 8.0;
    for (shape, scales) in [(vec![32, 1], 32), (vec![1], 1), (vec![32, 2], 64), (vec![32, 8], 256)] {
        let values: Vec<half::bf16> = (0..scales).map(|i| half::bf16::from_f32(0.25 + i as f32)).collect();
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        all.insert(format!("{name}_scale"), (Dtype::BF16, shape, bytes));
        let width = 32 * 32 / scales;
        let expected = (0..32 * 32).map(|i| level(i) * values[i / width].to_f32());
        assert_eq!(load(&all), expected.collect::<Vec<f32>>(), "{scales} scales");
        // Groups of 4 and of 16 are numbers for a device, whose groups are multiples of 32.
        let groups = checkpoint::stored_groups(&folder.0, &model.parameters()).unwrap();
        assert_eq!(groups.contains_key(name), scales <= 32, "{scales} scales");
    }
}

#[test]
fn the_config_names_groups_and_what_stays() {
    let (folder, _, _, names) = packed("llama-tiny", 32);
    let config: Value = serde_json::from_slice(&fs::read(folder.file("config.json")).unwrap()).unwrap();
    let own = &config["quantization_config"];
    assert_eq!(
        (&own["quant_method"], &own["format"]),
        (&json!("compressed-tensors"), &json!("pack-quantized"))
    );
    let groups = own["config_groups"].as_object().unwrap();
    let sizes: Vec<u64> = groups
        .values()
        .map(|group| group["weights"]["group_size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [48, 32]);
    let ignored: Vec<&str> = own["ignore"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert!(ignored.contains(&"model.embed_tokens"), "{ignored:?}");
    assert!(
        names
            .iter()
            .all(|name| !ignored.contains(&name.trim_end_matches(".weight")))
    );
    assert_eq!(own.get("turned"), None);
    let (folder, ..) = packed("gpt2-tiny", 32);
    let config: Value = serde_json::from_slice(&fs::read(folder.file("config.json")).unwrap()).unwrap();
    let own = &config["quantization_config"];
    assert_eq!(own["config_groups"]["group_0"]["targets"], json!(["Conv1D"]));
    assert_eq!(own["turned"].as_array().unwrap().len(), 4);
    // Without the field the codes would be those of the transposes.
    let mut other = config.clone();
    other["quantization_config"].as_object_mut().unwrap().remove("turned");
    fs::write(folder.file("config.json"), other.to_string()).unwrap();
    let params = Model::from_dir(&folder.0).unwrap().parameters();
    let refused = checkpoint::load(&folder.0, &params, &|_| false)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("in the order [out, in]"), "{refused}");
}

#[test]
fn codes_of_other_tools_are_refused_by_name() {
    let folder = Folder::copy_of("bert-tiny-cls");
    let params = Model::from_dir(&folder.0).unwrap().parameters();
    let mut all = tensors(&folder);
    let name = "bert.encoder.layer.0.output.dense";
    all.remove(&format!("{name}.weight")).unwrap();
    all.insert(format!("{name}.qweight"), (Dtype::I32, vec![1, 1], vec![0; 4]));
    write(&folder, "model.safetensors", &all);
    let load = || {
        checkpoint::load(&folder.0, &params, &|_| false)
            .unwrap_err()
            .to_string()
    };
    let sentence = load();
    assert!(
        sentence.contains(&format!("`{name}.qweight` is of codes as GPTQ or AWQ")),
        "{sentence}"
    );
    fs::rename(folder.file("model.safetensors"), folder.file("model.gguf")).unwrap();
    let sentence = load();
    assert!(sentence.contains("model.gguf is of the format GGUF"), "{sentence}");
}
