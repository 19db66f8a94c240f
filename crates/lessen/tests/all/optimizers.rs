//! Every optimizer trains, and resumes with the same bits; a phase can go on with another one.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

const KINDS: [&str; 9] = [
    "adamw",
    "adamw_8bit",
    "adam",
    "sgd",
    "adagrad",
    "adadelta",
    "rmsprop",
    "lion",
    "adafactor",
];

/// Sizes with which some parameters have moments of 8 bits, and a decay.
const SIZES: [&str; 6] = [
    "--set",
    "model.width=32",
    "--set",
    "model.ffn=128",
    "--set",
    "train.weight_decay=0.1",
];

/// The header of a file of tensors: their names, dtypes and shapes.
fn header(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    serde_json::from_slice(&bytes[8..][..length as usize]).unwrap()
}

/// Goes on after the checkpoint before the newest one, which is removed, with two threads.
fn go_on(dir: &Path, run: &str, newest: u64) {
    fs::remove_dir_all(dir.join(format!("{run}/checkpoints/step-{newest}"))).unwrap();
    let mut resume = command(dir, &["train", "--resume", "--out", run]);
    let output = resume.env("LESSEN_THREADS", "2").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("resuming after step "), "{}", stderr(&output));
}

fn assert_same(dir: &Path, runs: [&str; 2], files: &[String]) {
    for file in files {
        let [a, b] = runs.map(|run| fs::read(dir.join(run).join(file)).unwrap());
        assert!(a == b, "{file} of {runs:?} differs");
    }
}

#[test]
fn every_optimizer_resumes_and_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for kind in KINDS {
        let kind_is = format!("optimizer.kind={kind}");
        let more = ["--steps", "6", "--set", "train.checkpoint_every=3", "--set", &kind_is];
        let [whole, late, planned, cut] = ["whole", "late", "planned", "cut"].map(|name| format!("{name}-{kind}"));
        for (out, placement) in [
            (&whole, "separate"),
            (&late, "forward-fused"),
            (&planned, "planned"),
            (&cut, "backward-fused"),
        ] {
            let placed = format!("optimizer.placement={placement}");
            let own = ["--set", &placed, "--out", out];
            succeed(dir, &tiny_adder(&[&SIZES[..], &more, &own].concat()));
        }
        go_on(dir, &cut, 6);
        let files = ["model/model.safetensors", "checkpoints/step-6/training.safetensors"].map(String::from);
        assert_same(dir, [&whole, &cut], &files);
        assert_same(dir, [&whole, &late], &files);
        assert_same(dir, [&whole, &planned], &files);
        let states = header(&dir.join(&whole).join("checkpoints/step-6/training.safetensors"));
        let dtypes = states.as_object().unwrap().values().map(|tensor| &tensor["dtype"]);
        assert_eq!(
            dtypes.into_iter().any(|dtype| dtype == "U8"),
            kind == "adamw_8bit",
            "{kind}"
        );
    }
}

#[test]
fn a_phase_goes_on_with_the_moments_that_both_optimizers_have() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = "[model]\nlayers = 1\nwidth = 32\nheads = 2\nffn = 128\n[data]\nformat = \"adder\"\n\
                [train]\nbatch = 8\nsteps = 4\nlr = 0.01\ncheckpoint_every = 2\neval_every = 0\nkeep = 9\n\
                [[phase]]\nname = \"all\"\n\
                [[phase]]\nname = \"small\"\noptimizer.kind = \"adamw_8bit\"\n\
                [[phase]]\nname = \"signs\"\noptimizer.kind = \"lion\"\n\
                [[phase]]\nname = \"factors\"\noptimizer.kind = \"adafactor\"\n";
    fs::write(dir.join("my.toml"), text).unwrap();
    for out in ["whole", "cut"] {
        succeed(dir, &["train", "my.toml", "--out", out]);
    }
    let files = ["checkpoints/step-16/training.safetensors", "model/model.safetensors"].map(String::from);
    for step in [12, 10, 8, 6] {
        // As if the run had been killed after this step.
        for newest in (step + 2..16).step_by(2) {
            fs::remove_dir_all(dir.join(format!("cut/checkpoints/step-{newest}"))).unwrap();
        }
        go_on(dir, "cut", 16);
        assert_same(dir, ["whole", "cut"], &files);
    }
    let manifest = fs::read(dir.join("whole/checkpoints/step-8/training.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let joined = manifest["phase"]["joined"].as_object().unwrap();
    // Matrices of 4096 elements begin with moments of another kind; the other parameters keep the moments of the phase
    // before.
    assert_eq!(joined.len(), 2, "{joined:?}");
    for (name, since) in joined {
        assert!(name.contains(".mlp.") && name.ends_with(".weight"), "{name}");
        assert_eq!(since, 4);
    }
}

#[test]
fn a_key_of_another_optimizer_is_refused_before_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let more = [
        "--set",
        "optimizer.kind=lion",
        "--set",
        "optimizer.rho=0.9",
        "--out",
        "run",
    ];
    assert_eq!(
        refuse(dir.path(), &tiny_adder(&more)),
        "error: optimizer.rho = 0.9 (--set optimizer.rho=0.9) is for optimizer.kind = adadelta, and this is lion; leave it out"
    );
    assert!(!dir.path().join("run").exists());
}
