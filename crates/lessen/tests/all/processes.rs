//! Trainings that several processes share, under the first launcher of MPI in `PATH`.

use crate::images::bars;
use crate::support::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The launcher; without one, tests say so and end.
fn launcher() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("mpiexec"))
        .find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: no mpiexec is in PATH (`pip install mpich` brings one)");
    }
    found
}

/// The launcher as a command.
fn launching(launcher: &Path) -> Command {
    let version = Command::new(launcher).arg("--version").output().unwrap();
    let mut command = Command::new(launcher);
    if String::from_utf8_lossy(&version.stdout).contains("Open") {
        command.args(["--allow-run-as-root", "--oversubscribe"]);
    }
    command
}

/// The command in so many processes.
fn shared(launcher: &Path, dir: &Path, processes: usize, args: &[&str]) -> Output {
    let mut command = launching(launcher);
    command
        .args(["-n", &processes.to_string(), env!("CARGO_BIN_EXE_lessen")])
        .args(args);
    command.current_dir(dir).env("LESSEN_THREADS", "1").output().unwrap()
}

/// The command in so many processes, which must succeed; what the first of them printed.
fn succeed_shared(launcher: &Path, dir: &Path, processes: usize, args: &[&str]) -> String {
    let output = shared(launcher, dir, processes, args);
    assert!(output.status.success(), "{processes}: {args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The saved model, the states of its newest checkpoint, and the scores of its last evaluation.
fn written(dir: &Path) -> (Vec<u8>, Vec<u8>, Option<String>) {
    let metrics = fs::read_to_string(dir.join("metrics.jsonl")).unwrap();
    let scores = metrics
        .lines()
        .filter(|line| line.contains("dev_"))
        .map(String::from)
        .next_back();
    let checkpoints = fs::read_dir(dir.join("checkpoints")).unwrap();
    let newest = checkpoints.map(|entry| entry.unwrap().path()).max_by_key(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.trim_start_matches("step-").parse::<u64>().unwrap_or(0)
    });
    let states = fs::read(newest.unwrap().join("training.safetensors")).unwrap();
    (fs::read(dir.join("model/model.safetensors")).unwrap(), states, scores)
}

/// Trains in one process and in two and three, the last of which begins with another number.
fn check_same_bytes(launcher: &Path, dir: &Path, args: &[&str]) {
    let out = |name: &'static str| [args, &["--steps", "6", "--out", name]].concat();
    succeed(dir, &out("one"));
    let expected = written(&dir.join("one"));
    succeed_shared(launcher, dir, 2, &out("two"));
    assert!(
        written(&dir.join("two")) == expected,
        "two processes write other bytes with {args:?}"
    );
    succeed(dir, &[args, &["--steps", "2", "--out", "three"]].concat());
    succeed_shared(
        launcher,
        dir,
        3,
        &["train", "--resume", "--out", "three", "--steps", "6"],
    );
    assert!(
        written(&dir.join("three")) == expected,
        "three processes go on to other bytes with {args:?}"
    );
    for name in ["one", "two", "three"] {
        fs::remove_dir_all(dir.join(name)).unwrap();
    }
}

#[test]
fn a_training_writes_the_same_bytes_on_any_number_of_processes() {
    let Some(launcher) = launcher() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let base = [
        "--set",
        "train.ranks=3",
        "--set",
        "train.clip_norm=0.5",
        "--set",
        "train.schedule=constant",
    ];
    let dropout = [
        "--set",
        "model.dropout=0.2",
        "--set",
        "train.batch=12",
        "--set",
        "train.warmup=0",
    ];
    let adder = tiny_adder(&base);
    check_same_bytes(
        &launcher,
        dir,
        &[&adder[..], &dropout, &["--set", "optimizer.kind=adamw_8bit"]].concat(),
    );
    let accumulated = [
        "--set",
        "train.accumulate=6",
        "--set",
        "optimizer.kind=adafactor",
        "--set",
        "train.ema=0.9",
    ];
    check_same_bytes(&launcher, dir, &[&adder[..], &dropout, &accumulated].concat());
    // Parameters that are large enough to be cut, in pieces, and updates that wait.
    let pieces = [
        "--set",
        "model.width=128",
        "--set",
        "train.shard_parameters=true",
        "--set",
        "optimizer.placement=forward-fused",
    ];
    check_same_bytes(&launcher, dir, &[&adder[..], &dropout, &pieces].concat());
    let (recipe, titles) = (classifier(dir, "encoder", ""), titles(dir));
    let unpadded = [
        "--set",
        "train.tokens=64",
        "--set",
        "train.accumulate=3",
        "--set",
        "model.dropout=0.1",
        "--set",
        "train.eval_every=3",
    ];
    check_same_bytes(
        &launcher,
        dir,
        &[&train_on(&recipe, &titles, &base)[..], &unpadded].concat(),
    );
    let bars = bars(dir);
    let images = [
        "train",
        "mnist",
        "--data",
        bars.to_str().unwrap(),
        "--set",
        "model.kind=resnet20",
    ];
    let small = [
        "--set",
        "train.batch=6",
        "--set",
        "train.warmup=0",
        "--set",
        "train.eval_every=3",
    ];
    check_same_bytes(&launcher, dir, &[&images[..], &small, &base].concat());
    let synchronized = ["--set", "model.batch_norm=synchronized"];
    check_same_bytes(&launcher, dir, &[&images[..], &small, &base, &synchronized].concat());
}

#[test]
fn processes_share_evaluations_and_refuse_what_differs() {
    let Some(launcher) = launcher() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    succeed(
        dir,
        &train_on(&recipe, &data, &["--out", "run", "--set", "train.batch=4"]),
    );
    let texts: String = (0..70)
        .map(|i| format!("day {i} {}\n", ["sun", "rain"][i % 2]))
        .collect();
    fs::write(dir.join("texts.txt"), texts).unwrap();
    let input = ["--input", "texts.txt"];
    for args in [
        vec!["eval", "run"],
        [&["predict", "run"][..], &input].concat(),
        vec!["predict", "run", "--text", "day 1 sun"],
        [&["embed", "run"][..], &input].concat(),
    ] {
        let alone = succeed(dir, &args);
        assert_eq!(succeed_shared(&launcher, dir, 3, &args), alone);
    }
    succeed_shared(
        &launcher,
        dir,
        2,
        &[&["embed", "run", "--output", "rows.npy"][..], &input].concat(),
    );
    assert!(dir.join("rows.npy").is_file());

    let refused = shared(&launcher, dir, 2, &["report", "run"]);
    assert!(
        stderr(&refused).contains("start this command without the launcher"),
        "{}",
        stderr(&refused)
    );
    assert!(!refused.status.success());
    // A batch that cannot be cut.
    let refused = shared(
        &launcher,
        dir,
        2,
        &tiny_adder(&["--set", "train.batch=7", "--out", "odd"]),
    );
    let sentence = "train.batch = 7 examples cannot be cut for train.ranks = 2";
    assert!(stderr(&refused).contains(sentence), "{}", stderr(&refused));
    assert!(!dir.join("odd").exists());
    // Settings of one process alone: the launcher takes a command for each part of the processes.
    let program = env!("CARGO_BIN_EXE_lessen");
    let own = |lr| {
        [
            &[program][..],
            &tiny_adder(&["--steps", "2", "--out", "other", "--set", lr]),
        ]
        .concat()
    };
    let mut command = launching(&launcher);
    command
        .args(["-n", "1"])
        .args(own("train.lr=0.1"))
        .args([":", "-n", "1"])
        .args(own("train.lr=0.2"));
    let output = command.current_dir(dir).env("LESSEN_THREADS", "1").output().unwrap();
    assert!(
        stderr(&output).contains("rank 1 and rank 0 have other settings"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("lr = 0.2") && !dir.join("other").exists(),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_plan_of_processes_tells_what_they_send() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["plan", "adder", "--set", "model.vocab=20", "--ranks", "4"];
    let object = json(
        dir.path(),
        &[&args[..], &["--network", "1Gbit,10ms", "--json"]].concat(),
    );
    let shared = &object["shared"];
    let bytes = 4 * object["parameters"].as_u64().unwrap();
    assert_eq!(shared["sent_bytes_per_step"], bytes * 3 / 2);
    let exchange = shared["estimated_exchange_ms"].as_f64().unwrap();
    assert!((exchange - bytes as f64 * 1.5 / 125e3).abs() < 1e-6, "{exchange}");
    // Five messages beside the exchange, and those of the exchange, that nothing hides.
    let step = shared["estimated_step_ms"].as_f64().unwrap();
    assert!(step > 50.0 + exchange, "{step}");
    let unknown = succeed(dir.path(), &args);
    assert!(unknown.contains("4 processes, each with up to 1 of 4 groups") && unknown.contains("--network"));
    let refused = refuse(dir.path(), &[&args[..], &["--network", "fast"]].concat());
    assert!(refused.contains("--network: 'fast' is no network"), "{refused}");
}
