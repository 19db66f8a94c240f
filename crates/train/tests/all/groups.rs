//! Groups of parameters with optimizers and learning rates of their own.

use crate::support::device;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::names::lr_input;
use lessen_nn::{Cx, Init, LrSchedule, LrScheduleKind, OptimizerConfig, ParamGroup};
use lessen_train::{StepGraphs, Trainer, TrainerOptions};

fn loss(cx: Cx) -> Tensor {
    let init = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &[4, 3]);
    let y = linear(cx, "head", linear(cx, "body", x, 5, init).tanh(), 1, init);
    (y * y).mean()
}

fn step(trainer: &mut Trainer) -> u32 {
    let number = trainer.done() as f32;
    let x: Vec<f32> = (0..12).map(|i| (i as f32 * 1.3 + number).sin()).collect();
    trainer.step(&[("x", Host::F32(&x))]).unwrap().loss.to_bits()
}

fn schedule(kind: LrScheduleKind, peak: f64) -> LrSchedule {
    LrSchedule {
        kind,
        peak,
        warmup: 2,
        total: 10,
    }
}

const SGD: OptimizerConfig = OptimizerConfig::Sgd {
    momentum: 0.9,
    nesterov: false,
    weight_decay: 0.0,
};

/// AdamW for the body at a cosine, momentum for the head at a line.
fn two() -> TrainerOptions {
    TrainerOptions {
        optimizer: OptimizerConfig::adamw(0.1),
        schedule: schedule(LrScheduleKind::Cosine, 0.05),
        groups: vec![ParamGroup {
            optimizer: Some(SGD),
            schedule: Some(schedule(LrScheduleKind::Linear, 0.2)),
            ..ParamGroup::new("head.*".parse().unwrap())
        }],
        ..TrainerOptions::new(0.0)
    }
}

fn trainer(options: TrainerOptions) -> Trainer {
    Trainer::new(device(1), options, loss).unwrap()
}

#[test]
fn two_groups_make_the_steps_of_two_optimizers() {
    let mut both = trainer(two());
    let (options, group) = (two(), two().groups.remove(0));
    let mut body = trainer(TrainerOptions {
        groups: Vec::new(),
        frozen: "head.*".parse().unwrap(),
        ..options.clone()
    });
    let mut head = trainer(TrainerOptions {
        groups: Vec::new(),
        frozen: "body.*".parse().unwrap(),
        optimizer: SGD,
        schedule: group.schedule.unwrap(),
        ..options
    });
    for number in 0..8 {
        let [rest, own] = both.learning_rates()[..] else {
            panic!("two rates")
        };
        assert_eq!(
            (rest, own),
            (body.learning_rates()[0], head.learning_rates()[0]),
            "step {number}"
        );
        let expected = (step(&mut body), step(&mut head));
        assert_eq!(step(&mut both), expected.0);
        assert_eq!(expected.0, expected.1);
        // Both go on from where each has moved its own parameters.
        let mut merged = body.weights().unwrap();
        let of_head = head
            .weights()
            .unwrap()
            .into_iter()
            .filter(|(name, _)| name.starts_with("head."));
        merged.extend(of_head);
        assert_eq!(both.weights().unwrap(), merged, "step {number}");
        body.set_weights(&merged).unwrap();
        head.set_weights(&merged).unwrap();
    }
    let mut names: Vec<String> = both.state().unwrap().into_iter().map(|state| state.name).collect();
    names.retain(|name| name.ends_with("weight"));
    names.sort();
    let expected = [
        "optimizer.m.body.weight",
        "optimizer.momentum.head.weight",
        "optimizer.v.body.weight",
    ];
    assert_eq!(names, expected);
}

#[test]
fn groups_resume_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    for placement in [
        lessen_compile::Placement::BackwardFused,
        lessen_compile::Placement::ForwardFused,
    ] {
        let build = || trainer(TrainerOptions { placement, ..two() });
        let mut whole = build();
        for _ in 0..3 {
            step(&mut whole);
        }
        whole.save_checkpoint(&path).unwrap();
        let expected: Vec<u32> = (0..5).map(|_| step(&mut whole)).collect();
        let mut resumed = build();
        resumed.resume_checkpoint(&path).unwrap();
        assert_eq!((0..5).map(|_| step(&mut resumed)).collect::<Vec<_>>(), expected);
        assert_eq!(resumed.weights().unwrap(), whole.weights().unwrap());
    }
}

#[test]
fn groups_that_change_nothing_keep_every_bit() {
    let plain = |groups: Vec<ParamGroup>| TrainerOptions {
        groups,
        clip_norm: Some(0.5),
        ema: Some(0.5),
        ..TrainerOptions::new(0.05)
    };
    let run = |options: TrainerOptions| {
        let mut trainer = trainer(options);
        let losses: Vec<u32> = (0..6).map(|_| step(&mut trainer)).collect();
        (losses, trainer.weights().unwrap(), trainer.state().unwrap())
    };
    let group = |names: &str| ParamGroup::new(names.parse().unwrap());
    let expected = run(plain(Vec::new()));
    assert_eq!(run(plain(vec![group("head.*")])), expected);
    assert_eq!(run(plain(vec![group("head.weight"), group("*")])), expected);
    // A factor is one of the learning rate, and the first group that has a parameter counts.
    let slow = ParamGroup {
        lr_factor: 0.0,
        ..group("head.*")
    };
    let (_, weights, _) = run(plain(vec![slow, group("*")]));
    let first = trainer(plain(Vec::new())).weights().unwrap();
    assert_eq!(weights["head.weight"], first["head.weight"]);
    assert_ne!(weights["body.weight"], first["body.weight"]);
}

#[test]
fn every_group_has_an_input_for_its_learning_rate() {
    let graph = StepGraphs::new(&two(), loss).unwrap().step;
    let names: Vec<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    for group in 0..2 {
        assert!(names.contains(&lr_input(group).as_str()), "{names:?}");
    }
}

#[test]
fn a_group_has_weight_decay_of_its_own() {
    let decayed = |decay| {
        let group = ParamGroup {
            weight_decay: Some(decay),
            ..ParamGroup::new("head.*".parse().unwrap())
        };
        let mut trainer = trainer(TrainerOptions {
            groups: vec![group],
            ..TrainerOptions::new(0.05)
        });
        step(&mut trainer);
        trainer.weights().unwrap()
    };
    let (without, with) = (decayed(0.0), decayed(0.5));
    assert_eq!(without["body.weight"], with["body.weight"]);
    assert_eq!(without["head.bias"], with["head.bias"]);
    let first = trainer(TrainerOptions::new(0.05)).weights().unwrap();
    for (i, value) in first["head.weight"].data.iter().enumerate() {
        let change = without["head.weight"].data[i] - with["head.weight"].data[i];
        assert!((change - 0.05 * 0.5 * value).abs() < 1e-6, "{change} for {value}");
    }
}
