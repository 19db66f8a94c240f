//! Every mistake of a user ends with exit code 2 and one sentence that names the thing, the place and the remedy, and
//! leaves no half-written run.

use crate::support::*;
use std::fs;
use std::path::Path;

/// Trains on titles, with `bytes` in place of the file `name`; returns the sentence of the refusal.
fn with_file(name: &str, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (data, recipe) = (titles(dir.path()), classifier(dir.path(), "encoder", ""));
    fs::write(data.join(name), bytes).unwrap();
    let sentence = refuse(dir.path(), &train_on(&recipe, &data, &["--out", "run"]));
    assert!(!dir.path().join("run").exists(), "nothing is half-written");
    sentence
}

#[test]
fn damaged_data_is_named_with_its_line() {
    let sentence = with_file("train.txt", b"sun\t0\nrain 1\n");
    assert!(sentence.contains("train.txt line 2 has no tab"), "{sentence}");
    let sentence = with_file("dev.txt", b"sun\t0\nrain\t2\n");
    assert!(
        sentence.contains("dev.txt line 2 has the label '2', but the 2 classes of class.txt are fair, foul;"),
        "{sentence}"
    );
    let sentence = with_file("train.txt", b"sun\t0\nrain\t1\n\xff\xfe\t1\n");
    assert!(sentence.contains("train.txt line 3 is not valid UTF-8"), "{sentence}");
    let sentence = with_file("train.txt", b"");
    assert!(sentence.contains("train.txt"), "{sentence}");
}

#[test]
fn missing_data_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (data, recipe) = (titles(dir.path()), classifier(dir.path(), "encoder", ""));
    fs::remove_file(data.join("train.txt")).unwrap();
    let sentence = refuse(dir.path(), &train_on(&recipe, &data, &[]));
    assert!(
        sentence.contains("there is no train.txt, train.csv, train.tsv, train.jsonl or train.parquet in"),
        "{sentence}"
    );
    let sentence = refuse(dir.path(), &["train", text(&recipe), "--data", "nowhere"]);
    assert_eq!(
        sentence,
        "error: --data nowhere: there is no file or folder nowhere; check the path"
    );
    let sentence = refuse(dir.path(), &["train", "thucnews"]);
    assert!(
        sentence.contains("the recipe thucnews needs data; name its file or folder with --data"),
        "{sentence}"
    );
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn wrong_settings_are_named_with_file_and_flag() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| refuse(dir.path(), args);
    assert_eq!(
        refused(&["train", "adder", "--set", "train.stps=3"]),
        "error: --set train.stps=3: there is no key 'train.stps'; did you mean train.steps?"
    );
    fs::write(dir.path().join("my.toml"), "[train]\nbatch = \"many\"\n").unwrap();
    assert_eq!(
        refused(&["train", "my.toml"]),
        "error: my.toml line 2: train.batch must be a whole number, at least 1, not \"many\""
    );
    let sentence = refused(&["train", "ader"]);
    assert!(
        sentence.ends_with("there is no recipe and no file called 'ader'; did you mean adder?"),
        "{sentence}"
    );
    let sentence = refused(&["train", "adder", "--budget", "much"]);
    assert!(sentence.contains("'much' is no size"), "{sentence}");
    assert_eq!(
        refused(&["plan", "adder", "--budget", "40"]),
        "error: '40' has no unit; write 40MiB or 40GiB, or 40B for bytes"
    );
    assert_eq!(
        refused(&["plan", "adder", "--set", "run.budget=40"]),
        "error: --set run.budget=40: run.budget must be a size such as 512M, a share such as 80%, or auto, not 40"
    );
    for threads in ["0", "1025"] {
        assert_eq!(
            refused(&["plan", "adder", "--threads", threads]),
            format!("error: --threads {threads} cannot be; choose a number from 1 to 1024")
        );
    }
    let sentence = refused(&["train", "adder", "--budget", "1KiB"]);
    assert!(sentence.contains("is below the floor of"), "{sentence}");
    assert!(fs::read_dir(dir.path()).unwrap().count() == 1, "nothing is written");
    for (variable, value) in [
        ("LESSEN_THREADS", "many"),
        ("LESSEN_CPU", "sse"),
        ("LESSEN_CPU", "avx2+vlsi"),
    ] {
        let environment = command(dir.path(), &["train", "adder"])
            .env(variable, value)
            .output()
            .unwrap();
        assert_eq!(environment.status.code(), Some(2));
        let told = stderr(&environment);
        assert!(told.contains(&format!("{variable} is \"{value}\"")), "{told}");
        assert!(fs::read_dir(dir.path()).unwrap().count() == 1, "nothing is written");
    }
}

#[test]
fn a_batch_that_no_memory_holds_is_refused_with_both_figures() {
    let dir = tempfile::tempdir().unwrap();
    let sentence = refuse(dir.path(), &["train", "adder", "--set", "train.batch=100000000"]);
    assert!(
        sentence.contains("TiB of memory but only") && sentence.contains("smaller batch"),
        "{sentence}"
    );
    let sentence = refuse(dir.path(), &["train", "adder", "--set", "train.batch=9999999999999"]);
    assert!(
        sentence.contains("--set train.batch=9999999999999: train.batch"),
        "{sentence}"
    );
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn sizes_that_nobody_can_count_are_refused_by_their_key() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["plan", "train"] {
        for (set, reason) in [
            (
                "model.width=268435456",
                "model.width = 268435456 (--set model.width=268435456) asks for more than",
            ),
            ("data.max_length=268435456", "data.max_length = 268435456 (--set"),
            (
                "model.ffn=18446744073709551615",
                "model.ffn = 18446744073709551615 is more than",
            ),
            (
                "model.layers=1000000",
                "model.layers = 1000000 is more than Lessen can do; choose at most 1024",
            ),
            ("train.accumulate=268435456", "choose at most 65536"),
        ] {
            let data = titles(dir.path());
            let sentence = refuse(dir.path(), &[command, "thucnews", "--data", text(&data), "--set", set]);
            assert!(sentence.contains(reason), "{sentence}");
        }
    }
    let sentence = refuse(dir.path(), &tiny_adder(&["--set", "data.max_length=99"]));
    assert!(sentence.contains("cannot change the adder"), "{sentence}");
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn an_output_folder_that_cannot_be_used_is_refused_before_training() {
    let dir = tempfile::tempdir().unwrap();
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    let mut permissions = fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&locked, permissions).unwrap();
    let sentence = refuse(dir.path(), &tiny_adder(&["--out", "locked/run"]));
    assert!(
        sentence.contains("locked is read-only; name another with --out"),
        "{sentence}"
    );
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(refuse(dir.path(), &tiny_adder(&["--out", "file"])).contains("file is a file"));
    fs::create_dir(dir.path().join("full")).unwrap();
    fs::write(dir.path().join("full/own.txt"), "mine").unwrap();
    let sentence = refuse(dir.path(), &tiny_adder(&["--out", "full"]));
    assert!(
        sentence.contains("the folder full is not empty; go on with its run by --resume"),
        "{sentence}"
    );
    assert_eq!(fs::read_dir(dir.path().join("full")).unwrap().count(), 1);
}

/// Starts a BERT from a checkpoint that `damage` has changed; the sentence.
fn with_checkpoint(damage: impl Fn(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let init = checkpoint(dir.path(), "bert");
    damage(&init);
    let args = [
        "train",
        "bert-classifier",
        "--init",
        text(&init),
        "--data",
        "titles",
        "--steps",
        "1",
        "--out",
        "run",
    ];
    let more = ["--set", "train.batch=2", "--set", "data.max_length=12"];
    let sentence = refuse(dir.path(), &[&args[..], &more].concat());
    assert!(!dir.path().join("run").exists(), "nothing is half-written");
    sentence
}

#[test]
fn a_damaged_checkpoint_is_named() {
    let weights = |init: &Path| init.join("model.safetensors");
    let sentence = with_checkpoint(|init| {
        let bytes = fs::read(weights(init)).unwrap();
        fs::write(weights(init), &bytes[..bytes.len() - 100]).unwrap();
    });
    assert!(
        sentence.contains("model.safetensors") && sentence.contains("truncated"),
        "{sentence}"
    );
    let sentence = with_checkpoint(|init| fs::remove_file(weights(init)).unwrap());
    assert!(sentence.contains("has no model.safetensors"), "{sentence}");
    let sentence = with_checkpoint(|init| fs::write(init.join("config.json"), "{").unwrap());
    assert!(sentence.contains("config.json"), "{sentence}");
}

/// Changes the header of a safetensors file by text of the same length.
fn change_header(init: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let path = init.join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(from.len())
        .position(|window| window == from.as_bytes())
        .expect("the header has it");
    let changed = [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat();
    fs::write(&path, changed).unwrap();
}

#[test]
fn a_checkpoint_of_wrong_shape_or_dtype_is_named_with_its_tensor() {
    let sentence = with_checkpoint(|init| change_header(init, "\"shape\":[16,32]", "\"shape\":[32,16]"));
    assert!(
        sentence.contains("has the shape [32, 16], the model needs [16, 32]"),
        "{sentence}"
    );
    let sentence = with_checkpoint(|init| change_header(init, "\"dtype\":\"F32\"", "\"dtype\":\"I32\""));
    assert!(sentence.contains("holds I32"), "{sentence}");
}

#[test]
fn a_checkpoint_with_a_value_that_is_no_number_is_named_with_its_tensor() {
    for value in [f32::NAN, f32::INFINITY] {
        let sentence = with_checkpoint(|init| {
            let path = init.join("model.safetensors");
            let mut bytes = fs::read(&path).unwrap();
            let last = bytes.len() - 4;
            bytes[last..].copy_from_slice(&value.to_le_bytes());
            fs::write(&path, bytes).unwrap();
        });
        assert!(
            sentence.starts_with("error: the tensor ") && sentence.contains("first/model has values that are"),
            "{sentence}"
        );
    }
}

#[test]
fn a_vocabulary_that_does_not_fit_the_checkpoint_is_refused() {
    let sentence = with_checkpoint(|init| {
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            fs::remove_file(init.join(name)).unwrap();
        }
        let words: String = (0..100).map(|i| format!("word{i}\n")).collect();
        fs::write(
            init.join("vocab.txt"),
            format!("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{words}"),
        )
        .unwrap();
    });
    assert!(
        sentence.contains("the tokenizer has 105 tokens but the checkpoint"),
        "{sentence}"
    );
}

#[test]
fn a_folder_without_a_run_is_no_run() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["eval", "none"][..],
        &["predict", "none", "--text", "x"],
        &["generate", "none", "--prompt", "x"],
    ] {
        assert!(refuse(dir.path(), args).contains("the folder none does not exist"));
    }
    assert!(refuse(dir.path(), &["eval", "."]).contains("holds no run"));
    assert!(refuse(dir.path(), &["train", "--resume"]).contains("there is no run of adder in runs/ to resume"));
}

/// A run whose rate rises with the steps: the first ones are harmless, and later the loss is no number.
const DIVERGES: [&str; 10] = [
    "--steps",
    "60",
    "--set",
    "train.lr=1e36",
    "--set",
    "train.warmup=1000000",
    "--set",
    "train.schedule=linear",
    "--set",
    "optimizer.kind=sgd",
];

/// The step whose loss a sentence calls no number.
fn failed_step(sentence: &str) -> u64 {
    let number = sentence.split_once("the loss of step ");
    number
        .and_then(|(_, rest)| rest.split_once(' ')?.0.parse().ok())
        .unwrap()
}

#[test]
fn the_only_checkpoint_stays_when_the_loss_after_it_is_no_number() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let failed = failed_step(&refuse(
        dir,
        &tiny_adder(&[&DIVERGES[..], &["--out", "first"]].concat()),
    ));
    let every = format!("train.checkpoint_every={}", failed - 1);
    let sentence = refuse(
        dir,
        &tiny_adder(&[&DIVERGES[..], &["--set", &every, "--out", "run"]].concat()),
    );
    let only = format!("run/checkpoints/step-{}", failed - 1);
    assert_eq!(failed_step(&sentence), failed);
    assert!(
        sentence.contains(&format!("{only}, the only checkpoint, leads there and is kept"))
            && sentence.ends_with("start another run with another --out"),
        "{sentence}"
    );
    assert!(dir.join(only).join("training.json").is_file());
}

#[test]
fn a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint_before() {
    let dir = tempfile::tempdir().unwrap();
    let args = [&DIVERGES[..], &["--set", "train.checkpoint_every=1", "--out", "run"]].concat();
    let sentence = refuse(dir.path(), &tiny_adder(&args));
    assert!(
        sentence.contains("step ") && sentence.contains("is the last good checkpoint"),
        "{sentence}"
    );
    assert!(
        sentence.contains("lower train.lr = 1e36 (--set train.lr=1e36)"),
        "{sentence}"
    );
    let failed = failed_step(&sentence);
    let good = format!("run/checkpoints/step-{}", failed - 2);
    assert!(
        sentence.contains(&format!("{good} is the last good checkpoint")),
        "{sentence}"
    );
    // The parameters that gave no number are kept nowhere; what is kept can be used.
    let newest = dir.path().join(format!("run/checkpoints/step-{}", failed - 1));
    assert!(!newest.exists());
    let scores = json(dir.path(), &["eval", "run", "--json"]);
    assert_eq!(scores["model"], good);
    assert!(scores["dev_loss"].as_f64().unwrap().is_finite(), "{scores}");
    // Also to go on from, as the sentence says.
    let report = json(
        dir.path(),
        &["train", "--resume", "--out", "run", "--set", "train.lr=0.01", "--json"],
    );
    assert_eq!(report["steps"], 60);
    let losses = report["loss_history"].as_array().unwrap();
    assert!(losses.len() == 60 && losses.iter().all(|loss| loss.is_number()));
}

#[test]
fn a_model_whose_loss_is_no_number_has_no_score() {
    let dir = tempfile::tempdir().unwrap();
    succeed(dir.path(), &tiny_adder(&["--steps", "1", "--out", "run"]));
    let path = dir.path().join("run/model/model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for value in bytes[header..].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    fs::write(&path, bytes).unwrap();
    let sentence = refuse(dir.path(), &["eval", "run", "--json"]);
    assert!(
        sentence.contains("the loss of run/model on dev is no number (NaN); "),
        "{sentence}"
    );
}

#[test]
fn bf16_without_instructions_for_it_is_computed_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let train = |out: &str, precision: &str| {
        let args = tiny_adder(&["--steps", "1", "--out", out, "--set", precision]);
        let output = command(dir.path(), &args)
            .env("LESSEN_CPU", "baseline")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let warning = "warning: train.precision is bf16, which this device has no instructions for";
    assert!(train("narrow", "train.precision=bf16").contains(warning));
    assert!(!train("wide", "train.precision=f32").contains(warning));
}
