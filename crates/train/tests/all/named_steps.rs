//! Steps of several losses over shared parameters.

use crate::support::{descent, device};
use lessen_compile::Placement;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::{Algorithm, Cx, Init, LrFunction, OptimizerConfig, ParamUpdate, UpdateAlgorithm};
use lessen_train::{HostArray, Part, StepOptions, Trainer, TrainerOptions};

/// `mean((w x + b - y)^2)`, where `factor` makes another loss of it.
fn loss(cx: Cx, factor: f64) -> Tensor {
    let x = cx.input("x", DType::F32, &[4]);
    let y = cx.dropout(x * cx.param("w", &[4], Init::Ones), 0.25) + cx.param("b", &[1], Init::Zeros);
    (y * y).mean() * factor
}

fn first(options: TrainerOptions) -> Trainer {
    Trainer::new(device(1), options, |cx| loss(cx, 1.0)).unwrap()
}

fn trains(names: &str) -> StepOptions {
    StepOptions::new(names.parse().unwrap(), 0.1)
}

const X: [f32; 4] = [1.0, -2.0, 0.5, 3.0];

fn inputs() -> [(&'static str, Host<'static>); 1] {
    [("x", Host::F32(&X))]
}

fn values(trainer: &mut Trainer, name: &str) -> Vec<f32> {
    trainer.weights().unwrap()[name].data.clone()
}

#[test]
fn a_named_step_trains_its_parameters_alone_and_counts_for_itself() {
    let mut trainer = first(TrainerOptions {
        frozen: "b".parse().unwrap(),
        ..TrainerOptions::new(0.1)
    });
    let before = trainer.peak().planned;
    trainer
        .add_named_step("other", trains("b"), |cx| loss(cx, -1.0))
        .unwrap();
    assert!(trainer.peak().planned > before, "the states of `b` take memory");
    assert!(trainer.peak().measured <= trainer.peak().planned);
    trainer.step(&inputs()).unwrap();
    let [w, b] = ["w", "b"].map(|name| values(&mut trainer, name));
    assert_eq!(b, [0.0]);
    let report = trainer.step_named("other", &inputs()).unwrap();
    assert_eq!(
        (report.step, trainer.done(), trainer.done_named("other")),
        (1, 1, Some(1))
    );
    assert_eq!(values(&mut trainer, "w"), w);
    assert_ne!(values(&mut trainer, "b"), b);
    assert!(trainer.params().iter().all(|param| trainer.trains(param)));
}

#[test]
fn two_steps_over_one_parameter_have_states_of_their_own() {
    let options = TrainerOptions {
        clip_norm: Some(5.0),
        ..TrainerOptions::new(0.1)
    };
    let mut trainer = first(options.clone());
    let own = StepOptions {
        clip_norm: Some(5.0),
        ..trains("*")
    };
    trainer.add_named_step("other", own, |cx| loss(cx, 0.5)).unwrap();
    let names: Vec<String> = trainer.state().unwrap().into_iter().map(|state| state.name).collect();
    for name in [
        "optimizer.m.w",
        "optimizer.other:m.w",
        "optimizer.v.b",
        "optimizer.other:v.b",
    ] {
        assert!(names.iter().any(|own| own == name), "{name} of {names:?}");
    }
    // The moments of the first step are those of a trainer without the other one.
    let mut alone = first(options);
    alone.step(&inputs()).unwrap();
    trainer.step(&inputs()).unwrap();
    let moments = |trainer: &mut Trainer| -> Vec<HostArray> {
        let states = trainer.state().unwrap().into_iter();
        states
            .filter(|state| !state.name.contains(':'))
            .map(|state| state.data)
            .collect()
    };
    let expected = moments(&mut alone);
    trainer.step_named("other", &inputs()).unwrap();
    assert_eq!(moments(&mut trainer), expected);
}

#[test]
fn steps_in_turn_have_the_bits_of_any_placement_and_of_accumulation() {
    let train = |placement| {
        let mut trainer = first(TrainerOptions {
            placement,
            ..TrainerOptions::new(0.1)
        });
        trainer
            .add_named_step("other", trains("*"), |cx| loss(cx, 0.5))
            .unwrap();
        let mut losses = Vec::new();
        for _ in 0..3 {
            losses.push(trainer.step(&inputs()).unwrap().loss.to_bits());
            losses.push(trainer.step_named("other", &inputs()).unwrap().loss.to_bits());
        }
        (losses, values(&mut trainer, "w"))
    };
    let expected = train(Placement::Separate);
    for placement in [Placement::BackwardFused, Placement::ForwardFused, Placement::Planned] {
        assert_eq!(train(placement), expected, "{placement:?}");
    }
}

#[test]
fn a_named_step_accumulates_batches() {
    let plain = |cx: Cx| {
        let y = cx.input("x", DType::F32, &[4]) * cx.param("w", &[4], Init::Ones);
        (y * y).mean()
    };
    let train = |accumulate: usize| {
        let mut trainer = Trainer::new(device(1), descent(0.1, 0.0, None), plain).unwrap();
        let options = StepOptions {
            optimizer: descent(0.1, 0.0, None).optimizer,
            accumulate,
            ..trains("w")
        };
        trainer.add_named_step("other", options, plain).unwrap();
        let x = inputs();
        let parts = vec![Part::new(1.0 / accumulate as f32, &x); accumulate];
        trainer.step_named_on("other", &parts).unwrap();
        values(&mut trainer, "w")
    };
    assert_eq!(train(2), train(1));
}

#[test]
fn a_checkpoint_keeps_named_steps_and_rates_that_were_set() {
    let dir = tempfile::tempdir().unwrap();
    let build = || {
        let mut trainer = first(TrainerOptions::new(0.1));
        trainer
            .add_named_step("other", trains("*"), |cx| loss(cx, 0.5))
            .unwrap();
        trainer
    };
    let steps = |trainer: &mut Trainer| {
        let reports = [
            trainer.step(&inputs()),
            trainer.step_named("other", &inputs()),
            trainer.step(&inputs()),
        ];
        reports.map(|report| {
            let report = report.unwrap();
            (report.step, report.loss.to_bits(), report.lr)
        })
    };
    let mut saved = build();
    saved.set_lr_named("other", 0.3).unwrap();
    steps(&mut saved);
    saved.save_checkpoint(dir.path()).unwrap();
    let expected = steps(&mut saved);
    assert_eq!((expected[1].0, expected[1].2), (2, 0.3));
    let mut resumed = build();
    assert_eq!(resumed.resume_checkpoint(dir.path()).unwrap(), 2);
    assert_eq!(steps(&mut resumed), expected);
    // A trainer without the step, or with another one, does not take the checkpoint.
    let sentence = first(TrainerOptions::new(0.1))
        .resume_checkpoint(dir.path())
        .unwrap_err();
    assert!(
        sentence.to_string().contains("the checkpoint has steps `other`"),
        "{sentence}"
    );
    let mut more = build();
    more.add_named_step("third", trains("b"), |cx| loss(cx, 2.0)).unwrap();
    let sentence = more.resume_checkpoint(dir.path()).unwrap_err();
    assert!(sentence.to_string().contains("no steps `third`"), "{sentence}");
    // States alone do not have the numbers of named steps.
    let states = saved.state().unwrap();
    let sentence = saved.resume(1, &states).unwrap_err();
    assert!(sentence.to_string().contains("resume_checkpoint"), "{sentence}");
}

#[test]
fn a_key_that_is_known_takes_the_same_loss_alone() {
    let mut trainer = first(TrainerOptions::new(0.1));
    let add = |trainer: &mut Trainer, factor| trainer.add_named_step("other", trains("*"), |cx| loss(cx, factor));
    add(&mut trainer, 0.5).unwrap();
    add(&mut trainer, 0.5).unwrap();
    let sentence = add(&mut trainer, 0.25).unwrap_err().to_string();
    assert!(
        sentence.contains("there is a step `other` with another loss"),
        "{sentence}"
    );
    trainer
        .add_named_step("other", trains("b"), |cx| loss(cx, 0.5))
        .unwrap_err();
    // The same holds of layouts.
    let shape = lessen_nn::BatchShape::Padded { size: 4, length: 1 };
    trainer.add_step(shape, |cx| loss(cx, 1.0)).unwrap();
    trainer.add_step(shape, |cx| loss(cx, 1.0)).unwrap();
    let sentence = trainer.add_step(shape, |cx| loss(cx, 2.0)).unwrap_err().to_string();
    assert!(sentence.contains("has another loss"), "{sentence}");
}

#[test]
fn wrong_names_and_parameters_of_named_steps_are_errors() {
    let mut trainer = first(TrainerOptions::new(0.1));
    for name in ["", "a.b", "a:b", "@a"] {
        let sentence = trainer
            .add_named_step(name, trains("*"), |cx| loss(cx, 0.5))
            .unwrap_err();
        assert!(sentence.to_string().contains("is no name of a step"), "{sentence}");
    }
    let sentence = trainer.step_named("other", &inputs()).unwrap_err().to_string();
    assert!(
        sentence.contains("there is no step `other`, there are none"),
        "{sentence}"
    );
    let sentence = trainer
        .add_named_step("other", trains("c.*"), |cx| loss(cx, 0.5))
        .unwrap_err();
    assert!(
        sentence.to_string().contains("is called c.*; it has w, b"),
        "{sentence}"
    );
    let sentence = trainer
        .add_named_step("other", trains("w"), |cx| cx.param("w", &[2], Init::Ones).mean())
        .unwrap_err();
    assert!(
        sentence
            .to_string()
            .contains("no parameter `w` of shape [2]; it has one of shape [4]"),
        "{sentence}"
    );
    let nan = StepOptions::new("w".parse().unwrap(), f64::NAN);
    let sentence = trainer.add_named_step("other", nan, |cx| loss(cx, 0.5)).unwrap_err();
    assert!(
        sentence
            .to_string()
            .starts_with("the step `other`: the learning rate NaN"),
        "{sentence}"
    );
}

#[test]
fn the_learning_rate_is_any_function_and_may_be_set_between_steps() {
    let mut trainer = first(TrainerOptions {
        rate: Some(LrFunction::new(|step| if step < 2 { 0.5 } else { f64::NAN })),
        ..TrainerOptions::new(0.1)
    });
    assert_eq!(trainer.step(&inputs()).unwrap().lr, 0.5);
    trainer.set_lr(0.125).unwrap();
    assert_eq!(trainer.step(&inputs()).unwrap().lr, 0.125);
    trainer.set_lr(f64::NAN).unwrap_err();
    let mut broken = first(TrainerOptions {
        rate: Some(LrFunction::new(|_| f64::INFINITY)),
        ..TrainerOptions::new(0.1)
    });
    let sentence = broken.step(&inputs()).unwrap_err().to_string();
    assert!(sentence.contains("the learning rate of step 1 is inf"), "{sentence}");
}

/// Lion, by hand.
#[derive(Debug)]
struct HandLion;

impl UpdateAlgorithm for HandLion {
    fn updated(&self, of: &mut ParamUpdate<'_>) -> Tensor {
        let (p, g) = (of.parameter(), of.gradient());
        let mean = of.state("mean", &p.shape());
        let step = mean * 0.9 + g * (1.0 - 0.9);
        let zero = step.scalar_like(0.0);
        let (up, down) = (step.gt(zero), step.lt(zero));
        let sign = up.select(step.scalar_like(1.0), down.select(step.scalar_like(-1.0), zero));
        of.set("mean", mean * 0.99 + g * (1.0 - 0.99));
        let decayed = if of.decays() { p * (1.0 - of.lr() * 0.1) } else { p };
        decayed - sign * of.lr()
    }
}

#[test]
fn an_optimizer_of_ones_own_equals_the_built_in_one_to_rounding() {
    let model = |cx: Cx| {
        let x = cx.input("x", DType::F32, &[2, 2]);
        let y = x.matmul(cx.param("w", &[2, 3], Init::Normal { std: 0.5 })) + cx.param("b", &[3], Init::Zeros);
        (y * y - y).mean()
    };
    for (accumulate, placement) in [
        (1, Placement::BackwardFused),
        (2, Placement::BackwardFused),
        (1, Placement::ForwardFused),
    ] {
        let options = |own: bool| TrainerOptions {
            optimizer: OptimizerConfig::lion(0.1),
            algorithm: own.then(|| Algorithm::new(HandLion)),
            clip_norm: Some(0.5),
            ema: Some(0.9),
            accumulate,
            placement,
            ..TrainerOptions::new(0.01)
        };
        let train = |own| {
            let dir = tempfile::tempdir().unwrap();
            let mut trainer = Trainer::new(device(1), options(own), model).unwrap();
            for step in 0..6 {
                if step == 3 {
                    trainer.save_checkpoint(dir.path()).unwrap();
                    trainer = Trainer::new(device(1), options(own), model).unwrap();
                    trainer.resume_checkpoint(dir.path()).unwrap();
                }
                let x = X.map(|x| x + step as f32);
                trainer.step(&[("x", Host::F32(&x))]).unwrap();
            }
            let names: Vec<String> = trainer.state().unwrap().into_iter().map(|state| state.name).collect();
            (names, trainer.weights().unwrap())
        };
        let (own, built_in) = (train(true), train(false));
        assert_eq!(own.0, built_in.0);
        for (name, weight) in &built_in.1 {
            for (a, b) in own.1[name].data.iter().zip(&weight.data) {
                assert!((a - b).abs() <= 1e-6, "{name}: {a} for {b}");
            }
        }
    }
}

#[test]
fn mistakes_of_an_optimizer_of_ones_own_have_its_line() {
    #[derive(Debug)]
    struct Wrong(fn(&mut ParamUpdate<'_>) -> Tensor);
    impl UpdateAlgorithm for Wrong {
        fn updated(&self, of: &mut ParamUpdate<'_>) -> Tensor {
            self.0(of)
        }
    }
    type Case = (fn(&mut ParamUpdate<'_>) -> Tensor, &'static str);
    let cases: [Case; 4] = [
        (|of| of.parameter().sum(), "a value of type f32[]"),
        (|of| of.state("a.b", &[]), "is no name of an optimizer's state"),
        (
            |of| {
                of.set("m", of.gradient());
                of.parameter()
            },
            "no state `m`",
        ),
        (
            |of| of.state("m", &[2]) + of.state("m", &[3]),
            "two shapes, [2] and [3]",
        ),
    ];
    for (wrong, expected) in cases {
        let options = TrainerOptions {
            algorithm: Some(Algorithm::new(Wrong(wrong))),
            ..TrainerOptions::new(0.1)
        };
        let error = Trainer::new(device(1), options, |cx| loss(cx, 1.0)).err().unwrap();
        let sentence = error.to_string();
        assert!(
            sentence.contains(expected) && sentence.contains("named_steps.rs:"),
            "{sentence}"
        );
    }
}
