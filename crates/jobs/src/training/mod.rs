//! The training loop: steps with evaluations and checkpoints, and the report at the end.

mod announcement;
pub(crate) mod checkpoint_clock;
mod course;
mod divergence;
mod ending;
pub mod interrupt;
mod log;
mod phase_result;
mod prepared_phase;
pub(crate) mod probe;
pub(crate) mod progress;
mod recording;
mod remaining;
pub mod report;
mod report_page;
mod request;
mod saving;
mod start;
mod starting_point;
mod thinned;
mod timing;
mod unknown_tokens;

pub use self::request::Request;
pub use self::timing::median;

use self::checkpoint_clock::CheckpointClock;
use self::log::Log;
use self::prepared_phase::PreparedPhase;
use self::recording::Recordings;
use self::remaining::RemainingPhases;
use self::report::Report;
use self::start::Start;
use self::starting_point::StartingPoint;
use self::timing::Timing;
use crate::planning::memory_watch::MemoryWatch;
use crate::planning::phase_work::batches_ahead;
use lessen_base::{Error, Result, allocated};
use lessen_data::{Batch, Prefetch};
use lessen_task::device::NewBackend;
use lessen_task::folder::manifest::{Best, DataDigests, Waiting};
use lessen_task::folder::memory::{PhaseMemory, RunMemory};
use lessen_task::folder::{Folder, NewFolderGuard};
use lessen_task::input_files::InputFiles;
use lessen_task::recipe::phases::Recipe;
use lessen_task::task::evaluation::{Functions, Scores, evaluate};
use lessen_task::task::reader::Reader;
use lessen_task::task::shared_data::SharedData;
use lessen_task::wording::name_of;
use lessen_train::{Peak, StepPlans, StepReport, Trainer};
use std::sync::Arc;

/// Trains. Ctrl-C stops the run with a checkpoint after the current step. Before the first step, when there is nothing
/// to save, it ends the process.
///
/// # Errors
/// A mistake in data, checkpoint, settings or folder, before any step; a loss that is not finite.
pub fn train(request: &Request, new_backend: NewBackend<'_>) -> Result<Report> {
    let mut watch = MemoryWatch::begin();
    // A new run has all training phases left, a resumed run the training phases after its newest checkpoint.
    let start = Start::of(request)?;
    let remaining = RemainingPhases::plan(&start, &mut watch, new_backend)?;
    if let Some(report) = start.ended(remaining.total)? {
        return Ok(report);
    }
    let compile_time = remaining.phases.iter().map(|(_, plans)| plans.compile_time()).sum();
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
    interrupt::listen()?;
    let (folder, guard) = start.folder()?;
    start.write_settings(&folder)?;
    memory.write(&folder)?;
    let log = Log::open(&folder, start.step(), remaining.total)?;
    let mut run = Run {
        reader: phase.task.data()?.reader.clone(),
        data: phase.task.data()?.digests()?,
        inputs: remaining.inputs,
        timing: Timing::new(compile_time, start.spent()),
        clock: CheckpointClock::new(phase.task.config().train.checkpoint_minutes, start.step() > 0),
        waiting: start.waiting().filter(|_| phase.begun < start.step()),
        stopped: false,
        unsaved: None,
        optimizer_since: start.optimizer_since(),
        best: start
            .best
            .clone()
            .filter(|best| best.phase == phase.task.config().phase),
        start: start.step(),
        total: remaining.total,
        peak: NO_PEAK,
        shared: start.shared().clone(),
        recipe: start.recipe,
        evaluation: phase.evaluation(&trainer),
        recordings: phase.recordings(&trainer),
        phase,
        trainer,
        folder,
        guard,
        log,
        watch,
    };
    run.announce(&first);

    // The steps, one training phase after another.
    let scores = loop {
        let scores = run.train_phase()?;
        if run.interrupted() {
            run.log.finish();
            run.check_saved()?;
            return run.report(None, true);
        }
        match phases.next() {
            Some((phase, plans)) => run = run.enter(phase, plans, new_backend)?,
            None => break scores,
        }
    };

    // The end.
    let scores = match scores {
        Some(scores) => scores,
        None => run.evaluate(run.start)?,
    };
    run.log.finish();
    run.save_result()?;
    let mut report = run.report(Some(&scores), false)?;
    let (folder, saved) = (run.folder.clone(), run.check_saved());
    report.show(run.showcase()?);
    report.write(&folder)?;
    saved.map(|()| report)
}

/// The peak before the first training phase.
const NO_PEAK: Peak = Peak {
    planned: 0,
    measured: 0,
};

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
    /// Removes the folder of a new run that fails before its first step.
    guard: Option<NewFolderGuard>,
    log: Log,
    /// Data that the run shares with others.
    shared: SharedData,
    timing: Timing,
    clock: CheckpointClock,
    /// How long the training phase has waited for a better evaluation; none before its first evaluation.
    waiting: Option<Waiting>,
    /// Whether the training phase ends early, since it has waited long enough.
    stopped: bool,
    /// The error of the newest checkpoint, if it could not be saved.
    unsaved: Option<Error>,
    /// The step after which the optimizer's state began: that of the last checkpoint without it, else 0.
    optimizer_since: u64,
    /// Most bytes of states, constants and arena in the training phases before this one.
    peak: Peak,
    phase: PreparedPhase,
    trainer: Trainer,
    /// The functions of the evaluation.
    evaluation: Functions,
    /// The functions that record statistics.
    recordings: Recordings,
    best: Option<Best>,
    /// The memory of this process.
    watch: MemoryWatch,
}

impl Run {
    /// Trains the steps that are left of the training phase; returns its last evaluation, if there was one.
    fn train_phase(&mut self) -> Result<Option<Scores>> {
        self.log.enter(self.phase.task.config().phase.as_deref());
        let train = self.phase.task.config().train.clone();
        let ahead = batches_ahead(train.accumulate);
        let (done, end) = (self.trainer.done(), self.phase.end());
        let mut batches = Prefetch::start(self.phase.sources.training.clone(), self.phase.first_batch(done), ahead)?;
        let mut scores = None;
        for step in done + 1..=end {
            let report = self.step(&mut batches)?;
            if let Some(guard) = self.guard.take() {
                guard.keep();
            }
            if !report.loss.is_finite() {
                return Err(self.no_loss(&report));
            }
            if step == self.start + 1 {
                self.log_memory(step)?;
                // Not sooner, so that a run that fails before leaves its folder unchanged.
                self.folder.remove_after(self.start)?;
            }
            let is_due = |every: u64| step == end || (every > 0 && step.is_multiple_of(every));
            let stops = self.interrupted();
            if is_due(train.eval_every) {
                let new = self.evaluate(step)?;
                self.wait(&new);
                self.log.evaluation(step, &new, self.stopped)?;
                self.log_memory(step)?;
                self.keep_best(step, &new);
                scores = Some(new);
            }
            if is_due(train.checkpoint_every) || stops || self.stopped || self.clock.is_due() {
                self.checkpoint(step)?;
            }
            if stops || self.stopped {
                break;
            }
        }
        Ok(scores)
    }

    /// Whether Ctrl-C stops the run before its end.
    fn interrupted(&self) -> bool {
        let is_over = self.stopped || self.trainer.done() >= self.phase.end();
        interrupt::asked() && !(is_over && self.phase.is_last)
    }

    /// Logs the memory of the process.
    fn log_memory(&mut self, step: u64) -> Result<()> {
        let peak = self.watch.peak(self.peak());
        self.log.memory(step, peak, self.watch.resident())
    }

    /// Goes on to the next training phase, with the parameters and states that both have.
    fn enter(mut self, phase: PreparedPhase, plans: StepPlans, new_backend: NewBackend<'_>) -> Result<Run> {
        let (peak, done) = (self.peak(), self.trainer.done());
        if phase.begun > done {
            self.total -= phase.begun - done;
            self.log.expect(self.total);
        }
        let phase = phase.beginning_after(done, &self.phase);
        let before = StartingPoint::Session(Box::new(self.trainer.into_session()?));
        let (trainer, first) = phase.trainer(new_backend, plans, before)?;
        allocated::give_back();
        let mut run = Run {
            evaluation: phase.evaluation(&trainer),
            recordings: phase.recordings(&trainer),
            peak,
            trainer,
            phase,
            best: None,
            waiting: None,
            stopped: false,
            ..self
        };
        run.announce(&first);
        Ok(run)
    }

    /// Greatest number of bytes of states, constants and arena in this training phase and the phases before it.
    fn peak(&self) -> Peak {
        let (before, now) = (self.peak, self.trainer.peak());
        Peak {
            planned: before.planned.max(now.planned),
            measured: before.measured.max(now.measured),
        }
    }

    /// Trains one step: on the batches that it accumulates, fewer at the end of the last epoch.
    fn step(&mut self, batches: &mut Prefetch) -> Result<StepReport> {
        let made = self.phase.next_batches(self.trainer.done(), batches)?;
        recording::record(self, &made[0])?;
        let report = self.phase.step(&mut self.trainer, &made)?;
        let of = |count: fn(&Batch) -> usize| made.iter().map(count).sum::<usize>();
        let (examples, tokens) = (of(|batch| batch.examples), of(|batch| batch.tokens));
        self.timing.step(report.time, examples, tokens);
        let speed = self.timing.speed(self.phase.task.goal());
        self.log.step(&report, (examples, tokens), &speed)?;
        Ok(report)
    }

    /// Evaluates on the split `dev`.
    fn evaluate(&mut self, step: u64) -> Result<Scores> {
        let (task, dev) = (&self.phase.task, &self.phase.sources.dev);
        let job = (task.model(), task.goal());
        let scores = evaluate(self.trainer.session()?, &mut self.evaluation, job, dev.as_ref())?;
        if scores.loss.is_finite() {
            if let Some(table) = &scores.table {
                self.folder.write(table.file(), &format!("{}\n", table.to_file(step)))?;
            }
            return Ok(scores);
        }
        let loss = name_of(scores.loss);
        Err(self.diverged(step, &format!("after step {step} the loss of the evaluation is {loss}")))
    }
}
