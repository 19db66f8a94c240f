//! Training: phases of steps with evaluations and checkpoints, and the report at the end.

mod announcement;
mod course;
mod divergence;
mod ending;
mod log;
mod phase_result;
mod prepared_phase;
pub(crate) mod probe;
mod recording;
mod remaining;
pub mod report;
mod report_page;
mod saving;
mod start;
mod starting_point;
mod steps;
mod thinned;
mod timing;
mod unknown_tokens;

pub use self::timing::median;
pub use crate::job::{Feed, Request, Wish};

use self::prepared_phase::PreparedPhase;
use self::recording::Recordings;
use self::remaining::RemainingPhases;
use self::report::Report;
use self::start::Start;
use self::starting_point::StartingPoint;
use self::steps::Steps;
use self::timing::Timing;
use crate::job::processes::check_same;
use crate::job::{Begin, Driver};
use crate::planning::memory_watch::MemoryWatch;
use lessen_base::{Error, Result, allocated};
use lessen_task::device::NewBackend;
use lessen_task::evaluation::{Functions, Scores, evaluate};
use lessen_task::folder::Folder;
use lessen_task::folder::manifest::{Best, DataDigests, Waiting};
use lessen_task::folder::memory::{PhaseMemory, RunMemory};
use lessen_task::folder::spent::Spent;
use lessen_task::input_files::InputFiles;
use lessen_task::reader::Reader;
use lessen_task::recipe::phases::Recipe;
use lessen_task::shared_data::SharedData;
use lessen_task::wording::{name_of, tell};
use lessen_train::{StepPlans, Trainer};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Trains. Ctrl-C stops the run with a checkpoint after the current step. Before the first step, when there is nothing
/// to save, it ends the process.
///
/// # Errors
/// A mistake in data, checkpoint, settings or folder, before any step; a loss that is not finite.
pub fn train(request: &Request, new_backend: &NewBackend) -> Result<Report> {
    let mut watch = MemoryWatch::begin();
    // A new run has all training phases left, a resumed run the training phases after its newest checkpoint.
    let group = &request.group;
    let start = Start::of(request);
    group.agree("the start", start.as_ref().map(|_| Vec::new()).map_err(Error::clone))?;
    let start = start?;
    let remaining = RemainingPhases::plan(&start, &mut watch, new_backend);
    group.agree("the plan", remaining.as_ref().map(|_| Vec::new()).map_err(Error::clone))?;
    let remaining = remaining?;
    let (first, _) = &remaining.phases[0];
    check_same(
        group,
        &start.recipe.settings,
        &format!("{:?}", first.task.data()?.digests()?),
    )?;
    if let Some(report) = start.ended(remaining.total)? {
        return Ok(report);
    }
    let compile_time: Duration = remaining.phases.iter().map(|(_, plans)| plans.compile_time()).sum();
    let memory_of =
        |(phase, plans): &(PreparedPhase, StepPlans)| PhaseMemory::of(phase.task.config().phase.as_deref(), plans);
    let memory = RunMemory {
        phases: remaining.phases.iter().map(memory_of).collect(),
    };
    let mut phases = remaining.phases.into_iter();
    let (phase, plans) = phases
        .next()
        .ok_or_else(|| Error::internal("a run has no training phase"))?;
    let (mut trainer, first) = phase.trainer(|| Ok(remaining.backend), plans, remaining.from)?;

    trainer.session()?.reserve()?;
    // What planning has freed is not to lie beside the steps.
    allocated::give_back();

    // The folder.
    let (folder, guard) = start.folder()?;
    start.write_settings(&folder)?;
    memory.write(&folder)?;
    let before = start.spent();
    let mut driver = Driver::begin(Begin {
        root: folder.root(),
        guard,
        done: (start.step(), start.step() > 0),
        minutes: phase.task.config().train.checkpoint_minutes,
        count: ("step", remaining.total, start.step()),
        watch,
        time: (
            Instant::now(),
            Spent {
                compile_seconds: before.compile_seconds + compile_time.as_secs_f64(),
                ..before
            },
        ),
        group: group.clone(),
    })?;
    let mut run = Run {
        reader: phase.task.data()?.reader.clone(),
        data: phase.task.data()?.digests()?,
        inputs: remaining.inputs,
        timing: Timing::default(),
        waiting: start.waiting().filter(|_| phase.begun < start.step()),
        stopped: false,
        optimizer_since: start.optimizer_since(),
        best: start
            .best
            .clone()
            .filter(|best| best.phase == phase.task.config().phase),
        start: start.step(),
        total: remaining.total,
        shared: start.shared().clone(),
        feed: request.feed.clone(),
        recipe: start.recipe,
        evaluation: phase.evaluation(&trainer),
        recordings: phase.recordings(&trainer),
        phase,
        trainer,
        folder,
    };
    run.announce(&first, &mut driver);

    // The steps, one training phase after another.
    let (ended, scores) = loop {
        let (ended, scores) = run.train_phase(&mut driver)?;
        match phases.next() {
            Some((phase, plans)) if ended => run = run.enter((phase, plans), &mut driver, new_backend)?,
            _ => break (ended, scores),
        }
    };
    if !ended {
        driver.check_saved()?;
        return run.report(&driver, None, true);
    }

    // The end.
    let scores = match scores {
        Some(scores) => scores,
        None => run.evaluate(run.start)?,
    };
    driver.log.progress.finish();
    run.save_result()?;
    let mut report = run.report(&driver, Some(&scores), false)?;
    let folder = run.folder.clone();
    report.show(run.showcase()?);
    report.write(&folder)?;
    driver.check_saved().map(|()| report)
}

/// A run under way, in one of its training phases.
struct Run {
    recipe: Recipe,
    /// Number of steps that were done before this process began.
    start: u64,
    /// Number of steps of the whole run.
    total: u64,
    reader: Arc<Reader>,
    data: DataDigests,
    inputs: InputFiles,
    folder: Folder,
    /// Data that the run shares with others.
    shared: SharedData,
    /// What gives the batches in place of the data, if something does.
    feed: Option<Arc<dyn Feed>>,
    timing: Timing,
    /// How long the training phase has waited for a better evaluation; none before its first evaluation.
    waiting: Option<Waiting>,
    /// Whether the training phase ends early, since it has waited long enough.
    stopped: bool,
    /// The step after which the optimizer's state began: that of the last checkpoint without it, else 0.
    optimizer_since: u64,
    phase: PreparedPhase,
    trainer: Trainer,
    /// The functions of the evaluation.
    evaluation: Functions,
    /// The functions that record statistics.
    recordings: Recordings,
    best: Option<Best>,
}

impl Run {
    /// Trains the steps that are left of the training phase; whether it came to its end, and its last evaluation, if
    /// there was one.
    fn train_phase(&mut self, driver: &mut Driver) -> Result<(bool, Option<Scores>)> {
        if self.is_over() {
            return Ok((true, None));
        }
        let mut steps = Steps::of(self)?;
        let ended = driver.go(&mut steps)?;
        Ok((ended, steps.scores))
    }

    /// Whether the training phase has no steps left.
    fn is_over(&self) -> bool {
        self.stopped || self.trainer.done() >= self.phase.end()
    }

    /// Goes on to the next training phase, with the parameters and states that both have.
    fn enter(
        mut self,
        (phase, plans): (PreparedPhase, StepPlans),
        driver: &mut Driver,
        new_backend: &NewBackend,
    ) -> Result<Run> {
        let done = self.trainer.done();
        if phase.begun > done {
            self.total -= phase.begun - done;
            driver.log.progress.expect(self.total);
        }
        let phase = phase.beginning_after(done, &self.phase);
        let before = StartingPoint::Session(Box::new(self.trainer.into_session()?));
        let (trainer, first) = phase.trainer(|| new_backend.open(), plans, before)?;
        allocated::give_back();
        let run = Run {
            evaluation: phase.evaluation(&trainer),
            recordings: phase.recordings(&trainer),
            trainer,
            phase,
            best: None,
            waiting: None,
            stopped: false,
            ..self
        };
        run.announce(&first, driver);
        Ok(run)
    }

    /// Evaluates on the split `dev`.
    fn evaluate(&mut self, step: u64) -> Result<Scores> {
        let (task, dev) = (&self.phase.task, &self.phase.sources.dev);
        let job = (task.model(), task.goal());
        let group = self.trainer.options().group.clone();
        let scores = evaluate(self.trainer.session()?, &mut self.evaluation, job, dev.as_ref(), &group)?;
        if scores.loss.is_finite() {
            if let Some(table) = &scores.table
                && let Err(error) = self.folder.write(table.file(), &format!("{}\n", table.to_file(step)))
            {
                tell(&format!("warning: the table of step {step} is not written: {error}"));
            }
            return Ok(scores);
        }
        let loss = name_of(scores.loss);
        Err(self.diverged(step, &format!("after step {step} the loss of the evaluation is {loss}")))
    }
}
