//! Damaged folders whose weights are integers: read or refused by one sentence, never a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use lessen_base::{Result, SplitMix64, cases};
use lessen_nn::checkpoint::{InputScales, Integers, WeightDtype};
use lessen_nn::{Init, Model, ParamSpec, checkpoint};
use safetensors::Dtype;

use crate::support::{Folder, Tensors, fixture, write};

/// A folder before it is damaged.
struct Seed {
    name: &'static str,
    /// The parameters that are read; those of the model where there is a config.
    params: Vec<ParamSpec>,
    tensors: Vec<u8>,
    config: Option<Vec<u8>>,
}

fn params(shapes: &[(&str, &[usize], bool)]) -> Vec<ParamSpec> {
    let trace = lessen_graph::Trace::new();
    let param = |(name, shape, is_turned): &(&str, &[usize], bool)| ParamSpec {
        name: name.to_string(),
        shape: shape.to_vec(),
        init: Init::Zeros,
        value: trace.state(name, lessen_graph::DType::F32, shape).id(),
        is_turned: *is_turned,
        is_buffer: name.ends_with("input_scale"),
    };
    shapes.iter().map(param).collect()
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| (0.25 + i as f32).to_le_bytes()).collect()
}

/// A small file of some tensors.
fn file(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Vec<u8> {
    let folder = Folder::new();
    let all = tensors.iter().cloned();
    let all: Tensors = all
        .map(|(name, dtype, shape, bytes)| (name.to_string(), (dtype, shape.to_vec(), bytes)))
        .collect();
    write(&folder, "model.safetensors", &all);
    fs::read(folder.file("model.safetensors")).unwrap()
}

/// A recorded model whose matrices of blocks are integers.
fn recorded(name: &'static str, integers: Integers) -> Seed {
    let model = Model::from_dir(&fixture(name)).unwrap();
    let params = model.parameters();
    let is_of_block = |param: &&ParamSpec| param.shape.len() == 2 && param.name.contains(".0.");
    let names: BTreeSet<String> = params.iter().filter(is_of_block).map(|p| p.name.clone()).collect();
    let layers = names.iter().map(|name| name.trim_end_matches(".weight").to_string());
    let scales = match integers {
        Integers::Eight => InputScales {
            of: layers.map(|layer| (layer, 0.02)).collect::<BTreeMap<_, _>>(),
            without: model.layers(),
        },
        Integers::Four { .. } => InputScales::default(),
    };
    let without = scales.without.iter().filter(|layer| !scales.of.contains_key(*layer));
    let scales = InputScales {
        without: without.cloned().collect(),
        ..scales
    };
    let folder = Folder::new();
    checkpoint::quantize(&fixture(name), &folder.0, &params, (&names, integers), &scales).unwrap();
    let read = |name: &str| fs::read(folder.file(name)).unwrap();
    Seed {
        name,
        params: Model::from_dir(&folder.0).unwrap().parameters(),
        tensors: read("model.safetensors"),
        config: Some(read("config.json")),
    }
}

fn seeds() -> Vec<Seed> {
    let without_config = |name, params, tensors| Seed {
        name,
        params,
        tensors,
        config: None,
    };
    let integers = |count: usize| (0..count).map(|i| (i * 37) as u8).collect::<Vec<u8>>();
    let matrix = file(&[
        ("a.weight", Dtype::I8, &[2, 4], integers(8)),
        ("a.weight_scale", Dtype::F32, &[2, 1], floats(2)),
        ("a.weight_zero_point", Dtype::I8, &[2, 1], vec![0, 1]),
        ("a.input_scale", Dtype::F32, &[1], floats(1)),
    ]);
    let kernel = file(&[
        ("c.weight", Dtype::I8, &[3, 2, 2, 2], integers(24)),
        ("c.weight_scale", Dtype::F32, &[3, 1, 1, 1], floats(3)),
        ("c.input_scale", Dtype::F32, &[1], floats(1)),
    ]);
    let extents = |shape: [i64; 2]| shape.map(i64::to_le_bytes).concat();
    let packed = file(&[
        ("p.weight_packed", Dtype::I32, &[2, 5], integers(40)),
        ("p.weight_scale", Dtype::F32, &[2, 2], floats(4)),
        ("p.weight_shape", Dtype::I64, &[2], extents([2, 34])),
    ]);
    vec![
        without_config(
            "a matrix",
            params(&[("a.weight", &[2, 4], false), ("a.input_scale", &[1], false)]),
            matrix,
        ),
        without_config(
            "a kernel",
            params(&[("c.weight", &[3, 2, 2, 2], false), ("c.input_scale", &[1], false)]),
            kernel,
        ),
        without_config("a packed matrix", params(&[("p.weight", &[2, 34], false)]), packed),
        recorded("distilbert-tiny-cls", Integers::Eight),
        recorded("gpt2-tiny", Integers::Four { group: 32 }),
        recorded("llama-tiny", Integers::Four { group: 128 }),
    ]
}

/// A damaged copy of bytes, of which the first `within` are damaged.
fn mutated(bytes: &[u8], within: usize, random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    // Half of them have one change, so that many are read.
    for _ in 0..1 + random.below(2) * random.below(3) {
        let at = random.below(within.min(bytes.len()).max(1) as u64) as usize;
        let end = (at + 1 + random.below(8) as usize).min(bytes.len());
        if at >= bytes.len() {
            break;
        }
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.below(4) as usize],
            2 => bytes[at] = b"0129.-e\"{}[],:"[random.below(14) as usize],
            3 => drop(bytes.drain(at..end)),
            4 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
            _ if random.below(8) == 0 => bytes.truncate(at.max(1)),
            _ => bytes[at..end].reverse(),
        }
    }
    bytes
}

/// A copy with other bytes from `first` on, as many as before.
fn with_other_numbers(bytes: &[u8], first: usize, random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = first + random.below((bytes.len() - first).max(1) as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = [0, 0xff, 0x7f, *byte ^ (1 << random.below(8))][random.below(4) as usize];
        }
    }
    bytes
}

/// Reads a folder in all ways.
fn read(folder: &Folder, params: &[ParamSpec], wide: &std::path::Path) -> Result<()> {
    let own;
    let params = if folder.file("config.json").exists() {
        own = Model::from_dir(&folder.0)?.parameters();
        // Another number of layers or words is another model, of any size.
        if own
            .iter()
            .map(|param| param.shape.iter().product::<usize>())
            .sum::<usize>()
            > 1 << 20
        {
            return Ok(());
        }
        &own
    } else {
        params
    };
    let loaded = checkpoint::load(&folder.0, params, &|_| false)?;
    for param in params {
        let weight = &loaded.weights[&param.name];
        assert_eq!(
            weight.data.len(),
            param.shape.iter().product::<usize>(),
            "{}",
            param.name
        );
        if param.name.ends_with("input_scale") {
            assert!(weight.data.iter().all(|scale| *scale > 0.0 && scale.is_finite()));
        }
    }
    if !folder.file("config.json").exists() {
        // All of it is integers with scales.
        let mut numbers = loaded.weights.values().flat_map(|weight| &weight.data);
        assert!(numbers.all(|x| x.is_finite()));
    }
    checkpoint::stored_groups(&folder.0, params)?;
    if folder.file("config.json").exists() {
        checkpoint::convert(&folder.0, wide, WeightDtype::F32)?;
    }
    Ok(())
}

#[test]
fn damaged_quantized_folders_are_read_or_refused() {
    let seed = 23;
    let mut random = SplitMix64::new(seed);
    let asked = std::env::var("LESSEN_MUTATIONS").ok();
    let count = asked.and_then(|count| count.parse().ok()).unwrap_or(cases(3_000));
    let seeds = seeds();
    let (folder, wide) = (Folder::new(), Folder::new());
    let (mut done, mut refused) = (0, 0);
    for own in &seeds {
        let _ = fs::remove_file(folder.file("config.json"));
        fs::write(folder.file("model.safetensors"), &own.tensors).unwrap();
        own.config
            .iter()
            .for_each(|config| fs::write(folder.file("config.json"), config).unwrap());
        read(&folder, &own.params, &wide.0).unwrap_or_else(|error| panic!("{}: {error}", own.name));
    }
    for number in 0..count {
        let own = &seeds[number as usize % seeds.len()];
        let header = 8 + u64::from_le_bytes(own.tensors[..8].try_into().unwrap()) as usize;
        // Of four, two have a damaged header, one damaged bytes of tensors, one a damaged config.
        let way = random.below(4);
        let tensors = match (way, &own.config) {
            (0, Some(_)) => own.tensors.clone(),
            (1, _) => with_other_numbers(&own.tensors, header, &mut random),
            _ => mutated(&own.tensors, header, &mut random),
        };
        fs::write(folder.file("model.safetensors"), tensors).unwrap();
        let _ = fs::remove_file(folder.file("config.json"));
        if let Some(config) = &own.config {
            let config = match way {
                0 => mutated(config, config.len(), &mut random),
                _ => config.clone(),
            };
            fs::write(folder.file("config.json"), config).unwrap();
        }
        let result = std::panic::catch_unwind(|| read(&folder, &own.params, &wide.0));
        match result {
            Ok(Ok(())) => done += 1,
            Ok(Err(error)) => {
                assert_eq!(
                    error.exit_code(),
                    2,
                    "seed {seed}, mutation {number} of {}: {error}",
                    own.name
                );
                assert!(!error.to_string().contains('\n'), "{error} is one sentence");
                refused += 1;
            }
            Err(_) => panic!("seed {seed}, mutation {number} of {} panics", own.name),
        }
    }
    println!("{done} read, {refused} refused");
    assert!(done > 0 && refused > 0, "seed {seed}: {done} read, {refused} refused");
}

/// Scales that are no positive numbers are refused by the names of their tensors, in every kind of file.
#[test]
fn scales_that_are_no_positive_numbers_are_refused_in_every_kind_of_file() {
    let floats_of = |scale: f32, count: usize| vec![scale; count].into_iter().flat_map(f32::to_le_bytes).collect();
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MAX] {
        let kernel = |own: f32, input: f32| {
            file(&[
                ("c.weight", Dtype::I8, &[3, 2, 2, 2], vec![3; 24]),
                ("c.weight_scale", Dtype::F32, &[3, 1, 1, 1], floats_of(own, 3)),
                ("c.input_scale", Dtype::F32, &[1], floats_of(input, 1)),
            ])
        };
        let own = params(&[("c.weight", &[3, 2, 2, 2], false), ("c.input_scale", &[1], false)]);
        for (bytes, name) in [
            (kernel(scale, 1.0), "`c.weight_scale`"),
            (kernel(1.0, scale), "`c.input_scale`"),
        ] {
            let folder = Folder::new();
            fs::write(folder.file("model.safetensors"), bytes).unwrap();
            let error = checkpoint::load(&folder.0, &own, &|_| false).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("positive"), "{error}");
        }
    }
}
