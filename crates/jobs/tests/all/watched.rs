//! A job tells its watcher what happens and stops at its wish; watchers of two threads do not mix.

use lessen_base::watcher::{Event, Watcher, watched_by};
use lessen_cpu::CpuBackend;
use lessen_jobs::training::{Request, train};
use lessen_task::device::NewBackend;
use lessen_task::recipe;
use lessen_task::recipe::settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

fn adder(steps: u64) -> Settings {
    let mut settings = recipe::load("adder").unwrap();
    let steps = format!("train.steps={steps}");
    for flag in [
        "model.layers=1",
        "model.width=8",
        "model.heads=2",
        "model.ffn=16",
        "train.batch=64",
        "train.warmup=2",
        "train.eval_every=3",
        "train.checkpoint_every=4",
        &steps,
    ] {
        settings.set_flag(flag).unwrap();
    }
    settings
}

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// What a training has told, and the step after which it is to stop.
#[derive(Default)]
struct Heard {
    last: Option<u64>,
    can_stop: AtomicBool,
    told: Mutex<Told>,
}

/// What a training has told.
#[derive(Clone, Default)]
struct Told {
    begun: Vec<(String, u64, u64)>,
    steps: Vec<u64>,
    losses: Vec<(u64, f64)>,
    evaluations: Vec<(u64, f64)>,
    checkpoints: Vec<(u64, PathBuf)>,
    lines: Vec<String>,
    ended: usize,
}

impl Watcher for Heard {
    fn told(&self, event: &Event<'_>) {
        let told = &mut *self.told.lock().unwrap();
        match *event {
            Event::Begin { unit, done, total, .. } => told.begun.push((unit.to_string(), done, total)),
            Event::Step { done, .. } => told.steps.push(done),
            Event::End { .. } => told.ended += 1,
            Event::Numbers { step, numbers } => {
                let named = |name| {
                    numbers
                        .iter()
                        .find(|(own, _)| *own == name)
                        .map(|(_, number)| (step, *number))
                };
                told.losses.extend(named("loss"));
                told.evaluations.extend(named("dev_loss"));
            }
            Event::Checkpoint { step, folder } => told.checkpoints.push((step, folder.to_path_buf())),
            Event::Report(line) | Event::Note(line) | Event::Warning(line) => told.lines.push(line.to_string()),
            Event::Expect { .. } => {}
        }
    }

    fn can_stop(&self) -> lessen_base::Result<()> {
        self.can_stop.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn stops(&self) -> bool {
        assert!(self.can_stop.load(Ordering::Relaxed), "asked before it was told");
        let told = self.told.lock().unwrap();
        self.last
            .is_some_and(|last| told.steps.last().is_some_and(|step| *step >= last))
    }
}

/// Trains under a watcher that stops the run after a step; whether it was interrupted, and what it told.
fn heard(request: &Request, last: Option<u64>) -> (bool, Told) {
    let heard = Arc::new(Heard {
        last,
        ..Heard::default()
    });
    let report = watched_by(heard.clone(), || train(request, &cpu())).unwrap();
    let told = heard.told.lock().unwrap().clone();
    (report.interrupted, told)
}

fn steps_of(pairs: &[(u64, f64)]) -> Vec<u64> {
    pairs.iter().map(|(step, _)| *step).collect()
}

fn model(out: &Path) -> Vec<u8> {
    fs::read(out.join("model/model.safetensors")).unwrap()
}

#[test]
fn a_watcher_is_told_what_happens_and_stops_a_run_that_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, stopped) = (dir.path().join("whole"), dir.path().join("stopped"));
    let (interrupted, told) = heard(&Request::new(adder(8), whole.clone()), None);
    assert!(!interrupted);
    assert_eq!(told.begun, [("step".to_string(), 0, 8)]);
    assert_eq!((told.ended, told.steps), (1, (1..=8).collect()));
    assert_eq!(steps_of(&told.losses), (1..=8).collect::<Vec<u64>>());
    assert!(told.losses.iter().all(|(_, loss)| *loss > 0.0));
    assert_eq!(steps_of(&told.evaluations), [3, 6, 8]);
    let folder = |step| (step, whole.join(format!("checkpoints/step-{step}")));
    assert_eq!(told.checkpoints, [folder(4), folder(8)]);
    assert!(
        told.lines.iter().any(|line| line.starts_with("step 3: dev ")),
        "{:?}",
        told.lines
    );

    let (interrupted, told) = heard(&Request::new(adder(8), stopped.clone()), Some(5));
    assert!(interrupted && !stopped.join("model").exists());
    let saved: Vec<u64> = told.checkpoints.iter().map(|(step, _)| *step).collect();
    assert_eq!((told.steps.last(), saved), (Some(&5), vec![4, 5]));
    let rest = Request::resume(stopped.clone(), None, |_| Ok(())).unwrap();
    let (interrupted, told) = heard(&rest, None);
    assert!(!interrupted);
    assert_eq!(
        (told.begun, told.steps),
        (vec![("step".to_string(), 5, 8)], vec![6, 7, 8])
    );
    assert!(model(&stopped) == model(&whole));
}

#[test]
fn watchers_of_two_threads_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let outs = [dir.path().join("four"), dir.path().join("seven")];
    let requests = [(4, &outs[0]), (7, &outs[1])].map(|(steps, out)| Request::new(adder(steps), out.clone()));
    let told = thread::scope(|scope| {
        let threads = requests
            .each_ref()
            .map(|request| scope.spawn(|| heard(request, None).1));
        threads.map(|thread| thread.join().unwrap())
    });
    for (told, (steps, out)) in told.iter().zip([(4, &outs[0]), (7, &outs[1])]) {
        assert_eq!(told.steps, (1..=steps).collect::<Vec<u64>>());
        assert!(told.checkpoints.iter().all(|(_, folder)| folder.starts_with(out)));
    }
}

#[test]
fn without_a_watcher_a_training_is_silent() {
    const FOLDER: &str = "LESSEN_SILENT_TRAINING";
    if let Some(out) = std::env::var_os(FOLDER) {
        train(&Request::new(adder(4), PathBuf::from(out)), &cpu()).unwrap();
        return;
    }
    // The same test in a process of its own, whose output is read.
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut test = Command::new(std::env::current_exe().unwrap());
    let test = test.args([
        "--exact",
        "watched::without_a_watcher_a_training_is_silent",
        "--nocapture",
    ]);
    let output = test.env(FOLDER, &out).output().unwrap();
    assert!(output.status.success() && out.join("report.json").is_file());
    let lines = String::from_utf8(output.stdout).unwrap();
    let is_own = |line: &&str| line.starts_with("running ") || line.starts_with("test ");
    let others: Vec<&str> = lines.lines().filter(|line| !line.is_empty() && !is_own(line)).collect();
    assert_eq!(
        (others, String::from_utf8(output.stderr).unwrap()),
        (Vec::new(), String::new())
    );
}
