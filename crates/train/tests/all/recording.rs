//! Recording of statistics beside training.

use crate::support::device;
use lessen_compile::{dump_memory, dump_schedule};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init, Selection, Statistic, initialize};
use lessen_train::{Part, Session, StepGraphs, StepPlans, Trainer, TrainerOptions};

const ROWS: usize = 8;
const WIDTH: usize = 5;

/// A loss that is the mean of an observed value after dropout. It counts its runs in a state of its own.
fn loss(cx: Cx) -> Tensor {
    let count = cx.trace().state("count", DType::I32, &[1]);
    cx.trace().assign(count, count + count.full_like(1.0));
    let x = cx.input("x", DType::F32, &[ROWS, WIDTH]);
    let inner = linear(cx, "inner", x, 300, Init::Normal { std: 0.5 });
    cx.observe("pre_activation", &[Statistic::Summary, Statistic::Histogram], inner);
    let y = cx.dropout(inner.relu(), 0.5);
    cx.observe("dropped", &[Statistic::Summary], y);
    y.mean()
}

fn plans(options: &TrainerOptions, recording: bool) -> StepPlans {
    let mut graphs = StepGraphs::new(options, loss).unwrap();
    if recording {
        graphs = graphs.with_recording(&Selection::all(), true, loss).unwrap();
        graphs = graphs.with_recording(&"dropped".parse().unwrap(), false, loss).unwrap();
    }
    StepPlans::new(device(1).as_ref(), options, &graphs).unwrap()
}

fn trainer(options: &TrainerOptions, recording: bool) -> Trainer {
    let plans = plans(options, recording);
    let weights = initialize(&plans.params, options.seed);
    let session = Session::new(device(1), plans.params.clone(), &weights).unwrap();
    Trainer::from_plans(session, options.clone(), plans).unwrap()
}

fn batch(number: usize) -> Vec<f32> {
    (0..ROWS * WIDTH)
        .map(|i| ((number * 131 + i) * 37 % 100) as f32 / 50.0 - 1.0)
        .collect()
}

#[test]
fn recording_changes_no_bit_of_training() {
    for accumulate in [1, 2] {
        let options = TrainerOptions {
            accumulate,
            ..TrainerOptions::new(0.01)
        };
        let (mut plain, mut recording) = (trainer(&options, false), trainer(&options, true));
        for step in 0..6 {
            let data: Vec<Vec<f32>> = (0..accumulate).map(|i| batch(accumulate * step + i)).collect();
            let inputs: Vec<_> = data.iter().map(|x| [("x", Host::F32(x))]).collect();
            let batches: Vec<_> = inputs.iter().map(|x| Part::new(1.0 / accumulate as f32, x)).collect();
            for function in recording.functions().to_vec() {
                recording.record(function, &inputs[0]).unwrap();
            }
            let (found, expected) = (recording.step_on(&batches).unwrap(), plain.step_on(&batches).unwrap());
            assert_eq!(found.loss.to_bits(), expected.loss.to_bits());
        }
        assert_eq!(recording.weights().unwrap(), plain.weights().unwrap());
        assert_eq!(recording.state().unwrap(), plain.state().unwrap());
    }
}

#[test]
fn what_is_recorded_is_the_step_to_come() {
    let mut trainer = trainer(&TrainerOptions::new(0.01), true);
    let [training, evaluation] = trainer.functions() else {
        panic!("two functions")
    };
    let (training, evaluation) = (*training, *evaluation);
    let mut losses = Vec::new();
    for step in 0..3 {
        let x = batch(step);
        let inputs = [("x", Host::F32(&x))];
        let found = trainer.record(training, &inputs).unwrap();
        let scalar = |name: &str| found.scalars.iter().find(|(n, _)| n == name).unwrap().1;
        let without = trainer.record(evaluation, &inputs).unwrap();
        assert_eq!(without.scalars.len(), 6);
        assert_eq!(without.scalars[1].0, "dropped/mean");
        let loss = f64::from(trainer.step(&inputs).unwrap().loss);
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
        assert!(close(scalar("dropped/mean"), loss), "{found:?} for {loss}");
        assert!(
            !close(without.scalars[1].1, loss),
            "without dropout it is another number"
        );
        assert_eq!(scalar("pre_activation/count"), (ROWS * 300) as f64);
        assert!(scalar("dropped/zeros") > 0.5 && scalar("pre_activation/zeros") < 0.1);
        let [(name, counts)] = &found.histograms[..] else {
            panic!("one histogram")
        };
        assert_eq!(name, "pre_activation/histogram");
        assert_eq!(counts.iter().sum::<f64>(), (ROWS * 300) as f64);
        losses.push(loss);
    }
    assert!(losses[0] != losses[1]);
}

#[test]
fn the_step_is_planned_as_without_and_the_peak_counts_the_recording() {
    let options = TrainerOptions::new(0.01);
    let (plain, recording) = (plans(&options, false), plans(&options, true));
    assert_eq!(dump_schedule(&plain.step), dump_schedule(&recording.step));
    assert_eq!(dump_memory(&plain.step), dump_memory(&recording.step));
    let largest = recording.functions.iter().map(|plan| plan.arena_bytes()).max().unwrap();
    assert_eq!(recording.arena_bytes(), largest.max(plain.arena_bytes()));

    let mut trainer = trainer(&options, true);
    let x = batch(0);
    for function in trainer.functions().to_vec() {
        trainer.record(function, &[("x", Host::F32(&x))]).unwrap();
    }
    trainer.step(&[("x", Host::F32(&x))]).unwrap();
    let peak = trainer.peak();
    assert_eq!(peak.planned, peak.measured);
}

/// A loss that names two values of one name, and one of another dtype.
fn observing(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[ROWS, WIDTH]);
    let hidden = linear(cx, "inner", x, 3, Init::Normal { std: 0.5 });
    cx.observe("hidden", &[Statistic::Summary], hidden);
    let dropped = cx.dropout(hidden.relu(), 0.5);
    cx.observe("hidden", &[], dropped);
    cx.observe("positive", &[], hidden.gt(hidden.scalar_like(0.0)));
    dropped.mean()
}

#[test]
fn observed_values_are_those_of_the_model_and_change_no_bit() {
    let new = || Trainer::new(device(1), TrainerOptions::new(0.01), observing).unwrap();
    let (mut plain, mut trainer) = (new(), new());
    let plain_values = trainer.observing(&Selection::all(), false, observing).unwrap();
    let of_step = trainer.observing(&"hidden".parse().unwrap(), true, observing).unwrap();
    let direct = trainer.function(|cx| {
        let x = cx.input("x", DType::F32, &[ROWS, WIDTH]);
        vec![("hidden", linear(cx, "inner", x, 3, Init::Normal { std: 0.5 }))]
    });
    let direct = direct.unwrap();
    for step in 0..3 {
        let x = batch(step);
        let inputs = [("x", Host::F32(&x))];
        let found = trainer.observe(plain_values, &inputs).unwrap();
        assert_eq!(found.names().collect::<Vec<_>>(), ["hidden", "hidden.2", "positive"]);
        let hidden = found.f32("hidden").unwrap();
        assert_eq!(hidden, trainer.run(direct, &inputs).unwrap().f32("hidden").unwrap());
        let positive: Vec<f64> = found.get("positive").unwrap().elements().collect();
        assert!(hidden.iter().zip(positive).all(|(x, is)| (*x > 0.0) == (is == 1.0)));
        let ty = trainer.session().unwrap().result_type(plain_values, "hidden").unwrap();
        assert_eq!(ty.to_string(), "f32[8,3]");

        // With dropout they are the values of the step to come.
        let found = trainer.observe(of_step, &inputs).unwrap();
        assert_eq!(found.names().collect::<Vec<_>>(), ["hidden", "hidden.2"]);
        let dropped = found.f32("hidden.2").unwrap();
        let mean = dropped.iter().sum::<f32>() / dropped.len() as f32;
        let (own, expected) = (trainer.step(&inputs).unwrap().loss, plain.step(&inputs).unwrap().loss);
        assert!((mean - own).abs() <= 1e-6, "{mean} for {own}");
        assert_eq!(own.to_bits(), expected.to_bits());
    }
    assert_eq!(trainer.snapshot().unwrap(), plain.snapshot().unwrap());
}

#[test]
fn a_session_has_the_observed_values_of_its_parameters() {
    let mut trainer = Trainer::new(device(1), TrainerOptions::new(0.01), observing).unwrap();
    let x = batch(0);
    let inputs = [("x", Host::F32(&x))];
    let of_trainer = trainer.observing(&Selection::all(), false, observing).unwrap();
    let expected = trainer.observe(of_trainer, &inputs).unwrap();
    let mut session = trainer.finish().unwrap();
    let ask = session.observing(&Selection::all(), observing).unwrap();
    let found = session.run(ask, &inputs).unwrap();
    for name in ["hidden", "hidden.2"] {
        assert_eq!(found.f32(name).unwrap(), expected.f32(name).unwrap());
    }
    let error = session.observing(&"inner".parse().unwrap(), observing).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing that the model observes is called inner; it has hidden, positive"
    );
    assert!(
        session
            .result_type(ask, "x")
            .unwrap_err()
            .to_string()
            .contains("no result `x`")
    );
}
