//! `lessen quantize`: what it writes is read everywhere.

use std::fs;
use std::path::Path;

use lessen::cpu::simd::{CpuSet, Feature};
use lessen::data::arrays::{Array, npy};
use lessen::data::images::{Image, png};
use serde_json::Value;

use crate::generate::trained;
use crate::images::bars;
use crate::onnx_file::{Extent, F32, Graph};
use crate::support::{classifier, command, json, lessen, refuse, stderr, succeed, text, titles, train_on};

#[test]
fn a_quantized_model_is_scored_and_asked_as_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    succeed(dir, &train_on(&recipe, &data, &["--out", "run", "-q"]));
    let data = text(&data);
    let found = json(dir, &["quantize", "run", "-o", "small", "--data", data, "--json"]);
    let bytes = found["bytes"].as_array().unwrap();
    assert!(bytes[1].as_u64() < bytes[0].as_u64(), "{found}");
    assert!(found["quantized"].as_array().unwrap().len() >= 4, "{found}");
    assert!(found["difference"].as_f64().unwrap() < 0.05, "{found}");
    let accuracy = |scores: &Value| scores["dev_accuracy"].as_f64().unwrap();
    let [before, after] = ["f32", "int8"].map(|precision| accuracy(&found["scores"][precision]));
    assert!((before - after).abs() <= 0.1, "{found}");

    // The folder says by itself that products take integers.
    let config: Value = serde_json::from_slice(&fs::read(dir.join("small/config.json")).unwrap()).unwrap();
    assert_eq!(config["quantization_config"]["format"], "int-quantized");
    let score = |more: &[&str]| {
        let wanted = [&["eval", "small", "--data", data, "--json"], more].concat();
        json(dir, &wanted)["dev_loss"].as_f64().unwrap()
    };
    let own = score(&[]);
    assert_eq!(own, score(&["--precision", "int8"]));
    assert_eq!(own, score(&["--threads", "1"]));
    assert_ne!(own, score(&["--precision", "f32"]));
    let first = fs::read_to_string(dir.join("small/config.json")).unwrap();
    let answer = |model: &str, more: &[&str]| {
        let asked = [&["predict", model, "--text", "ab", "--json"], more].concat();
        json(dir, &asked)
    };
    answer("small", &[]);
    answer("run", &["--precision", "int8"]);

    // What is written with floats says nothing of integers.
    succeed(dir, &["export", "small", "wide"]);
    let config: Value = serde_json::from_slice(&fs::read(dir.join("wide/config.json")).unwrap()).unwrap();
    assert_eq!(config.get("quantization_config"), None);
    let wide = json(dir, &["eval", "wide", "--data", data, "--json"])["dev_loss"]
        .as_f64()
        .unwrap();
    assert_eq!(wide, score(&["--precision", "f32"]));
    let tuned = train_on(
        &recipe,
        std::path::Path::new(data),
        &["--init", "small", "--out", "tuned", "-q"],
    );
    succeed(dir, &tuned);
    let config: Value = serde_json::from_slice(&fs::read(dir.join("tuned/model/config.json")).unwrap()).unwrap();
    assert_eq!(config.get("quantization_config"), None);

    let sentence = refuse(dir, &["quantize", "small", "-o", "again"]);
    assert!(sentence.contains("the model is quantized"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "run", "-o", "small"]);
    assert!(sentence.contains("small is not empty"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "run", "-o", "again", "--base", "nowhere"]);
    assert!(sentence.contains("--base nowhere"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "run", "-o", "again", "--adapter", "run"]);
    assert!(sentence.contains("adapters"), "{sentence}");
    for asked in [
        ["quantize", "run", "-o", "again.onnx"],
        ["export", "run", "again.onnx", "-q"],
    ] {
        let sentence = refuse(dir, &asked);
        assert!(sentence.contains("again.onnx would be a folder"), "{sentence}");
    }
    let said = stderr(&lessen(dir, &["export", "small", "--onnx", "small.onnx"]));
    assert!(said.contains("the file has the model's integers as floats"), "{said}");
    assert!(!dir.join("again").exists() && !dir.join("again.onnx").exists());
    assert_eq!(first, fs::read_to_string(dir.join("small/config.json")).unwrap());
}

/// The header of a folder's tensors.
fn header(folder: &Path) -> Value {
    let bytes = fs::read(folder.join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[8..8 + length]).unwrap()
}

/// Kernels of all kinds become integers, which are computed with as such, with ranges of their own or from data.
#[test]
fn kernels_of_convolutions_become_integers() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let data = bars(dir);
    let images = text(&data);
    for (kind, sizes, kernel, epochs) in [
        ("resnet20", "", "conv1", 6),
        ("mobilenet-v2", "", "features.1.conv.0.0", 1),
        (
            "vit",
            "layers = 1\nwidth = 32\nheads = 2\nffn = 32\npatch = 4\n",
            "vit.embeddings.patch_embeddings.projection",
            6,
        ),
    ] {
        let recipe = dir.join(format!("{kind}.toml"));
        let text_of = format!(
            "# A tiny model of images.\n[model]\nkind = \"{kind}\"\n{sizes}[data]\nformat = \"images\"\nheld_out = 0.0\n\
             [train]\nbatch = 16\nepochs = {epochs}\nlr = 0.01\nwarmup = 4\n"
        );
        fs::write(&recipe, text_of).unwrap();
        let [run, small, fixed, wide] = ["run", "small", "fixed", "wide"].map(|name| format!("{kind}-{name}"));
        succeed(dir, &train_on(&recipe, &data, &["--out", &run, "-q"]));
        let loss = |model: &str, more: &[&str]| {
            let asked = [&["eval", model, "--data", images, "--split", "test", "--json"], more].concat();
            json(dir, &asked)["test_loss"].as_f64().unwrap()
        };
        let before = loss(&run, &[]);
        let quantize = |out: &str, more: &[&str]| {
            let asked = [
                &[
                    "quantize", &run, "-o", out, "--data", images, "--split", "test", "--json",
                ],
                more,
            ]
            .concat();
            json(dir, &asked)
        };
        let found = quantize(&small, &[]);
        let names: Vec<&str> = found["quantized"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert!(names.contains(&format!("{kernel}.weight").as_str()), "{found}");
        assert!(found["fixed"].is_null(), "{found}");
        let stored = header(&dir.join(&small));
        assert_eq!(stored[format!("{kernel}.weight")]["dtype"], "I8");
        let scale = &stored[format!("{kernel}.weight_scale")]["shape"];
        assert_eq!(scale.as_array().unwrap().len(), 4, "{scale}");
        // All that is no vector is of integers, or named.
        let left = found["left"].as_object().unwrap();
        for (name, tensor) in stored.as_object().unwrap() {
            let is_float = tensor["dtype"] == "F32" && !name.ends_with("_scale");
            if is_float && tensor["shape"].as_array().unwrap().len() > 1 {
                assert!(left.contains_key(name), "{name} is not named: {found}");
            }
        }
        let own = loss(&small, &[]);
        let scored = found["scores"]["int8"]["test_loss"].as_f64().unwrap();
        assert!((scored - own).abs() < 1e-6 * (1.0 + own), "{kind}: {scored} and {own}");
        assert_eq!(own, loss(&small, &["--precision", "int8"]));
        assert_eq!(own, loss(&small, &["--threads", "2"]));
        let floats = loss(&small, &["--precision", "f32"]);
        let near = |a: f64, b: f64, most: f64| assert!((a - b).abs() < most * (1.0 + b.abs()), "{kind}: {a} and {b}");
        near(own, before, 0.1);
        near(floats, before, 0.1);
        assert_ne!(own, floats);
        succeed(dir, &["export", &small, &wide]);
        assert_eq!(loss(&wide, &[]), floats);

        // Inputs of all layers have ranges, of which integers and floats make the same levels.
        let found = quantize(&fixed, &["--calibrate", images]);
        assert_eq!(found["fixed"]["layers"].as_u64(), Some(names.len() as u64), "{found}");
        let (integers, levels) = (loss(&fixed, &[]), loss(&fixed, &["--precision", "f32"]));
        near(integers, levels, 0.02);
        near(integers, before, 0.2);
        let image = dir.join(format!("{kind}.png"));
        let pixels = (0..192u8).collect();
        fs::write(&image, png(&Image::new([8, 8, 3], pixels))).unwrap();
        for model in [&small, &fixed] {
            json(dir, &["predict", model, "--image", text(&image), "--json"]);
        }
        for class in ["top", "middle", "bottom"] {
            fs::create_dir_all(dir.join("colours").join(class)).unwrap();
            fs::copy(&image, dir.join("colours").join(class).join("1.png")).unwrap();
        }
        let asked = [
            "quantize",
            &run,
            "-o",
            &format!("{kind}-colours"),
            "--calibrate",
            "colours",
        ];
        let said = stderr(&lessen(dir, &asked));
        assert!(said.contains("in colour; such images are converted to grey"), "{said}");
        let sentence = refuse(dir, &["quantize", &small, "-o", "again"]);
        assert!(sentence.contains("the model is quantized"), "{sentence}");
    }
}

/// Matrices of a decoder in 4 bits are computed with as the folder has them.
#[test]
fn matrices_become_integers_of_four_bits() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    succeed(dir, &train_on(&recipe, &data, &["--out", "run", "-q"]));
    let data = text(&data);
    let score = |model: &str, more: &[&str]| {
        let wanted = [&["eval", model, "--data", data, "--json"], more].concat();
        json(dir, &wanted)["dev_loss"].as_f64().unwrap()
    };
    let before = score("run", &[]);
    let int4 = ["--weights", "int4", "--json"];
    let found = json(
        dir,
        &[&["quantize", "run", "-o", "four", "--data", data], &int4[..]].concat(),
    );
    let bytes = found["bytes"].as_array().unwrap();
    assert!(bytes[1].as_u64() < bytes[0].as_u64(), "{found}");
    // 16 inputs are no multiple of 32.
    assert!(
        found["smaller_groups"]
            .as_object()
            .unwrap()
            .values()
            .any(|size| size == 16),
        "{found}"
    );
    assert!(
        found["left"]
            .as_object()
            .unwrap()
            .keys()
            .any(|name| name.contains("embed")),
        "{found}"
    );
    let own = score("four", &[]);
    let scored = found["scores"]["int4"]["dev_loss"].as_f64().unwrap();
    assert!((scored - own).abs() < 1e-6 * (1.0 + own), "{scored} and {own}");
    assert!((own - before).abs() < 0.2 * (1.0 + before), "{own} and {before}");
    assert_eq!(own, score("four", &["--threads", "2"]));
    assert_ne!(own, score("four", &["--precision", "f32"]));
    succeed(dir, &["export", "four", "wide"]);
    assert_eq!(score("wide", &[]), score("four", &["--precision", "f32"]));

    fs::remove_dir_all(dir.join("run")).unwrap();
    trained(dir);
    let asked = ["quantize", "run", "-o", "small", "--group", "128"];
    let found = json(dir, &[&asked[..], &int4[..]].concat());
    let names = found["quantized"].as_array().unwrap();
    assert!(names.len() >= 4, "{found}");
    let stored = header(&dir.join("small"));
    let is_code = |name: &&String| name.ends_with("weight_packed");
    assert_eq!(stored.as_object().unwrap().keys().filter(is_code).count(), names.len());
    let text_of = |model: &str, more: &[&str]| {
        let args = [
            "generate",
            model,
            "--prompt",
            "ab",
            "--tokens",
            "9",
            "--temperature",
            "0",
            "--json",
        ];
        json(dir, &[&args[..], more].concat())["text"].clone()
    };
    assert_eq!(text_of("small", &[]), text_of("run", &[]));
    for precision in ["f32", "int8", "int4"] {
        text_of("small", &["--precision", precision]);
    }
    for (more, says) in [
        (
            &["--weights", "int4", "--calibrate", data][..],
            "each row of inputs has its own range",
        ),
        (&["--group", "32"], "--group goes with --weights int4"),
        (
            &["--weights", "int8", "--group", "32"],
            "--group goes with --weights int4",
        ),
    ] {
        let sentence = refuse(dir, &[&["quantize", "run", "-o", "again"], more].concat());
        assert!(sentence.contains(says), "{sentence}");
    }
    let sentence = refuse(dir, &["quantize", "four", "-o", "again", "--weights", "int4"]);
    assert!(sentence.contains("the model is quantized"), "{sentence}");
    let output = lessen(
        dir,
        &["quantize", "run", "-o", "again", "--weights", "int4", "--group", "48"],
    );
    assert!(stderr(&output).contains("32, 128"), "{}", stderr(&output));
    assert!(!dir.join("again").exists());
}

#[test]
fn int8_is_no_precision_of_training_and_a_model_has_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    let asked = train_on(&recipe, &data, &["--out", "run", "--set", "train.precision=int8"]);
    let sentence = refuse(dir, &asked);
    assert!(
        sentence.contains("train.precision") && sentence.contains("f32, bf16"),
        "{sentence}"
    );
    let sentence = refuse(dir, &["quantize", "nothing", "-o", "small"]);
    assert!(sentence.contains("nothing"), "{sentence}");
    fs::create_dir(dir.join("other")).unwrap();
    fs::write(dir.join("other/model.gguf"), "GGUF").unwrap();
    for model in ["other", "other/model.gguf"] {
        for asked in [
            &["eval", model, "--data", "titles"][..],
            &["quantize", model, "-o", "small"],
        ] {
            let sentence = refuse(dir, asked);
            assert!(sentence.contains("model.gguf is of the format GGUF"), "{sentence}");
        }
    }
}

/// Products of integers on a machine without instructions for them have the same bits, and a line says that they take
/// longer.
#[test]
fn a_machine_without_the_instructions_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    succeed(dir, &train_on(&recipe, &data, &["--out", "run", "-q"]));
    let data = text(&data);
    succeed(dir, &["quantize", "run", "-o", "four", "--weights", "int4"]);
    succeed(dir, &["quantize", "run", "-o", "eight"]);
    let asked = |model: &str, precision: &[&str], set: &str| {
        let args = [&["eval", model, "--data", data, "--json"], precision].concat();
        let output = command(dir, &args).env("LESSEN_CPU", set).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
            .matches("no instructions for products of integers")
            .count()
    };
    for (model, precision, count) in [
        ("run", &[][..], 0),
        ("run", &["--precision", "int8"], 1),
        ("run", &["--precision", "int4"], 1),
        ("four", &[], 1),
        ("eight", &[], 1),
        ("eight", &["--precision", "f32"], 0),
    ] {
        assert_eq!(asked(model, precision, "baseline"), count, "{model} {precision:?}");
    }
    // It is VNNI that counts, whatever else there is.
    for set in CpuSet::detect().subsets() {
        let count = usize::from(!set.has(Feature::Vnni));
        assert_eq!(asked("eight", &[], &set.to_string()), count, "{set}");
    }
}

/// An ONNX file with integers runs, and says nearly the same; convolutions need inputs that say their ranges.
#[test]
fn an_onnx_file_becomes_one_of_integers() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    succeed(dir, &train_on(&recipe, &data, &["--out", "run", "-q"]));
    succeed(dir, &["export", "run", "--onnx", "model.onnx"]);
    let found = json(dir, &["quantize", "model.onnx", "-o", "small.onnx", "--json"]);
    assert!(found["difference"].as_f64().unwrap() < 0.1, "{found}");
    assert!(!found["quantized"].as_array().unwrap().is_empty(), "{found}");
    let bytes = found["bytes"].as_array().unwrap();
    assert!(bytes[1].as_u64() < bytes[0].as_u64(), "{found}");
    succeed(dir, &["run", "small.onnx", "-o", "small.npz"]);

    let sentence = refuse(dir, &["quantize", "small.onnx", "-o", "again.onnx"]);
    assert!(sentence.contains("has integers already"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "model.onnx", "-o", "small.onnx"]);
    assert!(sentence.contains("small.onnx exists"), "{sentence}");
    let sentence = refuse(
        dir,
        &["quantize", "model.onnx", "-o", "again.onnx", "--calibrate", "small.npz"],
    );
    assert!(sentence.contains("small.npz"), "{sentence}");
    assert!(!dir.join("again.onnx").exists());
}

/// A model of one product, with its elements in another file.
fn product(dir: &Path, name: &str, elements: &str) {
    let weight: Vec<f32> = (0..128u8).map(|i| f32::from(i % 7) - 3.0).collect();
    Graph::default()
        .input("x", F32, &[Extent::Size(4), Extent::Size(16)])
        .floats_in(&dir.join(elements), "w", &[16, 8], &weight)
        .node("MatMul", "y", &["x", "w"])
        .output("y", F32)
        .write(&dir.join(name));
}

#[test]
fn numbers_that_are_not_finite_are_no_data_to_calibrate_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    product(dir, "model.onnx", "model.bin");
    let mut numbers: Vec<f32> = (0..64u8).map(|i| f32::from(i) / 20.0).collect();
    npy::write(&dir.join("good.npy"), &Array::new(&[4, 16], numbers.clone())).unwrap();
    for (x, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        numbers[37] = x;
        npy::write(&dir.join("bad.npy"), &Array::new(&[4, 16], numbers.clone())).unwrap();
        for method in ["minmax", "percentile", "entropy"] {
            // A file of numbers after the other must not hide them.
            for order in [["bad.npy", "good.npy"], ["good.npy", "bad.npy"]] {
                let data = order.map(|file| ["--calibrate", file]).concat();
                let args = ["quantize", "model.onnx", "-o", "out.onnx", "--method", method];
                let sentence = refuse(dir, &[&args[..], &data].concat());
                let expected = format!("bad.npy: with these inputs `x` has the number {shown}, which no range holds");
                assert!(sentence.contains(&expected), "{method}: {sentence}");
                assert!(!dir.join("out.onnx").exists());
            }
        }
    }
}

#[test]
fn files_that_a_model_reads_survive_all_commands_that_write_onnx_files() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    product(dir, "model.onnx", "out.onnx.data");
    let before = contents(dir);
    for command in ["quantize", "convert"] {
        let sentence = refuse(dir, &[command, "model.onnx", "-o", "out.onnx"]);
        assert!(
            sentence.contains("out.onnx.data would overwrite what is read"),
            "{sentence}"
        );
    }
    let sentence = refuse(dir, &["convert", "model.onnx", "-o", "model.onnx"]);
    assert!(sentence.contains("would overwrite what is read"), "{sentence}");
    npy::write(&dir.join("x.npy"), &Array::new(&[4, 16], vec![1.0f32; 64])).unwrap();
    let sentence = refuse(dir, &["run", "model.onnx", "--input", "x=x.npy", "-o", "./x.npy"]);
    assert!(sentence.contains("would overwrite what is read"), "{sentence}");
    fs::remove_file(dir.join("x.npy")).unwrap();
    assert_eq!(contents(dir), before);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", dir.join("link")).unwrap();
        for args in [
            &["quantize", "model.onnx", "-o", "link"][..],
            &["convert", "model.onnx", "-o", "link"],
            &["train", "adder", "--steps", "1", "--out", "link", "-q"],
        ] {
            let sentence = refuse(dir, args);
            assert!(
                sentence.contains("link is a link to nowhere, which does not exist"),
                "{sentence}"
            );
        }
        assert_eq!(fs::read_link(dir.join("link")).unwrap(), Path::new("nowhere"));
    }
}

/// The files of a folder with what they hold.
fn contents(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let mut all: Vec<_> = entries
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect();
    all.sort();
    all
}
