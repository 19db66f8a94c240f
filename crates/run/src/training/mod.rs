//! The training loop: what to train, how, and the steps with evaluations, checkpoints and the report at the end.

pub mod interrupt;
mod log;
mod progress;
mod recording;
pub mod report;
mod start;
mod steps;
mod timing;

pub use self::start::Request;

use self::log::Log;
use self::report::{Outcome, Report};
use self::start::Start;
use self::steps::Steps;
use self::timing::Timing;
use crate::device::NewBackend;
use crate::folder::Folder;
use crate::folder::manifest::{Best, DataDigests, Manifest, write_best};
use crate::showcase::showcase;
use crate::task::evaluation::{Scores, evaluate, inputs_of};
use crate::task::model::{self, FirstWeights};
use crate::task::{RunTask, SavedModel};
use crate::wording::{counted, name_of};
use lessen_base::atomic::write_folder;
use lessen_base::{Error, Result};
use lessen_data::{Batch, Prefetch, Source, Tokenizer};
use lessen_train::{Generator, Inputs, StepPlans, StepReport, Trainer, show_size};
use std::path::Path;
use std::sync::Arc;

/// Most batches that are made ahead.
const AHEAD: usize = 256;

/// Trains. From the first step on, Ctrl-C stops the run after a step with a checkpoint, in the whole process; sooner,
/// when there is nothing to save, it ends the process.
///
/// # Errors
/// Whatever is wrong with data, checkpoint, settings or folder, before any step; a loss that is no number.
pub fn train(request: &Request, new_backend: NewBackend<'_>) -> Result<Report> {
    // What to train: all of a new run, or what the newest checkpoint of a run leaves to do.
    let start = Start::of(request)?;
    let saved = start.saved().map(|dir| SavedModel::read(&start.config, dir));
    let task = RunTask::assemble(start.config.clone(), saved.transpose()?)?;
    let corpus = task.data()?.corpus();
    let data = corpus.digests();
    start.check_data(data, corpus.unit())?;
    let (training, dev) = (task.training()?, task.evaluation("dev")?);
    let steps = Steps::of(&task.config.train, training.as_ref());
    start.check_steps(steps)?;

    // How: the plans of step and evaluation, and the parameters.
    let options = task.options(steps.total);
    let backend = new_backend()?;
    let plans = StepPlans::new(backend.as_ref(), &options, &task.graphs(&options)?)?;
    plans.check_memory()?;
    let compile_time = plans.compile_time();
    let mut first = task.first_weights()?;
    let mut trainer = Trainer::from_plans(backend, options, plans, &first.weights)?;
    first.weights.clear();
    if let (Some(name), Some(dir)) = (trainer.broken_parameter()?, task.source_of_weights()) {
        return Err(Error::user(format!(
            "the tensor {name} of the checkpoint {} has values that are no numbers or infinite; start from a sound one",
            dir.display()
        )));
    }
    if let Some(states) = start.states()? {
        trainer.resume(start.step(), &states)?;
    }

    // Where.
    interrupt::listen()?;
    let (folder, mut guard) = start.folder()?;
    folder.write_settings(&task.config.settings)?;
    let log = Log::open(&folder, start.step(), steps.total)?;
    let mut run = Run {
        tokenizer: task.data()?.tokenizer.clone(),
        timing: Timing::new(compile_time),
        best: start.best,
        task,
        steps,
        data,
        trainer,
        dev,
        folder,
        log,
    };
    run.announce(&first);

    // The loop.
    let train = run.task.config.train.clone();
    let ahead = (2 * train.accumulate).min(AHEAD);
    let mut batches = Prefetch::start(training, start.step() * train.accumulate as u64, ahead)?;
    let mut scores = None;
    for step in start.step() + 1..=steps.total {
        let report = run.step(&mut batches)?;
        if let Some(guard) = guard.take() {
            guard.keep();
        }
        if !report.loss.is_finite() {
            return Err(run.no_loss(&report));
        }
        if step == start.step() + 1 {
            // Not sooner: a run that fails before leaves everything as it was.
            run.folder.remove_after(start.step())?;
        }
        let is_due = |every: u64| step == steps.total || (every > 0 && step.is_multiple_of(every));
        let interrupted = interrupt::asked() && step < steps.total;
        if is_due(train.eval_every) {
            let new = run.evaluate(step)?;
            run.log.evaluation(step, &new)?;
            run.keep_best(step, &new)?;
            scores = Some(new);
        }
        if is_due(train.checkpoint_every) || interrupted {
            run.save_checkpoint(step)?;
        }
        if interrupted {
            run.log.finish();
            return run.report(None, true);
        }
    }

    // The end.
    let scores = match scores {
        Some(scores) => scores,
        None => run.evaluate(start.step())?,
    };
    run.log.finish();
    run.save_model(&run.folder.model(), None)?;
    let mut report = run.report(Some(&scores), false)?;
    let weights = run.trainer.weights()?;
    let Run {
        task,
        tokenizer,
        trainer,
        dev,
        folder,
        ..
    } = run;
    drop(trainer);
    let generator = |most| Generator::new(new_backend()?, &task.model, &weights, most);
    report.show(showcase(&task.goal, &tokenizer, dev.as_ref(), train.seed, generator)?);
    report.write(&folder)?;
    Ok(report)
}

/// A run under way.
struct Run {
    task: RunTask,
    steps: Steps,
    tokenizer: Tokenizer,
    data: DataDigests,
    trainer: Trainer,
    dev: Arc<dyn Source>,
    folder: Folder,
    best: Option<Best>,
    log: Log,
    timing: Timing,
}

impl Run {
    /// Says what is about to be trained, and where it differs from the checkpoint to start from.
    fn announce(&self, first: &FirstWeights) {
        let shapes = self.trainer.params().iter().map(|param| &param.shape);
        let count: usize = shapes.map(|shape| shape.iter().product::<usize>()).sum();
        self.log.note(&format!(
            "{}: {} with {count} parameters, {}, peak memory {}, in {}",
            self.task.config.recipe(),
            self.task.model.architecture().name(),
            counted(self.steps.total, "step"),
            show_size(self.trainer.peak().planned),
            self.folder.root().display()
        ));
        if !first.drawn.is_empty() {
            let drawn = first.drawn.join(", ");
            self.log
                .note(&format!("the checkpoint has no {drawn}; starting with new ones"));
        }
        if let Some(unused) = first.unused.first() {
            let tensors = counted(first.unused.len() as u64, "tensor");
            self.log.note(&format!(
                "the model has no use for {tensors} of the checkpoint, such as {unused}; left out"
            ));
        }
    }

    /// One step, on as many batches as are accumulated, or as are left of the last epoch.
    fn step(&mut self, batches: &mut Prefetch) -> Result<StepReport> {
        let count = self.steps.batches_after(self.trainer.done(), &self.task.config.train);
        let made: Vec<Batch> = (0..count).map(|_| batches.next_batch()).collect::<Result<_>>()?;
        let inputs: Vec<_> = made.iter().map(inputs_of).collect();
        recording::record(self, &inputs[0])?;
        let (goal, train) = (&self.task.goal, &self.task.config.train);
        let weights: Vec<f64> = made.iter().map(|batch| goal.weight_of(batch)).collect();
        let whole: f64 = weights.iter().sum::<f64>().max(1.0);
        let report = if train.accumulate == 1 {
            self.trainer.step(&inputs[0])?
        } else {
            let shares = weights.iter().map(|weight| (weight / whole) as f32);
            let shares: Vec<(f32, &Inputs<'_>)> = shares.zip(inputs.iter().map(|inputs| &inputs[..])).collect();
            self.trainer.step_on(&shares)?
        };
        let of = |count: fn(&Batch) -> usize| made.iter().map(count).sum::<usize>();
        self.timing
            .step(report.time, of(|batch| batch.examples), of(|batch| batch.tokens));
        self.log.step(&report, &self.timing.speed(goal))?;
        Ok(report)
    }

    /// Evaluates on the split `dev`.
    fn evaluate(&mut self, step: u64) -> Result<Scores> {
        let function = self.trainer.functions()[0];
        let scores = evaluate(self.trainer.session(), function, self.dev.as_ref(), &self.task.goal)?;
        if scores.loss.is_finite() {
            return Ok(scores);
        }
        let loss = name_of(scores.loss);
        Err(self.diverged(step, &format!("after step {step} the loss of the evaluation is {loss}")))
    }

    /// Saves the model as the best one, if it is.
    fn keep_best(&mut self, step: u64, scores: &Scores) -> Result<()> {
        let score = scores.deciding();
        if self.best.is_none_or(|best| score > best.score) {
            let best = Best { step, score };
            self.save_model(&self.folder.best(), Some(best))?;
            self.best = Some(best);
        }
        Ok(())
    }

    fn save_checkpoint(&self, step: u64) -> Result<()> {
        if let Some(name) = self.trainer.broken_parameter()? {
            return Err(self.diverged(step, &format!("after step {step} the parameter {name} is not finite")));
        }
        self.log.sync()?;
        let (weights, states) = (self.trainer.weights()?, self.trainer.state()?);
        let manifest = Manifest::new(step, self.steps.total, self.data);
        let fill = |aside: &Path| model::save(aside, &self.task.model, &weights, &self.tokenizer);
        self.folder.checkpoints().save(manifest, &states, fill)
    }

    /// Saves model and tokenizer, and the evaluation that they are the best of, if they are.
    fn save_model(&self, dir: &Path, best: Option<Best>) -> Result<()> {
        let weights = self.trainer.weights()?;
        write_folder(dir, |aside| {
            model::save(aside, &self.task.model, &weights, &self.tokenizer)?;
            best.map_or(Ok(()), |best| write_best(aside, best))
        })
    }

    /// The error of a step without a finite loss. Going on from the parameters before it would lead there again.
    fn no_loss(&self, report: &StepReport) -> Error {
        if let Err(error) = self.folder.checkpoints().remove_bad(report.step - 1) {
            self.log.note(&format!("warning: {error}"));
        }
        let loss = name_of(report.loss.into());
        self.diverged(report.step - 1, &format!("the loss of step {} is {loss}", report.step))
    }

    /// The error of the parameters after `step` steps, which gave no finite number. All checkpoints before them gave
    /// finite losses.
    fn diverged(&self, step: u64, what: &str) -> Error {
        let whole_before = |step| {
            let newest = self.folder.checkpoints().newest_before(step);
            newest.ok().and_then(|newest| newest.whole)
        };
        let (good, how) = match (whole_before(step), whole_before(step + 1)) {
            (Some((path, _)), _) => {
                let good = format!("{} is the last good checkpoint", path.display());
                (good, "go on with --resume")
            }
            (None, Some((path, _))) => {
                let only = format!("{}, the only checkpoint, leads there and is kept", path.display());
                (only, "start another run with another --out")
            }
            (None, None) => {
                let none = "there is no good checkpoint before it".to_string();
                (none, "go on with --resume")
            }
        };
        let place = self.task.config.place("train.lr");
        Error::user(format!(
            "{what}; {good}; lower {place} or clip the gradient with train.clip_norm, and {how}"
        ))
    }

    fn report(&self, scores: Option<&Scores>, interrupted: bool) -> Result<Report> {
        Report::new(&Outcome {
            recipe: self.task.config.recipe(),
            goal: &self.task.goal,
            folder: &self.folder,
            done: self.trainer.done(),
            total: self.steps.total,
            scores,
            best: self.best,
            timing: &self.timing,
            peak: self.trainer.peak(),
            interrupted,
        })
    }
}
