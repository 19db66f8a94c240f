//! Where updates run changes no byte of what a run writes, also where it goes on with another placement.

use lessen_cpu::CpuBackend;
use lessen_jobs::training::{Request, train};
use lessen_task::device::NewBackend;
use lessen_task::recipe;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use std::fs;
use std::path::Path;

fn placed(placement: &str, more: &[&str]) -> Settings {
    let mut settings = recipe::load("adder").unwrap();
    let placement = format!("optimizer.placement={placement}");
    let flags = [
        "model.layers=1",
        "model.width=8",
        "model.heads=2",
        "model.ffn=16",
        "model.dropout=0.1",
        "train.batch=64",
        "train.steps=8",
        "train.lr=0.01",
        "train.warmup=2",
        "train.clip_norm=0.5",
        "train.ema=0.9",
        "train.eval_every=3",
        "train.checkpoint_every=4",
        "record.every=5",
        &placement,
    ];
    for flag in flags.iter().chain(more) {
        settings.set_flag(flag).unwrap();
    }
    settings
}

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(2)?)))
}

/// The files of a run whose bytes follow from what it trains.
fn files(out: &Path) -> [Vec<u8>; 3] {
    let names = [
        "model/model.safetensors",
        "checkpoints/step-8/model.safetensors",
        "checkpoints/step-8/training.safetensors",
    ];
    names.map(|name| fs::read(out.join(name)).unwrap())
}

#[test]
fn runs_of_all_placements_write_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let run = |placement: &str, more: &[&str]| {
        let out = dir.path().join([placement, more.concat().as_str()].concat());
        train(&Request::new(placed(placement, more), out.clone()), &cpu()).unwrap();
        out
    };
    let expected = files(&run("backward-fused", &[]));
    assert!(files(&run("separate", &[])) == expected);
    assert!(files(&run("forward-fused", &[])) == expected);
    assert!(files(&run("planned", &[])) == expected);
    for (first, then) in [("forward-fused", "backward-fused"), ("backward-fused", "forward-fused")] {
        let out = run(first, &["train.steps=4", "train.schedule=constant"]);
        let longer = Request::resume(out.clone(), None, |settings| {
            settings.set_flag("train.steps=8")?;
            settings.set_flag(&format!("optimizer.placement={then}"))
        });
        train(&longer.unwrap(), &cpu()).unwrap();
        let whole = run(then, &["train.schedule=constant"]);
        assert!(files(&out) == files(&whole), "{first}, then {then}");
    }
}

#[test]
fn accumulated_gradients_have_their_update_at_any_place() {
    for placement in ["separate", "backward-fused", "forward-fused", "planned"] {
        assert!(Config::new(placed(placement, &["train.accumulate=2"])).is_ok());
    }
}
