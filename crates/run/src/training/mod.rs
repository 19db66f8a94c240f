//! The training loop: what to train, how, and the steps with evaluations, checkpoints and the report at the end.

pub(crate) mod account;
mod checkpoint_clock;
mod course;
mod divergence;
pub mod interrupt;
mod log;
mod phase_result;
pub(crate) mod planner;
mod progress;
mod recording;
pub mod report;
mod report_page;
mod saving;
pub(crate) mod stage;
mod start;
mod steps;
mod timing;
mod unknown_tokens;
pub(crate) mod work;

pub use self::start::Request;
pub(crate) use self::steps::Steps;
pub(crate) use self::timing::median;

use self::account::Account;
use self::checkpoint_clock::CheckpointClock;
use self::log::Log;
use self::recording::Recordings;
use self::report::{Outcome, Report};
use self::stage::{From, Stage};
use self::start::Start;
use self::timing::Timing;
use self::unknown_tokens::UnknownTokens;
use self::work::batches_ahead;
use crate::device::NewBackend;
use crate::folder::manifest::{Best, DataDigests, Waiting};
use crate::folder::memory::{RunMemory, StageMemory};
use crate::folder::{CONFUSION, Folder, LABELS, NewFolderGuard};
use crate::recipe::phases::{Recipe, in_phase};
use crate::showcase::showcase;
use crate::task::evaluation::{Functions, Scores, evaluate, inputs_of, shape_of};
use crate::task::first_weights::{self, FirstWeights};
use crate::task::reader::Reader;
use crate::wording::{counted, name_of, some_of};
use lessen_base::{Error, Result};
use lessen_data::{Batch, Prefetch};
use lessen_train::{Generator, Part, Peak, StepPlans, StepReport, Trainer, show_size};
use std::sync::Arc;

/// Trains. From the first step on, Ctrl-C stops the run after a step with a checkpoint, in the whole process; sooner,
/// when there is nothing to save, it ends the process.
///
/// # Errors
/// Whatever is wrong with data, checkpoint, settings or folder, before any step; a loss that is no number.
pub fn train(request: &Request, new_backend: NewBackend<'_>) -> Result<Report> {
    let mut account = Account::watch();
    // What to train: all of a new run, or what the newest checkpoint of a run leaves to do; a stage for each phase.
    let start = Start::of(request)?;
    let left = Stage::left(&start, &mut account, new_backend)?;
    if let Some(report) = start.ended(left.total)? {
        return Ok(report);
    }
    let compile_time = left.stages.iter().map(|(_, plans)| plans.compile_time()).sum();
    let memory_of = |(stage, plans): &(Stage, StepPlans)| StageMemory::of(stage.task.config.phase.as_deref(), plans);
    let stages = left.stages.iter().map(memory_of).collect();
    let memory = RunMemory { stages };
    let mut stages = left.stages.into_iter();
    let (stage, plans) = stages.next().ok_or_else(|| Error::internal("a run has no stage"))?;
    let (mut trainer, first) = stage.trainer(|| Ok(left.backend), plans, left.from)?;

    trainer.session()?.reserve()?;

    // Where.
    interrupt::listen()?;
    let (folder, guard) = start.folder()?;
    start.write_settings(&folder)?;
    memory.write(&folder)?;
    let log = Log::open(&folder, start.step(), left.total)?;
    let mut run = Run {
        reader: stage.task.data()?.reader.clone(),
        data: stage.task.data()?.digests()?,
        timing: Timing::new(compile_time, start.spent()),
        clock: CheckpointClock::new(stage.task.config.train.checkpoint_minutes, start.step() > 0),
        waiting: start.waiting().filter(|_| stage.begun < start.step()),
        stopped: false,
        unsaved: None,
        optimizer_since: start.optimizer_since(),
        best: start.best.clone().filter(|best| best.phase == stage.task.config.phase),
        start: start.step(),
        total: left.total,
        peak: NO_PEAK,
        recipe: start.recipe,
        evaluation: stage.evaluation(&trainer),
        recordings: stage.recordings(&trainer),
        stage,
        trainer,
        folder,
        guard,
        log,
        account,
    };
    run.announce(&first);

    // The steps, stage by stage.
    let scores = loop {
        let scores = run.train_stage()?;
        if run.interrupted() {
            run.log.finish();
            run.check_saved()?;
            return run.report(None, true);
        }
        match stages.next() {
            Some((stage, plans)) => run = run.enter(stage, plans, new_backend)?,
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

/// The peak of no stage.
const NO_PEAK: Peak = Peak {
    planned: 0,
    measured: 0,
};

/// A run under way, in one of its stages.
struct Run {
    recipe: Recipe,
    /// Steps that were done before this process began.
    start: u64,
    /// Steps in all.
    total: u64,
    reader: Arc<Reader>,
    data: DataDigests,
    folder: Folder,
    /// Of a new run, until its first step.
    guard: Option<NewFolderGuard>,
    log: Log,
    timing: Timing,
    clock: CheckpointClock,
    /// How long the stage has waited for a better evaluation, after the first one.
    waiting: Option<Waiting>,
    /// Whether it has waited long enough.
    stopped: bool,
    /// Why the newest checkpoint could not be saved, if it could not.
    unsaved: Option<Error>,
    /// The step after which the optimizer began, where it did not go on from a checkpoint.
    optimizer_since: u64,
    /// The most bytes of states, constants and arena in the stages before this one.
    peak: Peak,
    stage: Stage,
    trainer: Trainer,
    /// The functions of the evaluation.
    evaluation: Functions,
    /// The functions that record statistics.
    recordings: Recordings,
    best: Option<Best>,
    /// The memory of this process.
    account: Account,
}

impl Run {
    /// The steps that are left of the stage; its last evaluation, if there was one.
    fn train_stage(&mut self) -> Result<Option<Scores>> {
        self.log.enter(self.stage.task.config.phase.as_deref());
        let train = self.stage.task.config.train.clone();
        let ahead = batches_ahead(train.accumulate);
        let (done, end) = (self.trainer.done(), self.stage.end());
        let mut batches = Prefetch::start(self.stage.sources.training.clone(), self.stage.first_batch(done), ahead)?;
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
                // Not sooner: a run that fails before leaves everything as it was.
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

    /// Whether the run is to stop before its end.
    fn interrupted(&self) -> bool {
        let is_over = self.stopped || self.trainer.done() >= self.stage.end();
        interrupt::asked() && !(is_over && self.stage.is_last)
    }

    /// Logs what the process has taken by now.
    fn log_memory(&mut self, step: u64) -> Result<()> {
        let peak = self.account.peak(self.peak());
        self.log.memory(step, peak, self.account.resident())
    }

    /// Goes on to the next stage, with the parameters and states that stay.
    fn enter(mut self, stage: Stage, plans: StepPlans, new_backend: NewBackend<'_>) -> Result<Run> {
        let (peak, done) = (self.peak(), self.trainer.done());
        if stage.begun > done {
            self.total -= stage.begun - done;
            self.log.expect(self.total);
        }
        let stage = stage.beginning_after(done, &self.stage);
        let before = From::Before(Box::new(self.trainer.into_session()?));
        let (trainer, first) = stage.trainer(new_backend, plans, before)?;
        let mut run = Run {
            evaluation: stage.evaluation(&trainer),
            recordings: stage.recordings(&trainer),
            peak,
            trainer,
            stage,
            best: None,
            waiting: None,
            stopped: false,
            ..self
        };
        run.announce(&first);
        Ok(run)
    }

    /// The most bytes of states, constants and arena in this stage and those before it.
    fn peak(&self) -> Peak {
        let (before, now) = (self.peak, self.trainer.peak());
        Peak {
            planned: before.planned.max(now.planned),
            measured: before.measured.max(now.measured),
        }
    }

    /// Says what is about to be trained, and where it differs from the checkpoint to start from, or from the stage
    /// before.
    fn announce(&mut self, first: &FirstWeights) {
        let parameters = self.trainer.params().iter().filter(|param| !param.is_buffer);
        let count: usize = parameters.map(|param| param.shape.iter().product::<usize>()).sum();
        let phase = self.stage.task.config.phase.as_deref();
        let phase_name = phase.map_or(String::new(), |name| format!(", {}", in_phase(name)));
        let trained = self.trainer.params().iter().filter(|param| self.trainer.trains(param));
        let trained: usize = trained.map(|param| param.shape.iter().product::<usize>()).sum();
        let trained = match trained == count {
            true => String::new(),
            false => format!(" ({trained} trained)"),
        };
        self.log.report(&format!(
            "{}{phase_name}: {} with {count} parameters{trained}, {}, peak memory {}, in {}",
            self.recipe.name(),
            self.stage.task.model.architecture().name(),
            counted(self.stage.steps.total, "step"),
            show_size(self.account.peak(self.peak()).planned),
            self.folder.root().display()
        ));
        if self.stage.begun == 0
            && let Ok(data) = self.stage.task.data()
        {
            data.corpus().remarks().iter().for_each(|remark| self.log.note(remark));
            let unknown = UnknownTokens::of(&self.stage.sources).remark();
            unknown.iter().for_each(|remark| self.log.note(remark));
            if self.trainer.widens_bf16() {
                self.log.note(
                    "warning: train.precision is bf16, which this device has no instructions for: products widen it, which \
                     takes longer than train.precision=f32",
                );
            }
        }
        let before = match self.stage.begun {
            0 => "the checkpoint",
            _ => "the phase before",
        };
        if !first.drawn.is_empty() {
            let drawn: Vec<String> = first.drawn.iter().map(first_weights::show).collect();
            let drawn = some_of(&drawn);
            self.log
                .note(&format!("{before} has no {drawn}; starting with new ones"));
        }
        if !first.grown.is_empty() {
            let (tokens, grown) = (self.stage.task.model.vocab_size(), some_of(&first.grown));
            self.log.note(&format!(
                "the tokenizer has more tokens, {tokens}, than {before}; their rows of {grown} are new"
            ));
        }
        if let Some(unused) = first.unused.first() {
            let tensors = counted(first.unused.len() as u64, "tensor");
            self.log.note(&format!(
                "the model has no use for {tensors} of {before}, such as {unused}; left out"
            ));
        }
    }

    /// One step, on as many batches as are accumulated, or as are left of the last epoch.
    fn step(&mut self, batches: &mut Prefetch) -> Result<StepReport> {
        let done = self.trainer.done() - self.stage.begun;
        let count = self.stage.steps.batches_after(done, &self.stage.task.config.train);
        let made: Vec<Batch> = (0..count).map(|_| batches.next_batch()).collect::<Result<_>>()?;
        let inputs: Vec<_> = made.iter().map(inputs_of).collect();
        recording::record(self, &made[0])?;
        let (task, goal) = (&self.stage.task, &self.stage.task.goal);
        let weights: Vec<f64> = made
            .iter()
            .map(|batch| task.fine_tuning.weight_of(goal, batch))
            .collect();
        let whole: f64 = weights.iter().sum();
        let whole = if whole > 0.0 { whole } else { 1.0 };
        let mut parts = Vec::with_capacity(made.len());
        for ((batch, inputs), weight) in made.iter().zip(&inputs).zip(weights) {
            let shape = shape_of(batch);
            self.trainer.add_step(shape, |cx| task.loss(cx, shape))?;
            let share = if made.len() == 1 { 1.0 } else { (weight / whole) as f32 };
            parts.push(Part::new(share, inputs).at(shape));
        }
        let report = self.trainer.step_on(&parts)?;
        let of = |count: fn(&Batch) -> usize| made.iter().map(count).sum::<usize>();
        let (examples, tokens) = (of(|batch| batch.examples), of(|batch| batch.tokens));
        self.timing.step(report.time, examples, tokens);
        self.log.step(&report, (examples, tokens), &self.timing.speed(goal))?;
        Ok(report)
    }

    /// Evaluates on the split `dev`.
    fn evaluate(&mut self, step: u64) -> Result<Scores> {
        let (task, dev) = (&self.stage.task, &self.stage.sources.dev);
        let job = (&task.model, &task.goal);
        let scores = evaluate(self.trainer.session()?, &mut self.evaluation, job, dev.as_ref())?;
        if scores.loss.is_finite() {
            if let Some(confusion) = scores.confusion_json(step) {
                self.folder.write(CONFUSION, &format!("{confusion}\n"))?;
            }
            if let Some(labels) = scores.labels_json(step) {
                self.folder.write(LABELS, &format!("{labels}\n"))?;
            }
            return Ok(scores);
        }
        let loss = name_of(scores.loss);
        Err(self.diverged(step, &format!("after step {step} the loss of the evaluation is {loss}")))
    }

    /// What the model that the run results in does; its trainer ends.
    fn showcase(self) -> Result<Vec<String>> {
        let (task, seed) = (&self.stage.task, self.stage.task.config.train.seed);
        let best = self.yields_best().then(|| self.folder.model());
        let trainer = self.trainer;
        let generator = |most| {
            let parameters = task.model.parameters();
            let (mut session, _) = trainer.finish()?.with_params(parameters.clone(), &[])?;
            if let Some(dir) = best {
                first_weights::read(&mut session, &parameters, (&dir).into(), &|_| false, None)?;
            }
            first_weights::convert_norms(&mut session, &task.model)?;
            Generator::new(session, &task.model, most)
        };
        showcase(
            &task.goal,
            &self.reader,
            self.stage.sources.dev.as_ref(),
            seed,
            generator,
        )
    }

    fn report(&self, scores: Option<&Scores>, interrupted: bool) -> Result<Report> {
        Report::new(&Outcome {
            recipe: &self.recipe,
            goal: &self.stage.task.goal,
            folder: &self.folder,
            done: self.trainer.done(),
            total: self.total,
            scores,
            unknown_tokens: UnknownTokens::of(&self.stage.sources).to_json(),
            best: self.best.as_ref(),
            yields_best: self.yields_best(),
            spent: self.spent(),
            plans: self.account.plans,
            parts: self.account.parts,
            session: self.account.peak(self.peak()),
            resident: self.account.resident(),
            interrupted,
            stopped: self.stopped && self.stage.is_last,
        })
    }
}
