//! Layer norms by key. A run whose norms subtract no mean computes what a run with LayerNorm computes, resumes bit by
//! bit, and leaves ordinary checkpoints.

use lessen_cpu::CpuBackend;
use lessen_jobs::training::{Request, train};
use lessen_nn::{Model, NormKind};
use lessen_saved::saved_run::{AdapterOptions, Prediction, SavedRun};
use lessen_task::CheckedTask;
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::recipe;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// The settings of a small adder without dropout, from scratch or from a checkpoint among the flags.
fn adder(flags: &[&str]) -> Settings {
    let mut settings = recipe::load("adder").unwrap();
    let sizes = ["model.layers=2", "model.width=16", "model.heads=2", "model.ffn=16"];
    let is_new = !flags.iter().any(|flag| flag.starts_with("model.init"));
    let own = [
        "model.dropout=0",
        "train.batch=8",
        "train.steps=6",
        "train.schedule=constant",
        "train.eval_every=3",
        "train.checkpoint_every=3",
    ];
    for flag in sizes.iter().filter(|_| is_new).chain(&own).chain(flags) {
        settings.set_flag(flag).unwrap();
    }
    settings
}

fn losses(settings: Settings, out: &Path) -> Vec<f64> {
    let report = train(&Request::new(settings, out.to_path_buf()), &cpu())
        .unwrap()
        .to_json();
    let losses = report["loss_history"].as_array().unwrap().iter();
    losses.map(|loss| loss.as_f64().unwrap()).collect()
}

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{what}: {a} and {b}");
    }
}

/// The files of a run whose bytes follow from what it trains.
fn files(out: &Path) -> [Vec<u8>; 3] {
    let names = [
        "model/model.safetensors",
        "checkpoints/step-6/model.safetensors",
        "checkpoints/step-6/training.safetensors",
    ];
    names.map(|name| fs::read(out.join(name)).unwrap_or_default())
}

/// The model that a run results in.
fn model(out: &Path) -> PathBuf {
    out.join("model")
}

#[test]
fn runs_without_means_are_those_of_layer_norm_and_resume_bit_by_bit() {
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| dir.path().join(name);
    let layer = losses(adder(&[]), &out("layer"));
    for (i, more) in [
        ("rms", "train.ema=0"),
        ("crms", "train.save_dtype=bf16"),
        ("auto", "train.ema=0.9"),
    ]
    .into_iter()
    .enumerate()
    {
        let (norm, more) = more;
        let (flag, whole, part) = (format!("model.norm={norm}"), out(norm), out(&format!("part {i}")));
        assert_close(&losses(adder(&[&flag, more]), &whole), &layer, norm);
        losses(adder(&[&flag, more, "train.steps=3"]), &part);
        let longer = Request::resume(part.clone(), None, |settings| settings.set_flag("train.steps=6"));
        train(&longer.unwrap(), &cpu()).unwrap();
        assert!(files(&part) == files(&whole), "{norm}");
        let run = SavedRun::open(&whole, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
        assert!(matches!(run.predict("123+456").unwrap(), Prediction::Sum(_)));
        assert_eq!(Model::from_dir(&model(&whole)).unwrap().norm().name(), norm);
    }
}

#[test]
fn a_checkpoint_says_how_its_norms_are_computed_and_adapters_go_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first");
    losses(adder(&["model.norm=rms", "train.steps=1"]), &first);
    let init = format!("model.init={}", model(&first).display());
    let norm = |flags: &[&str]| {
        let config = Config::new(adder(&[&[&*init], flags].concat())).unwrap();
        CheckedTask::assemble(config, None).unwrap().model().norm()
    };
    assert_eq!(norm(&[]), NormKind::Rms);
    assert_eq!(norm(&["model.norm=layer"]), NormKind::Layer);
    let adapted = |name: &str, norm: &str, steps: &str| {
        let out = dir.path().join(name);
        let flags = [&*init, "lora.rank=2", "lora.targets=c_proj", norm, steps];
        (losses(adder(&flags), &out), out)
    };
    let (layer, _) = adapted("layer", "model.norm=layer", "train.steps=6");
    let (rms, whole) = adapted("rms", "model.norm=rms", "train.steps=6");
    assert_close(&rms, &layer, "adapters");
    let (_, part) = adapted("part", "model.norm=rms", "train.steps=3");
    let longer = Request::resume(part.clone(), None, |settings| settings.set_flag("train.steps=6"));
    train(&longer.unwrap(), &cpu()).unwrap();
    assert_eq!(files(&part), files(&whole));
}

#[test]
fn other_words_are_refused() {
    let mut settings = adder(&[]);
    assert_eq!(
        settings.set_flag("model.norm=mean").unwrap_err().to_string(),
        "--set model.norm=mean: model.norm must be one of layer, rms, crms, auto, not \"mean\""
    );
}
