//! The training loop with callbacks.

use crate::support::{device, line};
use lessen_base::watcher::{Event, Watcher, watched_by};
use lessen_data::{ArrayBatches, Field, Order, Source};
use lessen_graph::{DType, Tensor};
use lessen_nn::{Cx, Init};
use lessen_train::fit::{
    Better, Callback, Course, EarlyStop, FitOptions, History, KeepBest, TellWatcher, WriteEvents, WriteLines, fit,
};
use lessen_train::{Part, Result, Trainer, TrainerOptions, inputs_of};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Batches of four numbers out of twenty.
fn source() -> Arc<ArrayBatches> {
    let x = (0..20).map(|i| (i * 7 % 20) as f32 / 10.0 - 1.0).collect();
    Arc::new(ArrayBatches::new(vec![("x", Field::f32([20], x))], 4, Order::Shuffled(3)).unwrap())
}

fn trainer(accumulate: usize) -> Trainer {
    let options = TrainerOptions {
        accumulate,
        ..TrainerOptions::new(0.05)
    };
    Trainer::new(device(1), options, line).unwrap()
}

/// Evaluations after every step with these scores, one after another.
fn scored<'a>(options: FitOptions<'a>, scores: &'a [f64]) -> FitOptions<'a> {
    let mut scores = scores.iter().copied();
    options.evaluate_every(1, move |_| Ok(vec![("score", scores.next().expect("a score"))]))
}

#[test]
fn it_makes_the_steps_of_a_loop_of_ones_own() {
    for accumulate in [1, 2] {
        let (mut own, mut fitted, source) = (trainer(accumulate), trainer(accumulate), source());
        let mut losses = Vec::new();
        for step in 0..7 {
            let first = step * accumulate as u64;
            let batches: Vec<_> = (0..accumulate as u64)
                .map(|i| source.batch(first + i).unwrap())
                .collect();
            let inputs: Vec<_> = batches.iter().map(inputs_of).collect();
            let parts: Vec<_> = inputs.iter().map(|x| Part::new(1.0 / accumulate as f32, x)).collect();
            losses.push(own.step_on(&parts).unwrap().loss);
        }
        // In two parts: the second one goes on after the steps that are done.
        let mut history = fit(&mut fitted, source.clone(), FitOptions::new(3)).unwrap();
        history
            .steps
            .extend(fit(&mut fitted, source, FitOptions::new(7)).unwrap().steps);
        let found: Vec<f32> = history.steps.iter().map(|step| step.loss).collect();
        assert_eq!(found, losses);
        assert_eq!(history.stopped, None);
        assert_eq!(fitted.snapshot().unwrap(), own.snapshot().unwrap());
    }
}

#[test]
fn it_evaluates_every_few_steps_and_after_the_last_one() {
    let mut trainer = trainer(1);
    let options = FitOptions::new(7).evaluate_every(3, |trainer| Ok(vec![("done", trainer.done() as f64)]));
    let history = fit(&mut trainer, source(), options).unwrap();
    let found: Vec<(u64, f64)> = history
        .evaluations
        .iter()
        .map(|own| (own.step, own.score("done").unwrap()))
        .collect();
    assert_eq!(found, [(3, 3.0), (6, 6.0), (7, 7.0)]);
    let sentence = history.evaluations[0].score("loss").unwrap_err().to_string();
    assert_eq!(sentence, "the evaluation has no score `loss`; it has done");
}

#[test]
fn it_stops_after_some_evaluations_that_are_no_better() {
    let stopped = |mut stop: EarlyStop, scores: &[f64]| {
        let options = scored(FitOptions::new(scores.len() as u64), scores).with(&mut stop);
        let history = fit(&mut trainer(1), source(), options).unwrap();
        (history.steps.len(), history.stopped, stop.best())
    };
    let lower = |patience| EarlyStop::new("score", Better::Lower, patience);
    let reason = "the score `score` was best after step 2 with 2, and no better in 2 evaluations since";
    assert_eq!(
        stopped(lower(2), &[3.0, 2.0, 2.5, 2.0, 1.0]),
        (4, Some(reason.to_string()), Some((2, 2.0)))
    );
    assert_eq!(stopped(lower(3), &[3.0, 2.0, 2.5, 2.0, 1.0]), (5, None, Some((5, 1.0))));
    // Changes of no more than 0.5 do not count, however many there are.
    let (steps, _, best) = stopped(lower(3).min_change(0.5), &[3.0, 2.8, 2.6, 2.5, 1.0]);
    assert_eq!((steps, best), (4, Some((1, 3.0))));
    let (steps, reason, _) = stopped(EarlyStop::new("score", Better::Higher, 1), &[0.1, 0.2, 0.1, 0.3]);
    assert!(steps == 3 && reason.is_some());
    let (steps, reason, _) = stopped(lower(9), &[3.0, f64::NAN, 1.0]);
    assert_eq!(
        (steps, reason.unwrap().as_str()),
        (2, "the score `score` is NaN after step 2")
    );
}

#[test]
fn the_best_state_is_restored_with_its_next_steps() {
    let mut expected = trainer(1);
    fit(&mut expected, source(), FitOptions::new(2)).unwrap();
    let best = expected.snapshot().unwrap();
    let after = fit(&mut expected, source(), FitOptions::new(4)).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let scores = [0.5, 0.9, 0.9, f64::NAN, 0.1];
    for mut keep in [
        KeepBest::in_memory("score", Better::Higher),
        KeepBest::in_folder("score", Better::Higher, folder.path().join("best")),
    ] {
        let mut trainer = trainer(1);
        let options = scored(FitOptions::new(5), &scores).with(&mut keep);
        assert_eq!(fit(&mut trainer, source(), options).unwrap().steps.len(), 5);
        assert_eq!(keep.best(), Some((2, 0.9)));
        assert_eq!(trainer.snapshot().unwrap(), best);
        let found = fit(&mut trainer, source(), FitOptions::new(4)).unwrap();
        let losses = |history: &History| history.steps.iter().map(|step| step.loss).collect::<Vec<_>>();
        assert_eq!(losses(&found), losses(&after));
    }
}

#[test]
fn a_score_that_nothing_gives_is_refused() {
    let mut stop = EarlyStop::new("score", Better::Lower, 1);
    let mut steps = trainer(1);
    let error = fit(&mut steps, source(), FitOptions::new(2).with(&mut stop)).unwrap_err();
    assert!(error.to_string().contains("call FitOptions::evaluate_every"), "{error}");
    assert_eq!(steps.done(), 0);
    let mut keep = KeepBest::in_memory("los", Better::Lower);
    let options = FitOptions::new(2)
        .with(&mut keep)
        .evaluate_every(1, |_| Ok(vec![("loss", 1.0)]));
    let error = fit(&mut steps, source(), options).unwrap_err();
    assert_eq!(error.to_string(), "the evaluation has no score `los`; it has loss");
    let options = FitOptions::new(2).evaluate_every(0, |_| Ok(vec![("loss", 1.0)]));
    assert!(
        fit(&mut steps, source(), options)
            .unwrap_err()
            .to_string()
            .contains("every 0 steps")
    );
}

/// A loss that is infinite from the third step on: each step doubles the exponent.
fn exploding(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[4]);
    let count = cx.trace().state("count", DType::F32, &[]);
    cx.trace().assign(count, count + count.full_like(60.0));
    count.exp() + x.mean() * cx.param("w", &[1], Init::Ones).sum()
}

#[test]
fn a_loss_that_is_not_finite_ends_with_the_best_state() {
    let mut trainer = Trainer::new(device(1), TrainerOptions::new(0.1), exploding).unwrap();
    let mut keep = KeepBest::in_memory("score", Better::Lower);
    let options = scored(FitOptions::new(9), &[1.0, 2.0]).with(&mut keep);
    let error = fit(&mut trainer, source(), options).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the loss of step 3 is inf; lower the learning rate"),
        "{error}"
    );
    assert_eq!(trainer.done(), 1);
}

/// Counts the calls, and stops.
#[derive(Default)]
struct Calls(Vec<String>, Option<u64>);

impl Callback for Calls {
    fn begin(&mut self, _: &mut Trainer, course: &Course) -> Result<()> {
        self.0
            .push(format!("begin {} {:?}", course.steps, course.evaluate_every));
        Ok(())
    }

    fn stepped(&mut self, _: &mut Trainer, report: &lessen_train::StepReport) -> Result<std::ops::ControlFlow<String>> {
        self.0.push(format!("step {}", report.step));
        Ok(match self.1 {
            Some(last) if report.step == last => std::ops::ControlFlow::Break("enough".to_string()),
            _ => std::ops::ControlFlow::Continue(()),
        })
    }

    fn end(&mut self, _: &mut Trainer, history: &History) -> Result<()> {
        self.0.push(format!("end {:?}", history.stopped));
        Ok(())
    }
}

#[test]
fn callbacks_of_ones_own_see_all_and_stop() {
    let mut calls = Calls(Vec::new(), Some(2));
    let options = FitOptions::new(9)
        .with(&mut calls)
        .evaluate_every(5, |_| Ok(vec![("x", 0.0)]));
    let history = fit(&mut trainer(1), source(), options).unwrap();
    assert_eq!(calls.0, ["begin 9 Some(5)", "step 1", "step 2", "end Some(\"enough\")"]);
    assert_eq!(history.evaluations.len(), 1, "the last step is evaluated");
}

/// Keeps what it is told, and stops after some steps.
#[derive(Default)]
struct Listener {
    told: Mutex<Vec<String>>,
    stops: AtomicBool,
}

impl Watcher for Listener {
    fn told(&self, event: &Event<'_>) {
        let line = match event {
            Event::Begin { unit, done, total, .. } => format!("begin {unit} {done}/{total}"),
            Event::Step { done, .. } => format!("step {done}"),
            Event::Numbers { step, numbers } => format!("numbers {step} {}", numbers[0].0),
            Event::Report(line) => format!("report {line}"),
            Event::End { .. } => "end".to_string(),
            _ => return,
        };
        self.stops.fetch_or(line == "step 2", Ordering::Relaxed);
        self.told.lock().unwrap().push(line);
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }
}

#[test]
fn a_watcher_is_told_and_asked() {
    let listener = Arc::new(Listener::default());
    let history = watched_by(listener.clone(), || {
        let mut tell = TellWatcher::new();
        let options = FitOptions::new(5)
            .with(&mut tell)
            .evaluate_every(1, |_| Ok(vec![("score", 0.25)]));
        fit(&mut trainer(1), source(), options).unwrap()
    });
    let told = listener.told.lock().unwrap();
    assert_eq!(
        told[..5],
        [
            "begin step 0/5",
            "numbers 1 loss",
            "step 1",
            "numbers 1 score",
            "report step 1: score 0.2500"
        ]
    );
    assert_eq!(told.last().unwrap(), "end");
    assert_eq!(history.steps.len(), 2);
    assert_eq!(history.stopped.unwrap(), "the watcher asked to stop");
}

#[test]
fn lines_are_written_where_they_are_asked_for() {
    let mut text = Vec::new();
    let mut lines = WriteLines::new(&mut text, 2);
    let options = FitOptions::new(5)
        .with(&mut lines)
        .evaluate_every(4, |_| Ok(vec![("a", 0.5), ("b", 2.0)]));
    let history = fit(&mut trainer(1), source(), options).unwrap();
    let loss = |step: usize| format!("step {step} of 5: loss {:.4}", history.steps[step - 1].loss);
    let expected = [
        loss(2),
        loss(4),
        "step 4: a 0.5000, b 2.0000".into(),
        "step 5: a 0.5000, b 2.0000".into(),
    ];
    assert_eq!(String::from_utf8(text).unwrap().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn events_have_the_losses_and_scores() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = WriteEvents::new(folder.path().join("events"));
    let options = FitOptions::new(2)
        .with(&mut events)
        .evaluate_every(2, |_| Ok(vec![("accuracy", 0.5)]));
    fit(&mut trainer(1), source(), options).unwrap();
    let files: Vec<_> = fs::read_dir(folder.path().join("events")).unwrap().collect();
    let [file] = &files[..] else { panic!("one file") };
    let bytes = fs::read(file.as_ref().unwrap().path()).unwrap();
    let count = |tag: &[u8]| bytes.windows(tag.len()).filter(|window| *window == tag).count();
    assert_eq!(
        (count(b"train/loss"), count(b"train/lr"), count(b"eval/accuracy")),
        (2, 2, 1)
    );
}
