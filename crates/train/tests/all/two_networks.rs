//! Two networks in one process on one device, whose parameters have equal names.

use crate::support::device;
use lessen_device::{Host, SharedDevice};
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{BatchNorm, batch_norm, linear};
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{Session, Trainer, TrainerOptions};
use std::path::Path;
use std::process::Command;

const STEPS: usize = 6;

/// A network of this width. Names of parameters do not depend on it.
fn guess(cx: Cx, width: usize) -> Tensor {
    let init = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &[8, 3]);
    let hidden = batch_norm(cx, "norm", linear(cx, "in", x, width, init), BatchNorm::default());
    linear(cx, "out", cx.dropout(hidden.gelu(), 0.25), 1, init)
}

fn options(width: usize) -> TrainerOptions {
    TrainerOptions {
        optimizer: if width == 4 {
            OptimizerConfig::adamw(0.1)
        } else {
            OptimizerConfig::lion(0.0)
        },
        ema: (width == 4).then_some(0.5),
        clip_norm: Some(0.5),
        seed: width as u64,
        ..TrainerOptions::new(0.01)
    }
}

fn trainer(device: &SharedDevice, width: usize) -> Trainer {
    Trainer::new(device, options(width), |cx| {
        let error = guess(cx, width) - cx.input("y", DType::F32, &[8, 1]);
        (error * error).mean()
    })
    .unwrap()
}

/// A step, and in between a function over the parameters.
fn step(trainer: &mut Trainer, width: usize) {
    let number = trainer.done() as f32;
    let x: Vec<f32> = (0..24).map(|i| (i as f32 * 0.7 + number).sin()).collect();
    let y: Vec<f32> = x.chunks(3).map(|x| x[0] * x[1] - x[2]).collect();
    trainer.step(&[("x", Host::F32(&x)), ("y", Host::F32(&y))]).unwrap();
    let ask = trainer.function(|cx| vec![("y", guess(cx, width))]).unwrap();
    let found = trainer.run(ask, &[("x", Host::F32(&x))]).unwrap();
    assert!(found.f32("y").unwrap().iter().all(|y| y.is_finite()));
    trainer.session().unwrap().unload(ask).unwrap();
}

fn files(dir: &Path) -> Vec<Vec<u8>> {
    let names = ["model.safetensors", "training.safetensors", "training.json"];
    names.map(|name| std::fs::read(dir.join(name)).unwrap()).into()
}

const FOLDER: &str = "LESSEN_TEST_OF_TWO_NETWORKS";

/// Trains one network in a process of its own, which [`alone`] starts; without that it does nothing.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (width, dir) = folder.split_once(':').unwrap();
    let width = width.parse().unwrap();
    let mut trainer = trainer(&SharedDevice::new(device(1)), width);
    (0..STEPS).for_each(|_| step(&mut trainer, width));
    trainer.save_checkpoint(Path::new(dir)).unwrap();
}

/// The files of a network that was trained in a process of its own.
fn alone(width: usize) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    let mut process = Command::new(std::env::current_exe().unwrap());
    let process = process
        .args(["two_networks::child", "--exact"])
        .env(FOLDER, format!("{width}:{}", path.display()));
    assert!(process.output().unwrap().status.success());
    files(&path)
}

#[test]
fn networks_trained_in_turns_end_with_the_bytes_of_separate_processes() {
    let dir = tempfile::tempdir().unwrap();
    let shared = SharedDevice::new(device(2));
    let (mut one, mut other) = (trainer(&shared, 4), trainer(&shared, 7));
    for _ in 0..STEPS {
        step(&mut one, 4);
        step(&mut other, 7);
    }
    for (trainer, width) in [(&mut one, 4), (&mut other, 7)] {
        let path = dir.path().join(width.to_string());
        trainer.save_checkpoint(&path).unwrap();
        assert!(files(&path) == alone(width), "the network of width {width}");
    }
}

#[test]
fn a_network_that_is_dropped_leaves_the_other_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let shared = SharedDevice::new(device(1));
    let mut one = trainer(&shared, 4);
    let used = shared.memory().used;
    let mut other = trainer(&shared, 7);
    for _ in 0..STEPS / 2 {
        step(&mut other, 7);
        step(&mut one, 4);
    }
    assert!(shared.memory().used.states > used.states);
    drop(other);
    let after = shared.memory().used;
    assert_eq!((after.states, after.constants), (used.states, used.constants));
    (STEPS / 2..STEPS).for_each(|_| step(&mut one, 4));
    one.save_checkpoint(&dir.path().join("one")).unwrap();
    assert!(files(&dir.path().join("one")) == alone(4));
    drop(one);
    let end = shared.memory().used;
    assert_eq!((end.states, end.constants, end.arena), (0, 0, 0));
}

#[test]
fn sessions_on_one_device_have_states_functions_and_results_of_their_own() {
    let shared = SharedDevice::new(device(1));
    let make = |scale: f32| {
        let mut session = Session::zeros(&shared, Vec::new()).unwrap();
        let sum = session
            .function(|cx| {
                let sum = cx.trace().state("sum", DType::F32, &[2]);
                let new = sum + cx.input("x", DType::F32, &[2]) * f64::from(scale);
                cx.trace().assign(sum, new);
                vec![("sum".to_string(), new)]
            })
            .unwrap();
        (session, sum)
    };
    let ((mut one, of_one), (other, of_other)) = (make(1.0), make(10.0));
    let x = [("x", Host::F32(&[1.0, 2.0]))];
    let first = one.run(of_one, &x).unwrap();
    let second = other.run(of_other, &x).unwrap();
    let third = one.run(of_one, &x).unwrap();
    // Results stay what they are.
    assert_eq!(first.f32("sum").unwrap(), [1.0, 2.0]);
    assert_eq!(second.f32("sum").unwrap(), [10.0, 20.0]);
    assert_eq!(third.f32("sum").unwrap(), [2.0, 4.0]);
    assert!(other.run(of_one, &x).is_err() && one.run(of_other, &x).is_err());
    one.unload(of_one).unwrap();
    assert_eq!(other.run(of_other, &x).unwrap().f32("sum").unwrap(), [20.0, 40.0]);
    drop(one);
    assert_eq!(other.run(of_other, &x).unwrap().f32("sum").unwrap(), [30.0, 60.0]);
}
