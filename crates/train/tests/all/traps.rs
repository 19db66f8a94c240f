//! Mistakes that are easy to make: each is an error of one sentence.

use crate::support::{device, line, train_line};
use lessen_device::Host;
use lessen_graph::{DType, Op, Tensor, Type, Vjp, concat};
use lessen_nn::layers::{BatchNorm, batch_norm, linear};
use lessen_nn::names::lr_input;
use lessen_nn::{Cx, Init, OptimizerConfig, UpdateRule, optimizer};
use lessen_train::{FunctionOptions, Part, Result, Trainer, TrainerOptions};

const X: [f32; 4] = [1.0, -2.0, 0.5, 3.0];

fn refused(loss: impl Fn(Cx) -> Tensor) -> String {
    let error = Trainer::new(device(1), TrainerOptions::new(0.1), loss).err();
    let error = error.expect("an error");
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

#[test]
fn a_pattern_that_fits_no_parameter_is_named() {
    type Change = fn(&mut TrainerOptions);
    let changes: [(Change, &str); 2] = [
        (|o| o.frozen = "w,first.*".parse().unwrap(), "frozen"),
        (|o| o.no_decay = "first.*".parse().unwrap(), "no_decay"),
    ];
    for (change, place) in changes {
        let mut options = TrainerOptions::new(0.1);
        change(&mut options);
        let sentence = Trainer::new(device(1), options, line).err().unwrap().to_string();
        let expected = format!("{place}: nothing of the model is called first.*; it has w, b");
        assert_eq!(sentence, expected);
    }
}

#[test]
fn an_input_given_twice_is_an_error() {
    let mut trainer = train_line(device(1), 1);
    let ask = trainer
        .function(|cx| vec![("y", cx.input("x", DType::F32, &[4]) * 2.0)])
        .unwrap();
    let twice = [("x", Host::F32(&X)), ("x", Host::F32(&[0.0; 4]))];
    for sentence in [trainer.step(&twice).map(drop), trainer.run(ask, &twice).map(drop)] {
        assert!(
            sentence
                .unwrap_err()
                .to_string()
                .contains("the input `x` is given twice")
        );
    }
    let own = lr_input(0);
    let sentence = trainer
        .step(&[("x", Host::F32(&X)), (own.as_str(), Host::F32(&[1.0]))])
        .unwrap_err();
    assert!(sentence.to_string().contains("is given twice"), "{sentence}");
    assert_eq!(trainer.done(), 0);
}

#[test]
fn two_results_of_one_name_are_an_error_with_the_line() {
    let mut trainer = train_line(device(1), 1);
    let x = |cx: Cx| cx.input("x", DType::F32, &[4]);
    let line = line!() + 1;
    let twice = |cx: Cx| vec![("y", x(cx)), ("y", x(cx) * 2.0)];
    let sentence = trainer.function(twice).unwrap_err().to_string();
    let expected = format!("traps.rs:{line}: two results of the function are called `y`");
    assert!(sentence.contains(&expected), "{sentence}");
}

#[test]
fn batch_norm_of_one_name_moves_its_statistics_once_for_each_use() {
    let x = |cx: Cx, name: &str| cx.input(name, DType::F32, &[4, 1]);
    let norm = |cx: Cx, x| batch_norm(cx, "norm", x, BatchNorm::default());
    let mut trainer = Trainer::new(device(1), TrainerOptions::new(0.0), |cx| {
        (norm(cx, x(cx, "a")) * norm(cx, x(cx, "b"))).mean()
    })
    .unwrap();
    let b = X.map(|x| 2.0 * x);
    trainer.step(&[("a", Host::F32(&X)), ("b", Host::F32(&b))]).unwrap();
    let (mean, momentum) = (X.iter().sum::<f32>() / 4.0, 0.1);
    let after_one = momentum * mean;
    let expected = after_one + (2.0 * mean - after_one) * momentum;
    let found = trainer.weights().unwrap()["norm.running_mean"].data[0];
    assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
}

#[test]
fn a_state_that_is_assigned_twice_is_an_error_with_the_line() {
    let line = line!() + 4;
    let sentence = refused(|cx| {
        let state = cx.trace().state("s", DType::F32, &[]);
        cx.trace().assign(state, state + 1.0);
        cx.trace().assign(state, state + 1.0);
        crate::support::line(cx)
    });
    let expected = format!("traps.rs:{line}: the state `s` is assigned twice");
    assert!(sentence.contains(&expected), "{sentence}");
}

#[test]
fn layers_without_numbers_and_parameters_beyond_memory_are_errors() {
    let x = |cx: Cx| cx.input("x", DType::F32, &[4, 3]);
    let narrow = refused(|cx| linear(cx, "out", linear(cx, "in", x(cx), 0, Init::Ones), 1, Init::Ones).mean());
    assert!(
        narrow.contains("traps.rs:") && narrow.contains("`in.weight`"),
        "{narrow}"
    );
    let line = line!() + 1;
    let huge = refused(|cx| cx.param("w", &[1 << 40, 1 << 40], Init::Ones).mean());
    assert!(
        huge.contains(&format!("traps.rs:{line}: ")) && huge.contains("`w`"),
        "{huge}"
    );
    for rows in [1 << 38, 1 << 45] {
        let much = refused(|cx| (cx.param("w", &[rows, 4], Init::Ones) * 2.0).mean());
        assert!(much.contains("memory"), "{much}");
    }
}

#[test]
fn concat_of_nothing_is_an_error_with_the_line() {
    let line = line!() + 1;
    let sentence = refused(|_| concat(&[], 0).mean());
    assert!(
        sentence.contains(&format!("traps.rs:{line}: concat of no tensors")),
        "{sentence}"
    );
}

/// An operation with a hook that breaks its contract.
#[derive(Debug)]
struct Wrong {
    vjp: fn(&Vjp<'_>) -> Vec<Option<Tensor>>,
    decompose: fn(Tensor) -> Option<Vec<Tensor>>,
}

impl PartialEq for Wrong {
    fn eq(&self, other: &Wrong) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Op for Wrong {
    fn name(&self) -> &'static str {
        "test.wrong"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        (self.vjp)(cx)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        (self.decompose)(inputs[0])
    }
}

#[test]
fn an_operation_with_a_wrong_derivative_is_an_error_with_the_line_that_applies_it() {
    type Hooks = (
        fn(&Vjp<'_>) -> Vec<Option<Tensor>>,
        fn(Tensor) -> Option<Vec<Tensor>>,
        &'static str,
    );
    let cases: [Hooks; 7] = [
        (
            |cx| vec![cx.cotangents[0]; 2],
            |x| Some(vec![x]),
            "gives 2 cotangents for 1 inputs",
        ),
        (
            |cx| vec![cx.cotangents[0].map(|dy| dy.sum())],
            |x| Some(vec![x]),
            "gives a cotangent f32[] for an input f32[4]",
        ),
        (
            |cx| vec![cx.cotangents[0].map(|dy| dy.cast(DType::F64))],
            |x| Some(vec![x]),
            "gives a cotangent f64[4]",
        ),
        (
            |cx| vec![cx.cotangents[0].map(|dy| dy.reshape(&[3]))],
            |x| Some(vec![x]),
            "reshape",
        ),
        (
            |_| Vec::new(),
            |x| Some(vec![x.sum()]),
            "the decomposition of `test.wrong` gives [f32[]]",
        ),
        (
            |_| Vec::new(),
            |x| Some(vec![x, x]),
            "the decomposition of `test.wrong` gives [f32[4], f32[4]]",
        ),
        (|_| Vec::new(), |_| None, "neither a derivative nor a decomposition"),
    ];
    for accumulate in [1, 2] {
        for (vjp, decompose, expected) in cases {
            let options = TrainerOptions {
                accumulate,
                ..TrainerOptions::new(0.1)
            };
            let line = line!() + 3;
            let error = Trainer::new(device(1), options, |cx| {
                let w = cx.param("w", &[4], Init::Ones);
                let y = cx.trace().apply1(Wrong { vjp, decompose }, &[w]);
                (y * y).mean()
            });
            let sentence = error.err().unwrap().to_string();
            assert!(sentence.contains(expected), "{sentence}");
            assert!(sentence.contains("traps.rs:"), "{sentence}");
            if !expected.contains("reshape") {
                assert!(sentence.contains(&format!("traps.rs:{line}: ")), "{sentence}");
            }
        }
    }
}

#[test]
fn a_decomposition_of_another_type_is_an_error_where_nothing_is_derived() {
    let wrong = Wrong {
        vjp: |cx| vec![cx.cotangents[0]],
        decompose: |x| Some(vec![x.sum()]),
    };
    let sentence = refused(|cx| {
        let Wrong { vjp, decompose } = wrong;
        cx.trace()
            .apply1(Wrong { vjp, decompose }, &[cx.param("w", &[4], Init::Ones)])
            .mean()
    });
    assert!(
        sentence.contains("`test.wrong` breaks the contract of `decompose`"),
        "{sentence}"
    );
}

#[test]
fn a_step_reports_values_beside_its_loss_weighted_by_shares() {
    for accumulate in [1, 2] {
        let options = TrainerOptions {
            accumulate,
            ..TrainerOptions::new(0.1)
        };
        let mut trainer = Trainer::new(device(1), options, |cx| {
            let x = cx.input("x", DType::F32, &[4]);
            cx.report("mean", x.mean());
            cx.at("part").report("most", x.max_axes(&[0]));
            cx.trace().output("twice", x * 2.0);
            line(cx)
        })
        .unwrap();
        let other = [9.0f32; 4];
        let inputs = [[("x", Host::F32(&X))], [("x", Host::F32(&other))]];
        let shares: &[f32] = if accumulate == 1 { &[1.0] } else { &[0.25, 0.75] };
        let parts: Vec<Part<'_>> = shares
            .iter()
            .zip(&inputs)
            .map(|(&share, x)| Part::new(share, x))
            .collect();
        let report = trainer.step_on(&parts).unwrap();
        let (mean, most) = if accumulate == 1 {
            (0.625, 3.0)
        } else {
            (0.15625 + 6.75, 7.5)
        };
        assert_eq!(report.values["mean"], mean);
        assert_eq!(report.values["part.most"], most);
        let arrays = &report.arrays["twice"];
        assert_eq!(arrays.len(), accumulate);
        assert_eq!(arrays[0].host().as_f32().unwrap(), X.map(|x| 2.0 * x));
        // A function over the same parameters has its own results alone.
        let ask = trainer
            .function(|cx| {
                cx.report("mean", cx.input("x", DType::F32, &[4]).mean());
                vec![("loss", line(cx))]
            })
            .unwrap();
        let results = trainer.run(ask, &inputs[0]).unwrap();
        assert_eq!(results.names().collect::<Vec<_>>(), ["loss"]);
    }
}

#[test]
fn reported_values_change_no_bit_and_their_mistakes_have_the_line() {
    let train = |reports: bool| {
        let mut trainer = Trainer::new(device(1), TrainerOptions::new(0.1), |cx| {
            let loss = line(cx);
            if reports {
                cx.report("again", loss * 3.0);
            }
            loss
        })
        .unwrap();
        (0..3)
            .map(|_| trainer.step(&[("x", Host::F32(&X))]).unwrap().loss.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(train(true), train(false));
    let wrong = |report: fn(Cx)| {
        let sentence = refused(|cx| {
            report(cx);
            line(cx)
        });
        assert!(sentence.contains("traps.rs:"), "{sentence}");
        sentence
    };
    let twice = wrong(|cx| (0..2).for_each(|_| cx.report("a", line(cx))));
    assert!(twice.contains("two values are reported as `a`"), "{twice}");
    let vector = wrong(|cx| cx.report("a", cx.input("x", DType::F32, &[4])));
    assert!(vector.contains("`a` is of type f32[4]"), "{vector}");
    assert!(wrong(|cx| cx.report("@loss", line(cx))).contains("begins with `@`"));
}

#[test]
fn an_update_runs_in_a_function_of_a_session() {
    let mut trainer = train_line(device(1), 1);
    let session = trainer.session().unwrap();
    let options = FunctionOptions {
        training: true,
        ..FunctionOptions::default()
    };
    let step = session.function_with(options, |cx| {
        let loss = line(cx);
        optimizer::update(cx, loss, &UpdateRule::new(OptimizerConfig::lion(0.0)));
        vec![("loss", loss)]
    });
    let (step, lr) = (step.unwrap(), lr_input(0));
    let inputs = [("x", Host::F32(&X)), (lr.as_str(), Host::F32(&[0.01]))];
    let losses: Vec<f64> = (0..3)
        .map(|_| session.run(step, &inputs).unwrap().scalar("loss").unwrap())
        .collect();
    assert!(losses[1] < losses[0] && losses[2] < losses[1], "{losses:?}");
}
