//! Faults of steps, values and functions: each is an error that changes nothing.

use crate::support::{device, line, train_line};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{BatchNorm, batch_norm, linear};
use lessen_nn::{Cx, Init, ParamSpec, Weight, Weights};
use lessen_train::{HostArray, Part, Session, StateArray, StepGraphs, StepPlans, Trainer, TrainerOptions};
use std::collections::BTreeMap;

/// A loss with batch normalization and a state that counts, over rows whose class decides what they are multiplied by.
fn normalized(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[4, 3]);
    let count = cx.trace().state("count", DType::I32, &[1]);
    cx.trace().assign(count, count + count.full_like(1.0));
    let x = batch_norm(
        cx,
        "norm",
        linear(cx, "in", x, 3, Init::Normal { std: 0.5 }),
        BatchNorm::default(),
    );
    let table = cx.param("table", &[5, 3], Init::Normal { std: 0.5 });
    let y = x * table.gather(cx.input("class", DType::I32, &[4]));
    (y * y).mean()
}

const X: [f32; 12] = [0.5, -1.0, 2.0, 1.5, 0.25, -0.75, -2.0, 0.125, 1.0, 0.5, 0.5, -1.0];

#[test]
fn a_step_that_fails_in_a_later_micro_batch_moves_no_statistics() {
    for ema in [None, Some(0.5)] {
        let options = || TrainerOptions {
            accumulate: 3,
            ema,
            clip_norm: Some(1.0),
            ..TrainerOptions::new(0.1)
        };
        let build = || Trainer::new(device(1), options(), normalized).unwrap();
        let (mut failing, mut twin) = (build(), build());
        let good = [("x", Host::F32(&X)), ("class", Host::I32(&[0, 1, 2, 3]))];
        // An index out of range is found while the batch runs, a missing input before.
        let wrong_index = [("x", Host::F32(&X)), ("class", Host::I32(&[0, 1, 2, 9]))];
        let missing = [("x", Host::F32(&X))];
        let part = |inputs| Part::new(1.0 / 3.0, inputs);
        for bad in [&wrong_index[..], &missing[..]] {
            for place in [1, 2] {
                let mut batches = [part(&good[..]), part(&good[..]), part(&good[..])];
                batches[place] = part(bad);
                let before = (failing.weights().unwrap(), failing.state().unwrap());
                failing.step_on(&batches).unwrap_err();
                let after = (failing.weights().unwrap(), failing.state().unwrap());
                assert_eq!(after, before, "{ema:?}, batch {place}");
            }
            let batches = [part(&good[..]), part(&good[..]), part(&good[..])];
            let (found, expected) = (failing.step_on(&batches).unwrap(), twin.step_on(&batches).unwrap());
            assert_eq!(
                (found.step, found.loss.to_bits()),
                (expected.step, expected.loss.to_bits())
            );
            assert_eq!(failing.weights().unwrap(), twin.weights().unwrap());
            assert_eq!(failing.state().unwrap(), twin.state().unwrap());
        }
        let count = failing.state().unwrap().into_iter().find(|state| state.name == "count");
        assert_eq!(count.unwrap().data, HostArray::I32(vec![6]));
    }
}

#[test]
fn a_step_with_a_delayed_update_that_fails_changes_nothing() {
    for placement in [
        lessen_compile::Placement::ForwardFused,
        lessen_compile::Placement::BackwardFused,
        lessen_compile::Placement::Separate,
    ] {
        let options = || TrainerOptions {
            placement,
            ema: Some(0.5),
            ..TrainerOptions::new(0.1)
        };
        let build = || Trainer::new(device(1), options(), normalized).unwrap();
        let (mut failing, mut twin) = (build(), build());
        let good = [("x", Host::F32(&X)), ("class", Host::I32(&[0, 1, 2, 3]))];
        for step in 0..3 {
            for bad in [Host::I32(&[0, 1, 2, 9]), Host::F32(&[0.0; 4])] {
                failing.step(&[("x", Host::F32(&X)), ("class", bad)]).unwrap_err();
            }
            assert_eq!(failing.done(), step);
            assert_eq!(failing.step(&good).unwrap().loss, twin.step(&good).unwrap().loss);
        }
        assert_eq!(failing.weights().unwrap(), twin.weights().unwrap());
        assert_eq!(failing.state().unwrap(), twin.state().unwrap());
    }
}

#[test]
fn a_loss_of_any_float_dtype_is_reported() {
    let run = |dtype: DType, accumulate: usize| {
        let options = TrainerOptions {
            accumulate,
            clip_norm: Some(1e3),
            ..TrainerOptions::new(0.1)
        };
        let mut trainer = Trainer::new(device(1), options, |cx| line(cx).cast(dtype)).unwrap();
        let inputs = [("x", Host::F32(&[1.0, 2.0, 0.5, -1.0]))];
        let parts = vec![Part::new(1.0 / accumulate as f32, &inputs); accumulate];
        let report = trainer.step_on(&parts).unwrap();
        assert!(report.gradient_norm.unwrap() > 0.0);
        (report.loss, trainer.weights().unwrap())
    };
    for accumulate in [1, 2] {
        let (plain, weights) = run(DType::F32, accumulate);
        assert!(plain.is_finite() && plain > 0.0);
        for (dtype, error) in [(DType::F64, 1e-6), (DType::BF16, 1e-2)] {
            let (loss, own) = run(dtype, accumulate);
            assert!((loss - plain).abs() <= error * plain, "{dtype:?}: {loss} for {plain}");
            for (name, weight) in &weights {
                let pairs = own[name].data.iter().zip(&weight.data);
                assert!(
                    pairs
                        .clone()
                        .all(|(a, b)| (a - b).abs() <= 2.0 * error * b.abs().max(0.1)),
                    "{name}"
                );
            }
        }
    }
}

fn weights_of(trainer: &mut Trainer) -> (Weights, Vec<StateArray>) {
    (trainer.weights().unwrap(), trainer.state().unwrap())
}

#[test]
fn values_are_set_all_or_none() {
    let mut trainer = train_line(device(1), 1);
    trainer.step(&[("x", Host::F32(&[1.0; 4]))]).unwrap();
    let before = weights_of(&mut trainer);
    let mut other = before.0.clone();
    other
        .values_mut()
        .for_each(|weight| weight.data.iter_mut().for_each(|value| *value += 1.0));
    let changed = |change: &dyn Fn(&mut Weights)| {
        let mut weights = other.clone();
        change(&mut weights);
        weights
    };
    // `b` comes before `w`, so that a fault of `w` is found last.
    for (weights, expected) in [
        (
            changed(&|all| all.get_mut("w").unwrap().data.truncate(3)),
            "the value of `w` has 3 elements, and its shape [4] needs 4",
        ),
        (
            changed(&|all| all.get_mut("w").unwrap().data.push(0.0)),
            "has 5 elements",
        ),
        (changed(&|all| all.get_mut("w").unwrap().data.clear()), "has 0 elements"),
        (
            changed(&|all| all.get_mut("w").unwrap().shape = vec![2, 2]),
            "no parameter `w` of shape [2, 2]",
        ),
        (
            changed(&|all| {
                let weight = all["w"].clone();
                all.insert("z".to_string(), weight);
            }),
            "no parameter `z`",
        ),
    ] {
        let sentence = trainer.set_weights(&weights).unwrap_err().to_string();
        assert!(sentence.contains(expected), "{sentence}");
        assert_eq!(weights_of(&mut trainer), before);
        let params = trainer.params().to_vec();
        let made = Session::new(device(1), params, &weights);
        assert!(weights.contains_key("z") || made.is_err());
    }
    let session = trainer.session().unwrap();
    for (name, first, count) in [("w", 3, 2), ("w", 5, 0), ("w", usize::MAX, 2), ("z", 0, 1)] {
        session.set_part(name, first, &vec![9.0; count]).unwrap_err();
    }
    assert_eq!(weights_of(&mut trainer), before);
    trainer.set_weights(&other).unwrap();
    assert_eq!(trainer.weights().unwrap(), other);
}

#[test]
fn states_are_resumed_all_or_none() {
    let mut trainer = train_line(device(1), 1);
    trainer.step(&[("x", Host::F32(&[1.0; 4]))]).unwrap();
    let states = trainer.state().unwrap();
    trainer.step(&[("x", Host::F32(&[2.0; 4]))]).unwrap();
    let before = weights_of(&mut trainer);
    let changed = |change: &dyn Fn(&mut Vec<StateArray>)| {
        let mut states = states.clone();
        change(&mut states);
        states
    };
    let last = states.len() - 1;
    for wrong in [
        changed(&|all| all.truncate(last)),
        // Twice the same in place of another one.
        changed(&|all| all[last] = all[0].clone()),
        changed(&|all| all.push(all[0].clone())),
        changed(&|all| all[last].name = "optimizer.m.z".to_string()),
        // Fewer and more elements than the shape says.
        changed(&|all| all[last].data = HostArray::F32(vec![1.0; 3])),
        changed(&|all| all[last].data = HostArray::F32(vec![1.0; 5])),
        changed(&|all| all[last].data = HostArray::U32(vec![1; 4])),
        changed(&|all| all[last].shape = vec![2, 2]),
    ] {
        trainer.resume(7, &wrong).unwrap_err();
        assert_eq!((weights_of(&mut trainer), trainer.done()), (before.clone(), 2));
    }
    trainer.resume(1, &states).unwrap();
    assert_eq!((trainer.state().unwrap(), trainer.done()), (states, 1));
}

#[test]
fn files_of_states_and_folders_are_read_all_or_none() {
    use lessen_nn::checkpoint::WeightDtype;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("states.safetensors");
    let mut saved = train_line(device(1), 1);
    saved.step(&[("x", Host::F32(&[1.0; 4]))]).unwrap();
    // Parameters are in this file, too, as `model.safetensors` would have them rounded.
    saved.save_state(&path, WeightDtype::Bf16, false).unwrap();
    let mut trainer = train_line(device(1), 1);
    let before = weights_of(&mut trainer);
    trainer.resume_from(1, &path, true).unwrap_err();
    assert_eq!((weights_of(&mut trainer), trainer.done()), (before, 0));
    trainer.resume_from(1, &path, false).unwrap();
    assert_eq!(trainer.weights().unwrap(), saved.weights().unwrap());

    // A folder with a parameter of another shape, which comes last.
    let folder = dir.path().join("folder");
    let weight = |shape: &[usize]| Weight {
        shape: shape.to_vec(),
        data: vec![1.0; shape.iter().product()],
    };
    let weights = Weights::from([("a".to_string(), weight(&[2])), ("b".to_string(), weight(&[3]))]);
    lessen_nn::checkpoint::save(&folder, &serde_json::Map::new(), &weights).unwrap();
    let spec = |name: &str, shape: &[usize]| ParamSpec {
        name: name.to_string(),
        shape: shape.to_vec(),
        init: Init::Zeros,
        value: lessen_graph::ValueId(0),
        is_turned: false,
        is_buffer: false,
    };
    let params = [spec("a", &[2]), spec("b", &[4])];
    let mut taken = BTreeMap::new();
    let read = lessen_nn::checkpoint::load_with(&folder, &params, &|_| false, &mut |param, first, part| {
        taken.insert((param.name.clone(), first), part.to_vec());
        Ok(())
    });
    assert!(read.unwrap_err().to_string().contains("`b`") && taken.is_empty());
}

#[test]
fn a_function_runs_in_its_own_session_alone() {
    let mut one = train_line(device(1), 1);
    let mut other = train_line(device(1), 1);
    let doubled = one
        .function(|cx| vec![("y", cx.input("x", DType::F32, &[4]) * 2.0)])
        .unwrap();
    let tripled = other
        .function(|cx| vec![("y", cx.input("x", DType::F32, &[4]) * 3.0)])
        .unwrap();
    let x = [("x", Host::F32(&[1.0; 4]))];
    let foreign = "the function belongs to another session or trainer";
    assert!(other.run(doubled, &x).unwrap_err().to_string().contains(foreign));
    assert!(one.record(tripled, &x).unwrap_err().to_string().contains(foreign));
    let session = one.session().unwrap();
    assert!(session.plan(tripled).unwrap_err().to_string().contains(foreign));
    assert!(session.unload(tripled).unwrap_err().to_string().contains(foreign));
    assert_eq!(one.run(doubled, &x).unwrap().f32("y").unwrap(), [2.0; 4]);
    assert_eq!(other.run(tripled, &x).unwrap().f32("y").unwrap(), [3.0; 4]);
    // A function that has been freed runs nothing, whatever was loaded in its place.
    let session = one.session().unwrap();
    session.unload(doubled).unwrap();
    let halved = session
        .function(|cx| vec![("y", cx.input("x", DType::F32, &[4]) * 0.5)])
        .unwrap();
    for result in [session.run(doubled, &x).map(drop), session.unload(doubled)] {
        assert!(result.unwrap_err().to_string().contains("has been freed"));
    }
    assert_eq!(session.run(halved, &x).unwrap().f32("y").unwrap(), [0.5; 4]);
}

/// A function has the type of all cases.
fn ignore<T>(_: T) {}

#[test]
fn one_name_with_two_declarations_is_refused_with_both_lines() {
    type Case = (fn(Cx), fn(Cx), &'static str);
    let zeros = |cx: Cx| ignore(cx.param("v", &[2], Init::Zeros));
    let first = line!() - 1;
    let cases: [Case; 4] = [
        (
            zeros,
            |cx| ignore(cx.param("v", &[2], Init::Ones)),
            "two initial values, Zeros",
        ),
        (
            zeros,
            |cx| ignore(cx.param("v", &[2], Init::Constant(0.0))),
            "two initial values, Zeros",
        ),
        (
            zeros,
            |cx| ignore(cx.param("v", &[1, 2], Init::Zeros)),
            "two shapes, [2]",
        ),
        (
            zeros,
            |cx| ignore(cx.buffer("v", &[2], Init::Zeros)),
            "two roles, as a parameter",
        ),
    ];
    for (one, other, expected) in cases {
        let result = Trainer::new(device(1), TrainerOptions::new(0.1), |cx| {
            one(cx);
            other(cx);
            line(cx)
        });
        let sentence = result.err().unwrap().to_string();
        let places = (sentence.matches("faults.rs:").count(), format!("faults.rs:{first})"));
        assert!(
            sentence.contains(expected) && places.0 == 2 && sentence.contains(&places.1),
            "{sentence}"
        );
    }
    // Equal declarations tie weights.
    let tied = Trainer::new(device(1), TrainerOptions::new(0.1), |cx| {
        let weight = || cx.param("w", &[4], Init::Ones);
        (weight() * weight() * cx.input("x", DType::F32, &[4])).mean()
    });
    assert_eq!(tied.unwrap().params().len(), 1);
}

#[test]
fn plans_of_other_options_and_other_parameters_are_refused() {
    let plain = TrainerOptions::new(0.1);
    let plans = |options: &TrainerOptions| {
        StepPlans::new(device(1).as_ref(), options, &StepGraphs::new(options, line).unwrap()).unwrap()
    };
    let two = TrainerOptions {
        accumulate: 2,
        ..TrainerOptions::new(0.1)
    };
    for (made, given) in [(&plain, &two), (&two, &plain)] {
        let plans = plans(made);
        let session = Session::zeros(device(1), plans.params.clone()).unwrap();
        let error = Trainer::from_plans(session, given.clone(), plans).err().unwrap();
        assert!(error.to_string().contains("the plans are of other options"), "{error}");
    }
    let session = Session::zeros(device(1), Vec::new()).unwrap();
    let error = Trainer::from_plans(session, plain.clone(), plans(&plain))
        .err()
        .unwrap();
    assert!(error.to_string().contains("no parameter `"), "{error}");
}
