//! A recipe in phases: what a phase changes, what it keeps, and what is told before the first step.

use crate::support::*;
use lessen::nn::{Model, Weights, checkpoint};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The adder in a model that is trained in a moment.
const TINY: &str = "[model]\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\n[data]\nformat = \"adder\"\n";

/// Three phases: a second block joins, then the feed-forward layers get another size and gradients are accumulated.
pub const GROWING: &str = "[train]\nbatch = 8\nsteps = 20\nlr = 0.01\nwarmup = 2\nschedule = \"one-cycle\"\neval_every = 5\n\
                       checkpoint_every = 4\n[[phase]]\nname = \"one\"\n[[phase]]\nname = \"two\"\nmodel.layers = 2\n\
                       model.dropout = 0.1\ntrain = { steps = 15, lr = 0.004 }\n[[phase]]\nname = \"three\"\n\
                       [phase.model]\nffn = 24\n[phase.train]\nsteps = 10\naccumulate = 2\nclip_norm = 1\n";

pub fn write(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), format!("{TINY}{text}")).unwrap();
}

fn weights(dir: &Path) -> Weights {
    let model = Model::from_dir(dir).unwrap();
    checkpoint::load(dir, &model.parameters(), &|_| false).unwrap().weights
}

/// The lines of a run's metrics without what a clock decides.
pub fn metrics(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("step_ms");
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn phases_that_change_nothing_are_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let train = "[train]\nbatch = 8\nlr = 0.01\ncheckpoint_every = 5\neval_every = 0\n";
    let phases = "[[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\ntrain.steps = 7\n";
    write(dir, "phases.toml", &format!("{train}steps = 5\n{phases}"));
    write(dir, "whole.toml", &format!("{train}steps = 12\n"));
    for name in ["whole", "phases"] {
        let more = ["--out", name, "--set", "model.dropout=0.1"];
        succeed(dir, &[&["train", &format!("{name}.toml")], &more[..]].concat());
    }
    for file in ["model/model.safetensors", "checkpoints/step-12/training.safetensors"] {
        let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
        assert!(read("whole") == read("phases"), "{file} differs");
    }
    let losses = |run: &str| -> Vec<Value> {
        let lines = metrics(&dir.join(run)).into_iter();
        lines
            .filter(|line| line["loss"].is_number())
            .map(|line| line["loss"].clone())
            .collect()
    };
    assert_eq!((losses("whole"), losses("phases").len()), (losses("phases"), 12));
}

#[test]
fn steps_go_on_and_each_phase_has_a_schedule_and_a_result_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "growing.toml", GROWING);
    let plan = json(dir, &["plan", "growing.toml", "--json"]);
    let report = json(dir, &["train", "growing.toml", "--out", "run", "--json"]);
    assert_eq!(
        (&report["steps"], report["loss_history"].as_array().unwrap().len()),
        (&45.into(), 45)
    );
    let phases = report["phases"].as_array().unwrap();
    let found: Vec<_> = phases
        .iter()
        .map(|phase| (phase["phase"].as_str().unwrap(), phase["steps"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, [("one", 20), ("two", 15), ("three", 10)]);
    assert_eq!(phases[2]["dev_loss"], report["dev_loss"]);
    assert!(phases[0]["dev_loss"].is_number() && phases[0]["dev_loss"] != phases[1]["dev_loss"]);

    let lines = metrics(&dir.join("run"));
    let steps: Vec<&Value> = lines.iter().filter(|line| line["loss"].is_number()).collect();
    for (index, line) in steps.iter().enumerate() {
        assert_eq!(line["step"], index as u64 + 1);
        let phase = ["one", "two", "three"][usize::from(index >= 20) + usize::from(index >= 35)];
        assert_eq!(line["phase"], phase);
    }
    // One-cycle begins with a 25th of the peak.
    for (index, peak) in [(0, 0.01), (20, 0.004), (35, 0.004)] {
        let lr = steps[index]["lr"].as_f64().unwrap();
        assert!((lr - peak / 25.0).abs() < 1e-12, "{lr}");
    }
    assert!(steps[35]["gradient_norm"].is_number() && steps[34]["gradient_norm"].is_null());
    let evaluated: Vec<u64> = lines
        .iter()
        .filter(|line| line["dev_loss"].is_number())
        .map(|line| line["step"].as_u64().unwrap())
        .collect();
    assert_eq!(evaluated, [5, 10, 15, 20, 25, 30, 35, 40, 45]);

    // The plan of every phase is the truth.
    let planned: Vec<u64> = plan["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["peak_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(
        (planned.len(), planned.iter().max()),
        (3, plan["peak_bytes"].as_u64().as_ref())
    );
    assert_eq!(report["peak_bytes"]["plans"], plan["plans_bytes"]);
    let graph = |phase| succeed(dir, &["plan", "growing.toml", "--dump", "graph", "--phase", phase]);
    assert!(graph("one").len() < graph("two").len());

    let text = fs::read_to_string(dir.join("run/report.md")).unwrap();
    assert!(text.contains("- phase two: 15 steps, loss "), "{text}");
    let score = json(dir, &["eval", "run", "--json"]);
    assert_eq!(score["dev_loss"], report["dev_loss"]);
    assert!(json(dir, &["eval", "run", "--best", "--json"])["dev_loss"].is_number());
    assert!(report["best_step"].as_u64().unwrap() > 35, "the best of the last phase");
}

#[test]
fn what_stays_is_kept_and_what_joins_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let phases = |lr: &str, optimizer: &str| {
        format!(
            "[train]\nbatch = 8\nsteps = 10\nlr = 0.01\nschedule = \"constant\"\n[optimizer]\nkind = \"adamw\"\n\
             [[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\nmodel.layers = 2\nmodel.ffn = 24\n\
             train = {{ steps = 1, lr = {lr} }}\n{optimizer}"
        )
    };
    let run = |name: &str, lr: &str, optimizer: &str| -> (Weights, Weights) {
        write(dir, &format!("{name}.toml"), &phases(lr, optimizer));
        let output = lessen(dir, &["train", &format!("{name}.toml"), "--out", name]);
        assert!(output.status.success(), "{}", stderr(&output));
        let message = stderr(&output);
        assert!(
            message.contains("the phase before has no transformer.h.0.mlp.c_fc.weight of shape [16, 24], transformer"),
            "{message}"
        );
        assert!(
            message.contains("the model has no use for 3 tensors of the phase before"),
            "{message}"
        );
        let checkpoints = dir.join(name).join("checkpoints");
        (
            weights(&checkpoints.join("step-10")),
            weights(&checkpoints.join("step-11")),
        )
    };
    let (before, still) = run("still", "0", "");
    let kept = |name: &str| before.get(name).is_some_and(|weight| weight.shape == still[name].shape);
    let fresh = {
        let dims = [
            "--set",
            "model.layers=2",
            "--set",
            "model.ffn=24",
            "--set",
            "train.lr=0",
            "--steps",
            "1",
        ];
        write(dir, "fresh.toml", "");
        succeed(dir, &[&["train", "fresh.toml", "--out", "fresh"], &dims[..]].concat());
        weights(&dir.join("fresh/model"))
    };
    let (mut stays, mut joins) = (0, 0);
    for (name, weight) in &still {
        if kept(name) {
            assert!(weight == &before[name], "{name} changed");
            stays += 1;
        } else {
            assert!(weight == &fresh[name], "{name} is not drawn by its name");
            joins += 1;
        }
    }
    // Of the first block, 12 parameters less the three with another shape; 12 of the second.
    assert!(stays >= 12 && joins == 3 + 12, "{stays} {joins}");

    // AdamW's first step of a parameter has the size of the learning rate, whenever the parameter joined, since its
    // moments then come from one gradient.
    let moved = |after: &Weights, name: &str| -> Vec<f32> {
        let (a, b) = (&after[name].data, &still[name].data);
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect()
    };
    let (_, adamw) = run("adamw", "0.001", "");
    for name in still.keys() {
        let moves = moved(&adamw, name);
        let like_first = moves.iter().filter(|&&size| (size - 0.001).abs() < 2e-5).count() * 10 > moves.len() * 8;
        let is_matrix = still[name].shape.len() == 2 && name.contains(".h.");
        if is_matrix {
            assert_eq!(like_first, !kept(name), "{name} moved by {:?}", &moves[..4]);
        }
    }
    // A new optimizer has no state of the old one: the first step of SGD is the gradient.
    let (_, sgd) = run("sgd", "0.001", "optimizer.kind = \"sgd\"\n");
    assert!(moved(&sgd, "transformer.wpe.weight").iter().any(|&size| size > 0.0));
}

#[test]
fn a_mistake_in_a_later_phase_is_told_before_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let refused = |text: &str, more: &[&str]| {
        write(dir, "my.toml", text);
        let sentence = refuse(dir, &[&["train", "my.toml", "--out", "run"], more].concat());
        assert!(!dir.join("run").exists());
        sentence
    };
    let two = |second: &str| format!("[train]\nsteps = 2\n[[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\n{second}");
    assert_eq!(
        refused(&two("model.heads = 3"), &[]),
        "error: phase b: my.toml line 14: model.heads = 3 does not divide model.width = 16; choose a divisor"
    );
    assert_eq!(
        refused(&two("data.path = \"x\""), &[]),
        "error: my.toml line 14: phase.b.data.path cannot be, since data.path is the same in all phases; set it for the \
         whole recipe"
    );
    let memory = refused(&two("train.batch = 100000000"), &[]);
    assert!(memory.starts_with("error: phase b: the run needs "), "{memory}");
    let budget = refused(&two("train.batch = 4096"), &["--budget", "2MiB"]);
    assert!(
        budget.starts_with("error: phase b: the budget of 2.0 MiB is below the floor of "),
        "{budget}"
    );
    let flag = refused(&two(""), &["--set", "phase.c.train.lr=1"]);
    assert!(
        flag.ends_with("there is no phase 'c'; the recipe's phases are a, b"),
        "{flag}"
    );
    let dump = refuse(dir, &["plan", "my.toml", "--dump", "graph"]);
    assert_eq!(dump, "error: the recipe has phases; name one of a, b with --phase");
}

/// The recipe of FLARE: learned positions, then FIRE, then ReLU in the place of softmax.
const FLARE: &str = "[model]\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\nattention = \"softmax\"\n\
                     position = \"learned\"\n[data]\nformat = \"text\"\npath = \"text.txt\"\nmax_length = 16\n[train]\n\
                     batch = 4\nsteps = 8\nlr = 0.01\ncheckpoint_every = 4\neval_every = 4\n[[phase]]\n\
                     name = \"learned\"\n[[phase]]\nname = \"fire\"\nmodel.position = \"fire\"\n[[phase]]\n\
                     name = \"relu\"\nmodel.attention = \"relu:keys\"\ntrain = { steps = 4 }\n";

#[test]
fn positions_and_weights_of_attention_change_between_phases() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    fs::write(dir.join("flare.toml"), FLARE).unwrap();
    let output = lessen(dir, &["train", "flare.toml", "--out", "whole"]);
    let message = stderr(&output);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("of the phase before, such as transformer.wpe.weight; left out"),
        "{message}"
    );
    assert!(
        message.contains("fire") && message.contains("; starting with new ones"),
        "{message}"
    );
    let model = dir.join("whole/model/config.json");
    let config: Value = serde_json::from_slice(&fs::read(model).unwrap()).unwrap();
    assert!(
        config.to_string().contains("relu:keys") && config.to_string().contains("fire"),
        "{config}"
    );
    // From any checkpoint, the end is the same.
    succeed(dir, &["train", "flare.toml", "--out", "run"]);
    for _ in 0..2 {
        fs::remove_dir_all(dir.join("run/checkpoints/step-20")).unwrap();
        succeed(dir, &["train", "--resume", "--out", "run"]);
        let read = |run: &str| fs::read(dir.join(run).join("model/model.safetensors")).unwrap();
        assert!(read("whole") == read("run"));
    }
    // FIRE reaches any length, and learned positions do not.
    let found = json(dir, &["eval", "whole", "--length", "1x,2x,4x", "--json"]);
    let lengths = found["lengths"].as_array().unwrap();
    assert!(
        lengths.iter().all(|length| length["dev_loss"].as_f64().unwrap() > 0.0),
        "{found}"
    );
    let report: Value = serde_json::from_slice(&fs::read(dir.join("whole/report.json")).unwrap()).unwrap();
    assert_eq!(lengths[0]["dev_loss"], report["dev_loss"]);
}
