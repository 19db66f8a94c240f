//! A run knows its device by the trait alone: a whole recipe, resumed and asked, works on one that shares no code with
//! the CPU, and computes the same.

use lessen_cpu::CpuBackend;
use lessen_device::ReferenceBackend;
use lessen_jobs::training::{Request, train};
use lessen_saved::saved_run::{AdapterOptions, Prediction, SavedRun};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::recipe;
use lessen_task::recipe::settings::Settings;
use std::path::Path;

/// A small adder with these flags.
fn tiny_adder(flags: &[&str]) -> Settings {
    let mut settings = recipe::load("adder").unwrap();
    let own = [
        "model.layers=1",
        "model.width=8",
        "model.heads=2",
        "model.ffn=16",
        "model.dropout=0.1",
        "train.batch=64",
        "train.accumulate=2",
        "train.steps=3",
        "train.lr=0.01",
        "train.warmup=2",
        "optimizer.kind=sgd",
    ];
    for flag in own.iter().chain(flags) {
        settings.set_flag(flag).unwrap();
    }
    settings
}

/// Trains three steps, resumes up to the fifth, and evaluates: all losses, and the answer to a sum.
fn run_on(flags: &[&str], backend: &NewBackend, out: &Path) -> (Vec<f64>, String) {
    train(&Request::new(tiny_adder(flags), out.to_path_buf()), backend).unwrap();
    let longer = Request::resume(out.to_path_buf(), Some("adder"), |settings| {
        settings.set_flag("train.steps=5")
    });
    let report = train(&longer.unwrap(), backend).unwrap().to_json();
    let mut losses: Vec<f64> = report["loss_history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|loss| loss.as_f64().unwrap())
        .collect();
    assert_eq!(losses.len(), 5);
    let run = SavedRun::open(out, WhichModel::Last, AdapterOptions::default(), backend).unwrap();
    let scores = run.evaluate(None, None).unwrap().scores;
    assert_eq!(Some(scores.loss), report["dev_loss"].as_f64());
    losses.push(scores.loss);
    match run.predict("123+456").unwrap() {
        Prediction::Sum(sum) => (losses, sum),
        other => panic!("{other:?}"),
    }
}

/// Runs an adder with these flags on both devices and compares the losses.
fn check(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let cpu = NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)));
    let reference = NewBackend::new(|| Ok(Box::new(ReferenceBackend::default())));
    let (found, answer) = run_on(flags, &reference, &dir.path().join("reference"));
    let (expected, cpu_answer) = run_on(flags, &cpu, &dir.path().join("cpu"));
    for (found, expected) in found.iter().zip(&expected) {
        assert!(
            (found - expected).abs() <= 1e-5 * expected,
            "{flags:?}: {found} for {expected}"
        );
    }
    assert!(answer.starts_with("123+456=") && cpu_answer.starts_with("123+456="));
}

#[test]
fn a_recipe_runs_and_resumes_on_the_reference_evaluator_with_the_losses_of_the_cpu() {
    check(&[]);
}

/// Texts have 12 tokens, so that most queries are beyond the length. With one hidden layer the CPU has a fused kernel,
/// with two it has none.
#[test]
fn fire_beyond_its_length_has_the_losses_of_the_reference_evaluator() {
    for layers in ["model.fire_layers=1", "model.fire_layers=2"] {
        for learned in ["model.fire_length_learned=true", "model.fire_length_learned=false"] {
            let fire = [
                "model.position=fire",
                "model.fire_length=4",
                "model.attention=relu:keys",
            ];
            check(&[&fire[..], &[layers, learned]].concat());
        }
    }
}
