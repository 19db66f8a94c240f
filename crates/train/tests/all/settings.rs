//! Settings out of range: errors with a name, from all that trains by them.

use crate::support::{device, line, train_line};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{Attend, multi_head};
use lessen_nn::{
    AdamSettings, Criterion, Cx, Init, Lora, LrSchedule, LrScheduleKind, OptimizerConfig, ParamGroup, Patterns,
};
use lessen_train::{Part, StepGraphs, Trainer, TrainerOptions};

const NONE: f64 = f64::NAN;
const MUCH: f64 = f64::INFINITY;

/// The sentence of options that are refused, by the trainer and by its graphs.
fn refused(options: TrainerOptions) -> String {
    let of_graphs = StepGraphs::new(&options, line).err().map(|error| error.to_string());
    let error = Trainer::new(device(1), options.clone(), line).err();
    let error = error.unwrap_or_else(|| panic!("accepted: {options:?}"));
    assert_eq!(error.exit_code(), 2);
    assert_eq!(of_graphs, Some(error.to_string()));
    error.to_string()
}

fn with(change: impl FnOnce(&mut TrainerOptions)) -> TrainerOptions {
    let mut options = TrainerOptions::new(0.1);
    change(&mut options);
    options
}

#[test]
fn options_out_of_range_are_refused_with_their_name() {
    for lr in [NONE, MUCH, -MUCH, -0.1] {
        assert!(refused(TrainerOptions::new(lr)).contains("the learning rate"), "{lr}");
    }
    for norm in [NONE, -1.0, 0.0, -MUCH] {
        assert!(
            refused(with(|o| o.clip_norm = Some(norm))).contains("clip_norm = "),
            "{norm}"
        );
    }
    for decay in [NONE, 0.0, 1.0, -0.5, 1.5, MUCH] {
        assert!(refused(with(|o| o.ema = Some(decay))).contains("ema = "), "{decay}");
    }
    for factor in [NONE, -0.5, MUCH] {
        assert!(
            refused(with(|o| o.layer_decay = Some(factor))).contains("layer_decay = "),
            "{factor}"
        );
    }
    for error in [NONE, -1.0, MUCH] {
        assert!(
            refused(with(|o| o.allowed_error = error)).contains("allowed_error = "),
            "{error}"
        );
    }
    assert!(refused(with(|o| o.accumulate = 0)).contains("accumulate = 0"));
    for kind in [LrScheduleKind::Linear, LrScheduleKind::Cosine, LrScheduleKind::OneCycle] {
        let schedule = LrSchedule {
            kind,
            peak: 0.1,
            warmup: 7,
            total: 5,
        };
        assert!(refused(with(|o| o.schedule = schedule)).contains("is to rise for 7 steps of 5"));
    }
    Trainer::new(device(1), with(|o| o.clip_norm = Some(MUCH)), line).unwrap();
    Trainer::new(device(1), TrainerOptions::new(0.0), line).unwrap();
}

#[test]
fn optimizers_out_of_range_are_refused_with_the_name_of_the_setting() {
    let adamw = |beta1, beta2, eps, weight_decay| {
        OptimizerConfig::AdamW(AdamSettings {
            beta1,
            beta2,
            eps,
            weight_decay,
        })
    };
    let sgd = |momentum, nesterov, weight_decay| OptimizerConfig::Sgd {
        momentum,
        nesterov,
        weight_decay,
    };
    let rmsprop = |alpha, eps, momentum| OptimizerConfig::RmsProp {
        alpha,
        eps,
        momentum,
        weight_decay: 0.0,
    };
    let adadelta = |rho, eps| OptimizerConfig::Adadelta {
        rho,
        eps,
        weight_decay: 0.0,
    };
    let adagrad = |lr_decay, initial_accumulator, eps| OptimizerConfig::Adagrad {
        lr_decay,
        initial_accumulator,
        eps,
        weight_decay: 0.0,
    };
    let lion = |beta1, beta2| OptimizerConfig::Lion {
        beta1,
        beta2,
        weight_decay: 0.0,
    };
    let adafactor = |beta2_decay, eps, least_scale, clip_threshold| OptimizerConfig::Adafactor {
        beta2_decay,
        eps,
        least_scale,
        clip_threshold,
        weight_decay: 0.0,
    };
    let eight = OptimizerConfig::AdamW8bit(AdamSettings {
        beta1: 1.0,
        beta2: 0.9,
        eps: 1e-8,
        weight_decay: 0.0,
    });
    let adam = OptimizerConfig::Adam(AdamSettings {
        beta1: 0.9,
        beta2: NONE,
        eps: 1e-8,
        weight_decay: 0.0,
    });
    let mut cases = vec![
        (eight, "beta1"),
        (adam, "beta2"),
        (sgd(NONE, false, 0.0), "momentum"),
        (sgd(-0.1, false, 0.0), "momentum"),
        (sgd(1.5, false, 0.0), "momentum"),
        (sgd(0.0, true, 0.0), "momentum"),
        (sgd(0.0, false, NONE), "weight_decay"),
        (sgd(0.9, false, -0.1), "weight_decay"),
        (rmsprop(1.0, 1e-8, 0.0), "alpha"),
        (rmsprop(0.9, NONE, 0.0), "eps"),
        (rmsprop(0.9, 1e-8, NONE), "momentum"),
        (adadelta(1.0, 1e-6), "rho"),
        (adadelta(0.9, 0.0), "eps"),
        (adagrad(NONE, 0.0, 1e-8), "lr_decay"),
        (adagrad(0.0, -1.0, 1e-8), "initial_accumulator"),
        (adagrad(0.0, 0.0, -1.0), "eps"),
        (lion(1.5, 0.9), "beta1"),
        (lion(0.9, 1.0), "beta2"),
        (adafactor(0.5, 1e-8, 1e-3, 1.0), "beta2_decay"),
        (adafactor(-0.8, 0.0, 1e-3, 1.0), "eps"),
        (adafactor(-0.8, 1e-8, NONE, 1.0), "least_scale"),
        (adafactor(-0.8, 1e-8, 1e-3, 0.0), "clip_threshold"),
    ];
    for wrong in [NONE, -0.1, 1.0, MUCH] {
        cases.push((adamw(wrong, 0.9, 1e-8, 0.0), "beta1"));
        cases.push((adamw(0.9, wrong, 1e-8, 0.0), "beta2"));
    }
    for wrong in [NONE, -0.1, MUCH] {
        cases.push((adamw(0.9, 0.9, wrong, 0.0), "eps"));
        cases.push((adamw(0.9, 0.9, 1e-8, wrong), "weight_decay"));
    }
    for (optimizer, setting) in cases {
        let sentence = refused(with(|o| o.optimizer = optimizer));
        assert!(sentence.contains(&format!("{setting} = ")), "{optimizer:?}: {sentence}");
        // In a group as well, with the group.
        let group = ParamGroup {
            optimizer: Some(optimizer),
            ..ParamGroup::new("w".parse().unwrap())
        };
        let sentence = refused(with(|o| o.groups = vec![group]));
        let parts = ["the parameter group w", setting];
        assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
    }
}

#[test]
fn groups_out_of_range_and_without_parameters_are_refused() {
    let group = |change: &dyn Fn(&mut ParamGroup)| {
        let mut group = ParamGroup::new("w".parse().unwrap());
        change(&mut group);
        with(|o| o.groups = vec![group])
    };
    for wrong in [NONE, -1.0, MUCH] {
        assert!(refused(group(&|g| g.lr_factor = wrong)).contains("lr_factor = "));
        assert!(refused(group(&|g| g.weight_decay = Some(wrong))).contains("weight_decay = "));
    }
    let schedule = LrSchedule {
        kind: LrScheduleKind::Constant,
        peak: NONE,
        warmup: 0,
        total: 0,
    };
    assert!(refused(group(&|g| g.schedule = Some(schedule))).contains("the learning rate NaN"));
    assert!(refused(group(&|g| g.params = "heads.*".parse().unwrap())).contains("is called heads.*"));
}

#[test]
fn adapters_out_of_range_are_refused() {
    let lora = |change: &dyn Fn(&mut Lora)| {
        let mut lora = Lora {
            rank: 1,
            alpha: 1.0,
            rank_stabilized: false,
            dropout: 0.0,
            targets: vec!["w".to_string()],
            fan_in_fan_out: false,
            base: String::new(),
            whole: "*".parse().unwrap(),
        };
        change(&mut lora);
        with(|o| o.lora = Some(lora))
    };
    Trainer::new(device(1), lora(&|_| {}), line).unwrap();
    assert!(refused(lora(&|l| l.rank = 0)).contains("rank 0"));
    assert!(refused(lora(&|l| l.alpha = NONE)).contains("alpha = NaN"));
    for dropout in [NONE, 1.0, -0.1] {
        assert!(refused(lora(&|l| l.dropout = dropout)).contains("dropout"));
    }
}

#[test]
fn a_model_without_a_trained_parameter_is_refused() {
    let all: Patterns = "*".parse().unwrap();
    let expected = "no parameter of the model is trained";
    assert!(refused(with(|o| o.frozen = all.clone())).contains(expected));
    for accumulate in [1, 2] {
        let none = Trainer::new(device(1), with(|o| o.accumulate = accumulate), |cx| {
            let buffer = cx.buffer("b", &[4], Init::Ones);
            (cx.input("x", DType::F32, &[4]) * buffer).mean()
        });
        assert!(none.err().unwrap().to_string().contains(expected));
    }
}

/// The sentence of a model function that makes a mistake, with the line of it.
fn mistake(wrong: impl Fn(Cx) -> Tensor) -> String {
    let error = Trainer::new(device(1), TrainerOptions::new(0.1), |cx| wrong(cx).mean() + line(cx)).err();
    let sentence = error.expect("a mistake").to_string();
    assert!(sentence.contains("settings.rs:"), "{sentence}");
    sentence
}

#[test]
fn layers_refuse_probabilities_and_numbers_out_of_range_with_the_line() {
    let x = |cx: Cx| cx.input("x", DType::F32, &[4]).id();
    for p in [NONE, -0.1, 1.0, 1.5, MUCH] {
        let sentence = mistake(|cx| cx.dropout(cx.trace().tensor(x(cx)), p));
        assert!(
            sentence.contains(&format!("dropout with the probability {p}")),
            "{sentence}"
        );
        let sentence = mistake(|cx| {
            let x = cx.input("q", DType::F32, &[1, 4, 2]);
            let how = Attend {
                dropout: p,
                ..Attend::default()
            };
            multi_head(cx, x, x, x, how)
        });
        assert!(sentence.contains("dropout with the probability"), "{sentence}");
    }
    for heads in [0, 3] {
        let sentence = mistake(|cx| {
            let x = cx.input("q", DType::F32, &[1, 4, 2]);
            let how = Attend {
                heads,
                ..Attend::default()
            };
            multi_head(cx, x, x, x, how)
        });
        assert!(
            sentence.contains(&format!("do not divide into {heads} heads")),
            "{sentence}"
        );
    }
    for init in [
        Init::Constant(NONE),
        Init::Normal { std: NONE },
        Init::Normal { std: -1.0 },
        Init::Uniform { bound: MUCH },
        Init::XavierUniform { fan_in: 0, fan_out: 0 },
    ] {
        let sentence = mistake(|cx| cx.param("v", &[4], init));
        assert!(sentence.contains("the parameter `v`: initial values"), "{sentence}");
    }
    let criterion = |smoothing, weights: Option<Vec<f32>>| {
        mistake(move |cx| {
            let criterion = Criterion {
                smoothing,
                class_weights: weights.clone(),
                ..Criterion::default()
            };
            let cx = cx.with_criterion(&criterion);
            cx.input("x", DType::F32, &[4])
        })
    };
    for smoothing in [NONE, -0.1, 1.1] {
        assert!(criterion(smoothing, None).contains("label smoothing"));
    }
    for weight in [f32::NAN, -1.0, f32::INFINITY] {
        assert!(criterion(0.0, Some(vec![1.0, weight])).contains("class 1 has the weight"));
    }
}

#[test]
fn steps_of_no_batches_or_too_many_and_shares_that_are_not_finite_are_errors() {
    let mut trainer = train_line(device(1), 2);
    let inputs = [("x", Host::F32(&[1.0; 4]))];
    let part = Part::new(0.5, &inputs);
    let sentence = |trainer: &mut Trainer, parts: &[Part<'_>]| trainer.step_on(parts).unwrap_err().to_string();
    assert!(sentence(&mut trainer, &[]).contains("a step on 0 batches, but accumulate = 2"));
    assert!(sentence(&mut trainer, &[part; 3]).contains("a step on 3 batches"));
    assert!(sentence(&mut trainer, &[Part::new(f32::NAN, &inputs)]).contains("share NaN"));
    let images = lessen_nn::BatchShape::Padded { size: 1, length: 2 };
    assert!(sentence(&mut trainer, &[part.at(images)]).contains("call Trainer::add_step"));
    assert_eq!(trainer.done(), 0);
    trainer.step_on(&[part; 2]).unwrap();
}
