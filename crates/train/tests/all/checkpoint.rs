//! The whole state of a trainer in a folder.

use crate::support::device;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{Session, Trainer, TrainerOptions};
use std::fs;
use std::path::Path;

const ROWS: usize = 8;

fn guess(cx: Cx, width: usize) -> Tensor {
    let init = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &[ROWS, 2]);
    linear(
        cx,
        "out",
        cx.dropout(linear(cx, "in", x, width, init).gelu(), 0.2),
        1,
        init,
    )
}

fn trainer(width: usize, options: TrainerOptions) -> Trainer {
    Trainer::new(device(1), options, |cx| {
        let error = guess(cx, width) - cx.input("y", DType::F32, &[ROWS, 1]);
        (error * error).mean()
    })
    .unwrap()
}

fn step(trainer: &mut Trainer) -> u32 {
    let number = trainer.done() as f32;
    let x: Vec<f32> = (0..2 * ROWS).map(|i| (i as f32 + number).sin()).collect();
    let y: Vec<f32> = x.chunks(2).map(|x| x[0] * x[1]).collect();
    let report = trainer.step(&[("x", Host::F32(&x)), ("y", Host::F32(&y))]).unwrap();
    report.loss.to_bits()
}

fn options() -> TrainerOptions {
    TrainerOptions::new(0.01)
}

#[test]
fn a_trainer_goes_on_in_another_process_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs/checkpoint");
    let mut first = trainer(16, options());
    for _ in 0..3 {
        step(&mut first);
    }
    first.save_checkpoint(&path).unwrap();
    step(&mut first);
    // A newer checkpoint takes the place of the older one.
    first.save_checkpoint(&path).unwrap();
    let expected: Vec<u32> = (0..4).map(|_| step(&mut first)).collect();

    let mut second = trainer(16, options());
    assert_eq!(second.resume_checkpoint(&path).unwrap(), 4);
    assert_eq!((0..4).map(|_| step(&mut second)).collect::<Vec<_>>(), expected);

    // The parameters serve a function without a trainer.
    let mut names: Vec<String> = fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["model.safetensors", "training.json", "training.safetensors"]);
    second.save_checkpoint(&path).unwrap();
    let ask = second.function(|cx| vec![("y", guess(cx, 16))]).unwrap();
    let x = [0.5; 2 * ROWS];
    let expected = second
        .run(ask, &[("x", Host::F32(&x))])
        .unwrap()
        .f32("y")
        .unwrap()
        .to_vec();
    let (session, function) = Session::open(device(1), &path, |cx| vec![("y", guess(cx, 16))]).unwrap();
    assert_eq!(
        session
            .run(function, &[("x", Host::F32(&x))])
            .unwrap()
            .f32("y")
            .unwrap(),
        expected
    );
}

#[test]
fn checkpoints_of_other_models_and_other_folders_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    let mut first = trainer(16, options());
    step(&mut first);
    first.save_checkpoint(&path).unwrap();

    let mut wider = trainer(17, options());
    let before = wider.weights().unwrap();
    let sentence = wider.resume_checkpoint(&path).unwrap_err().to_string();
    assert!(
        sentence.contains("checkpoint: `in.weight` is f32[16,2] in the checkpoint and f32[17,2] in the model"),
        "{sentence}"
    );
    assert_eq!((wider.weights().unwrap(), wider.done()), (before, 0));
    for momentum in [0.0, 0.5] {
        let optimizer = OptimizerConfig::Sgd {
            momentum,
            nesterov: false,
            weight_decay: 0.0,
        };
        let mut other = trainer(16, TrainerOptions { optimizer, ..options() });
        let sentence = other.resume_checkpoint(&path).unwrap_err().to_string();
        assert!(sentence.contains("is of another optimizer"), "{sentence}");
    }
    let open = |path: &Path| {
        Session::open(device(1), path, |cx| vec![("y", guess(cx, 17))])
            .err()
            .unwrap()
            .to_string()
    };
    assert!(open(&path).contains("`in.weight` is f32[16,2] in the checkpoint"));

    let sentence = first.resume_checkpoint(dir.path()).unwrap_err().to_string();
    assert!(
        sentence.contains("training.json cannot be read") && sentence.contains("save_checkpoint"),
        "{sentence}"
    );
    let sentence = first.save_checkpoint(dir.path()).unwrap_err().to_string();
    assert!(
        sentence.contains("holds something else than a checkpoint"),
        "{sentence}"
    );
    assert!(path.join("training.json").exists());
}
