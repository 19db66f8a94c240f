//! What a run or search does not go on with: files of its settings with other contents. And names of files that no
//! setting can have.

use crate::images::bars;
use crate::support::*;
use lessen::data::images::{Image, png};
use serde_json::Value;
use std::fs;
use std::path::Path;

const RESUME: [&str; 6] = ["train", "--resume", "--out", "run", "--steps", "6"];

/// A grey image of 8 x 8 pixels that follow from a number.
fn image(number: usize) -> Vec<u8> {
    let pixels = (0..64).map(|at| (at * at * (number + 3) + at * 31 + number * 97) as u8);
    png(&Image::new([8, 8, 1], pixels.collect()))
}

/// Removes the digests of files from a manifest, as an earlier version wrote it.
fn forget(manifest: &Path) {
    let mut fields: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    assert!(fields.as_object_mut().unwrap().remove("inputs").is_some());
    fs::write(manifest, fields.to_string()).unwrap();
}

#[test]
fn an_image_that_was_replaced_by_one_of_equal_size_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for number in 0..16 {
        let class = dir.join("data").join(["a", "b"][number % 2]);
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join(format!("{number}.png")), image(number)).unwrap();
    }
    let recipe = dir.join("own.toml");
    let text = "[model]\nkind = \"convnet-3\"\n[data]\nformat = \"images\"\nheld_out = 0.25\n[train]\nbatch = 4\n\
                steps = 4\nlr = 0.01\ncheckpoint_every = 2\n";
    fs::write(&recipe, text).unwrap();
    succeed(dir, &train_on(&recipe, &dir.join("data"), &["--out", "run"]));
    let file = dir.join("data/b/7.png");
    let before = fs::read(&file).unwrap();
    let is_other = |other: &Vec<u8>| other.len() == before.len() && *other != before;
    let other = (16..9_999).map(image).find(is_other).unwrap();
    fs::write(&file, &other).unwrap();
    let sentence = refuse(dir, &RESUME);
    assert!(
        sentence.contains("data/b/7.png is not what the run run began with (its contents differ); restore it"),
        "{sentence}"
    );
    // Data may lie elsewhere.
    fs::write(&file, before).unwrap();
    fs::rename(dir.join("data"), dir.join("moved")).unwrap();
    succeed(dir, &[&RESUME[..], &["--data", "moved"]].concat());
    forget(&dir.join("run/checkpoints/step-6/training.json"));
    // In the run of an earlier version, names and sizes of images are known alone.
    fs::write(dir.join("moved/b/7.png"), &other).unwrap();
    succeed(dir, &[&RESUME[..4], &["--data", "moved", "--steps", "8"]].concat());
}

#[test]
fn models_to_start_from_and_tokenizers_stay_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "encoder");
    let recipe = classifier(dir, "encoder", "checkpoint_every = 2\n");
    let tokenizer = dir.join("tokenizer");
    fs::create_dir_all(&tokenizer).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(init.join(name), tokenizer.join(name)).unwrap();
    }
    let data = dir.join("titles");
    let settings = [
        "--init",
        text(&init),
        "--set",
        "data.tokenizer=tokenizer",
        "--out",
        "run",
    ];
    succeed(dir, &train_on(&recipe, &data, &settings));
    fs::write(init.join("README.md"), "Notes.").unwrap();
    for (file, key) in [
        (init.join("config.json"), "model.init"),
        (tokenizer.join("tokenizer.json"), "data.tokenizer"),
    ] {
        let before = fs::read(&file).unwrap();
        fs::write(&file, [&before[..], b"\n"].concat()).unwrap();
        let sentence = refuse(dir, &RESUME);
        assert!(
            sentence.starts_with(&format!(
                "error: {key}: {} is not what the run run began with",
                text(&file)
            )),
            "{sentence}"
        );
        fs::write(&file, before).unwrap();
    }
    let added = tokenizer.join("added_tokens.json");
    fs::write(&added, "{}").unwrap();
    assert!(refuse(dir, &RESUME).contains("added_tokens.json is not what the run run began with (it is new)"));
    fs::remove_file(added).unwrap();
    succeed(dir, &RESUME);
    forget(&dir.join("run/checkpoints/step-6/training.json"));
    fs::write(tokenizer.join("added_tokens.json"), "{}").unwrap();
    succeed(dir, &["train", "--resume", "--out", "run", "--steps", "8"]);
}

#[test]
fn an_accelerator_whose_file_was_edited_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let accelerator = "name = \"own\"\nclock_hz = 500000000\nrows = 4\ncolumns = 4\nhigh_bits = 8\nlow_bits = 2\n\
        weight_buffer = 65536\nactivation_buffer = 32768\noutput_buffer = 16384\nmemory_bits = 64\n[energy]\n\
        core_cycle = 1.0\nweight_read = 0.02\nweight_write = 0.03\nactivation_read = 0.06\nactivation_write = 0.1\n\
        output_read = 0.03\noutput_write = 0.07\ndram = 15.0\n";
    fs::write(dir.join("own.toml"), accelerator).unwrap();
    let tiny = [
        "search",
        "mnist",
        "--data",
        "bars",
        "--accelerator",
        "own.toml",
        "--epochs",
        "2",
        "--out",
        "found",
    ];
    let sizes = [
        "search.width=0.125",
        "search.depth=1",
        "search.kernels=3",
        "search.expansions=1",
        "search.bits=2,8",
        "search.batch=16",
    ];
    let sizes: Vec<&str> = sizes.iter().flat_map(|size| ["--set", size]).collect();
    succeed(dir, &[&tiny[..], &sizes].concat());
    fs::write(dir.join("own.toml"), accelerator.replace("dram = 15.0", "dram = 16.0")).unwrap();
    let resume = ["search", "--resume", "--out", "found"];
    let sentence = refuse(dir, &resume);
    assert!(
        sentence.starts_with("error: search.accelerator: ")
            && sentence.contains("own.toml is not what the search found began with (its contents differ)"),
        "{sentence}"
    );
    forget(&dir.join("found/manifest.json"));
    succeed(dir, &resume);
}

#[test]
#[cfg(unix)]
fn paths_that_no_setting_can_have_are_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = titles(dir);
    let path = dir.join(OsStr::from_bytes(b"d\xe9j\xe0"));
    fs::rename(data, &path).unwrap();
    for job in [
        &["train", "thucnews"][..],
        &["plan", "thucnews"],
        &["search", "mnist"],
        &["condense", "mnist"],
    ] {
        let output = command(dir, job).arg("--data").arg(&path).output().unwrap();
        let sentence = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        assert!(
            sentence.contains("is not valid UTF-8, as settings are written; give it another name, or make a link"),
            "{sentence}"
        );
    }
}
