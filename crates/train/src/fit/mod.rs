//! A training loop with callbacks, for those who do not write their own.
//!
//! [`fit()`] makes the steps of a [`Trainer`] on the batches of a [`Source`], evaluates at intervals, and calls
//! its [callbacks](Callback): [`EarlyStop`], [`KeepBest`], [`TellWatcher`] or [`WriteLines`], [`WriteEvents`], and
//! those of one's own. It prints nothing.
//!
//! ```
//! use lessen_cpu::CpuBackend;
//! use lessen_data::{ArrayBatches, Field, Order, Source};
//! use lessen_graph::DType;
//! use lessen_nn::Init;
//! use lessen_train::fit::{Better, EarlyStop, FitOptions, KeepBest, fit};
//! use lessen_train::{Trainer, TrainerOptions, inputs_of};
//! use std::sync::Arc;
//!
//! // y = 3 x on eight points.
//! let x: Vec<f32> = (0..8).map(|i| i as f32 / 8.0).collect();
//! let y: Vec<f32> = x.iter().map(|x| 3.0 * x).collect();
//! let fields = vec![("x", Field::f32([8], x)), ("y", Field::f32([8], y))];
//! let source = Arc::new(ArrayBatches::new(fields, 4, Order::Shuffled(1))?);
//!
//! let error = |cx: lessen_nn::Cx| {
//!     let (x, y) = (cx.input("x", DType::F32, &[4]), cx.input("y", DType::F32, &[4]));
//!     let error = cx.param("a", &[1], Init::Zeros) * x - y;
//!     (error * error).mean()
//! };
//! let mut trainer = Trainer::new(Box::new(CpuBackend::new(1)?), TrainerOptions::new(0.1), error)?;
//! let ask = trainer.function(|cx| vec![("error", error(cx))])?;
//!
//! let mut stop = EarlyStop::new("error", Better::Lower, 3).min_change(1e-4);
//! let mut best = KeepBest::in_memory("error", Better::Lower);
//! let evaluated = source.clone();
//! let options = FitOptions::new(1000).with(&mut stop).with(&mut best).evaluate_every(20, |trainer| {
//!     let results = trainer.run(ask, &inputs_of(&evaluated.eval_batch(0)?))?;
//!     Ok(vec![("error", results.scalar("error")?)])
//! });
//! let history = fit(&mut trainer, source, options)?;
//! assert!(history.stopped.is_some() && history.steps.len() < 1000);
//! assert_eq!(trainer.done(), best.best().unwrap().0);
//! # Ok::<(), lessen_train::Error>(())
//! ```

mod better;
mod callback;
mod early_stop;
mod history;
mod keep_best;
mod progress;
mod write_events;

pub use self::better::Better;
pub use self::callback::{Callback, Course};
pub use self::early_stop::EarlyStop;
pub use self::history::{Evaluation, History};
pub use self::keep_best::KeepBest;
pub use self::progress::{TellWatcher, WriteLines};
pub use self::write_events::WriteEvents;

use crate::batches::step_on_batches;
use crate::trainer::Trainer;
use lessen_base::{Error, Result, watcher};
use lessen_data::{Prefetch, Source};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A function that evaluates the model: scores with their names.
type Evaluate<'a> = Box<dyn FnMut(&mut Trainer) -> Result<Vec<(String, f64)>> + 'a>;

/// Settings of [`fit()`].
pub struct FitOptions<'a> {
    /// The steps that the trainer has done at the end: a trainer that has done some makes the rest.
    pub steps: u64,
    /// The number of batches that are made ahead on a thread.
    pub ahead: usize,
    evaluate: Option<(u64, Evaluate<'a>)>,
    callbacks: Vec<&'a mut dyn Callback>,
}

impl<'a> FitOptions<'a> {
    /// A loop of this many steps, without evaluations and callbacks.
    pub fn new(steps: u64) -> FitOptions<'a> {
        FitOptions {
            steps,
            ahead: 4,
            evaluate: None,
            callbacks: Vec::new(),
        }
    }

    /// Evaluates after every step whose number is divisible by `every`, and after the last one.
    #[must_use]
    pub fn evaluate_every<N: Into<String>>(
        mut self,
        every: u64,
        mut evaluate: impl FnMut(&mut Trainer) -> Result<Vec<(N, f64)>> + 'a,
    ) -> FitOptions<'a> {
        let named = move |trainer: &mut Trainer| {
            let scores = evaluate(trainer)?.into_iter();
            Ok(scores.map(|(name, score)| (name.into(), score)).collect())
        };
        self.evaluate = Some((every, Box::new(named)));
        self
    }

    /// Adds a callback; callbacks are called in the order in which they were added.
    #[must_use]
    pub fn with(mut self, callback: &'a mut dyn Callback) -> FitOptions<'a> {
        self.callbacks.push(callback);
        self
    }
}

/// Makes the steps of a trainer on the batches of a source, as many in each step as its options accumulate. The batch
/// of a step depends on the number of the step alone, so that a trainer that was resumed goes on with the batches that
/// it would have seen. The loop ends early where a callback says so, or this thread's [watcher] does.
///
/// # Errors
/// The errors of steps, of the source, the evaluation and the callbacks; an evaluation after every 0 steps. Callbacks
/// have been told of the end then.
pub fn fit(trainer: &mut Trainer, source: Arc<dyn Source>, mut options: FitOptions<'_>) -> Result<History> {
    let course = Course {
        steps: options.steps,
        evaluate_every: options.evaluate.as_ref().map(|(every, _)| *every),
    };
    if course.evaluate_every == Some(0) {
        return Err(Error::user(
            "an evaluation after every 0 steps makes no sense; choose at least 1",
        ));
    }
    let mut history = History::default();
    let mut outcome = go(trainer, source, &course, &mut options, &mut history);
    for callback in &mut options.callbacks {
        outcome = outcome.and(callback.end(trainer, &history));
    }
    outcome.map(|()| history)
}

/// The loop itself.
fn go(
    trainer: &mut Trainer,
    source: Arc<dyn Source>,
    course: &Course,
    options: &mut FitOptions<'_>,
    history: &mut History,
) -> Result<()> {
    let watcher = watcher::current();
    watcher.can_stop()?;
    for callback in &mut options.callbacks {
        callback.begin(trainer, course)?;
    }
    let own = trainer.options().own_batches();
    let numbers = trainer.options().own_batches_after(0, trainer.done());
    let mut batches = Prefetch::of(source, numbers, options.ahead)?;
    while trainer.done() < course.steps && history.stopped.is_none() {
        let made = own.clone().map(|_| batches.next_batch()).collect();
        let report = step_on_batches(trainer, made)?;
        for callback in &mut options.callbacks {
            note(history, callback.stepped(trainer, &report)?);
        }
        history.steps.push(report);
        evaluate(trainer, course, options, history)?;
        let stops = trainer.options().group.agree_any("the wish to stop", watcher.stops())?;
        if stops && history.stopped.is_none() {
            history.stopped = Some("the watcher asked to stop".to_string());
        }
    }
    Ok(())
}

/// Evaluates the model where it is time.
fn evaluate(trainer: &mut Trainer, course: &Course, options: &mut FitOptions<'_>, history: &mut History) -> Result<()> {
    let step = trainer.done();
    let Some((every, evaluate)) = &mut options.evaluate else {
        return Ok(());
    };
    let is_last = step >= course.steps || history.stopped.is_some();
    if !is_last && !step.is_multiple_of(*every) {
        return Ok(());
    }
    let scores = evaluate(trainer)?;
    let evaluation = Evaluation { step, scores };
    for callback in &mut options.callbacks {
        note(history, callback.evaluated(trainer, &evaluation)?);
    }
    history.evaluations.push(evaluation);
    Ok(())
}

/// Notes the first reason to stop.
fn note(history: &mut History, flow: ControlFlow<String>) {
    if let (ControlFlow::Break(reason), None) = (flow, &history.stopped) {
        history.stopped = Some(reason);
    }
}
