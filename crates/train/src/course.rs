//! The course of a run: steps, evaluations, checkpoints, interruption, and the report at the end.

use crate::evaluate::{Scores, evaluate, inputs_of, weight_of};
use crate::events::Events;
use crate::finished::name_of;
use crate::folder::{Folder, Newest, Unbegun};
use crate::inference::{Function, Inputs};
use crate::interrupt;
use crate::metrics::Metrics;
use crate::model::{self, FirstWeights};
use crate::prepared::Prepared;
use crate::progress::{Progress, counted};
use crate::report::{Facts, Report, Timing};
use crate::saved::{Best, DataDigest, write_best};
use crate::showcase;
use crate::trainer::{StepReport, Trainer};
use lessen_base::atomic::write_folder;
use lessen_base::{Error, Result};
use lessen_data::{Batch, Prefetch, Source, Tokenizer};
use serde_json::{Map, json};
use std::path::Path;
use std::sync::Arc;

/// Most batches that are made ahead.
const AHEAD: usize = 256;

/// A run that is under way.
pub(crate) struct Run {
    pub prepared: Prepared,
    /// Batches in all.
    pub batches: u64,
    pub tokenizer: Tokenizer,
    /// What the training data is known by.
    pub data: DataDigest,
    pub folder: Folder,
    /// Until the first step of a new run.
    pub unbegun: Option<Unbegun>,
    pub trainer: Trainer,
    pub function: Function,
    pub dev: Arc<dyn Source>,
    pub best: Option<Best>,
    pub metrics: Metrics,
    pub events: Events,
    pub progress: Progress,
    pub timing: Timing,
}

impl Run {
    /// Says what is about to be trained, and where it differs from the checkpoint to start from.
    pub fn announce(&self, first: &FirstWeights) {
        let Prepared {
            config, model, total, ..
        } = &self.prepared;
        let count: usize = self
            .trainer
            .params()
            .iter()
            .map(|p| p.shape.iter().product::<usize>())
            .sum();
        let peak = crate::show_size(self.trainer.peak().planned);
        self.progress.note(&format!(
            "{}: {} with {count} parameters, {}, peak memory {peak}, in {}",
            config.recipe,
            model.architecture().name(),
            counted(*total, "step"),
            self.folder.root().display()
        ));
        if !first.drawn.is_empty() {
            let drawn = first.drawn.join(", ");
            self.progress
                .note(&format!("the checkpoint has no {drawn}; starting with new ones"));
        }
        if let Some(unused) = first.unused.first() {
            let tensors = counted(first.unused.len() as u64, "tensor");
            self.progress.note(&format!(
                "the model has no use for {tensors} of the checkpoint, such as {unused}; left out"
            ));
        }
    }

    /// Trains from step `start` on.
    pub fn go(mut self, source: Arc<dyn Source>, start: u64) -> Result<Report> {
        let (total, accumulate) = (self.prepared.total, self.prepared.config.train.accumulate);
        let (eval_every, checkpoint_every) = (
            self.prepared.config.train.eval_every,
            self.prepared.config.train.checkpoint_every,
        );
        let ahead = (2 * accumulate).min(AHEAD);
        let mut batches = Prefetch::start(source, start * accumulate as u64, ahead)?;
        let mut scores = None;
        for step in start + 1..=total {
            self.step(&mut batches)?;
            if step == start + 1 {
                // Not sooner: a run that fails before leaves everything as it was.
                self.folder.go_back(start)?;
            }
            let due = |every: u64| step == total || (every > 0 && step.is_multiple_of(every));
            let interrupted = interrupt::asked() && step < total;
            if due(eval_every) {
                scores = Some(self.evaluate(step, true)?);
            }
            if due(checkpoint_every) || interrupted {
                self.save(step)?;
            }
            if interrupted {
                self.progress.finish();
                return self.report(None, true);
            }
        }
        let scores = match scores.filter(|_| start < total) {
            Some(scores) => scores,
            None => self.evaluate(total.max(start), false)?,
        };
        self.progress.finish();
        self.save_model(&self.folder.model(), None)?;
        let mut report = self.report(Some(&scores), false)?;
        let weights = self.trainer.weights();
        let Run {
            prepared,
            tokenizer,
            folder,
            trainer,
            dev,
            ..
        } = self;
        drop(trainer);
        report.show(showcase::show(&prepared, &tokenizer, dev.as_ref(), &weights)?);
        report.write(&folder)?;
        Ok(report)
    }

    /// One step, on as many batches as are accumulated, or as are left of the last epoch.
    fn step(&mut self, batches: &mut Prefetch) -> Result<()> {
        let goal = &self.prepared.goal;
        let accumulate = self.prepared.config.train.accumulate as u64;
        let left = self.batches.saturating_sub(self.trainer.done() * accumulate);
        let made: Vec<Batch> = (0..left.min(accumulate))
            .map(|_| Ok(batches.next_batch()?))
            .collect::<Result<_>>()?;
        let weights: Vec<f64> = made.iter().map(|batch| weight_of(batch, goal)).collect();
        let whole: f64 = weights.iter().sum::<f64>().max(1.0);
        let inputs: Vec<_> = made.iter().map(inputs_of).collect();
        let shares: Vec<(f32, &Inputs<'_>)> = weights
            .iter()
            .zip(&inputs)
            .map(|(weight, inputs)| ((weight / whole) as f32, &inputs[..]))
            .collect();
        let report = if accumulate == 1 {
            self.trainer.step(&inputs[0])?
        } else {
            self.trainer.step_on(&shares)?
        };
        if let Some(unbegun) = self.unbegun.take() {
            unbegun.begin();
        }
        let of = |count: fn(&Batch) -> usize| made.iter().map(count).sum::<usize>();
        self.timing
            .step(report.time, of(|batch| batch.examples), of(|batch| batch.tokens));
        let speed = self.timing.speed(goal);
        self.log(&report)?;
        self.progress.step(report.step, report.loss, &speed);
        if report.loss.is_finite() {
            Ok(())
        } else {
            // Who went on from these parameters would come to this loss again.
            if let Err(error) = self.folder.remove_checkpoint(report.step - 1) {
                self.progress.note(&format!("warning: {error}"));
            }
            let what = format!(
                "the loss of step {} is {}",
                report.step,
                name_of(report.loss.into())
            );
            Err(self.diverged(report.step - 1, &what))
        }
    }

    fn log(&mut self, report: &StepReport) -> Result<()> {
        let mut line = Map::new();
        line.insert("step".into(), json!(report.step));
        line.insert("loss".into(), json!(report.loss));
        line.insert("lr".into(), json!(report.lr));
        let mut scalars = vec![("train/loss", f64::from(report.loss)), ("train/lr", report.lr)];
        if let Some(norm) = report.gradient_norm {
            line.insert("gradient_norm".into(), json!(norm));
            scalars.push(("train/gradient_norm", f64::from(norm)));
        }
        line.insert("step_ms".into(), json!(report.time.as_secs_f64() * 1e3));
        self.metrics.write(&line.into())?;
        self.events.scalars(report.step, &scalars)
    }

    /// The error of the parameters after `step` steps, which gave no finite number. All checkpoints before them gave
    /// finite losses.
    fn diverged(&self, step: u64, what: &str) -> Error {
        let good = match self.folder.newest_before(step) {
            Ok(Newest {
                whole: Some((path, _)),
                ..
            }) => format!("{} is the last good checkpoint", path.display()),
            _ => "there is no good checkpoint before it".to_string(),
        };
        let place = self.prepared.config.place("train.lr");
        Error::user(format!(
            "{what}; {good}; lower {place} or clip the gradient with train.clip_norm, and go on with --resume"
        ))
    }

    fn evaluate(&mut self, step: u64, log: bool) -> Result<Scores> {
        let scores = evaluate(
            &mut self.trainer,
            &mut self.function,
            self.dev.as_ref(),
            &self.prepared.goal,
        )?;
        if !scores.loss.is_finite() {
            let what = format!(
                "after step {step} the loss of the evaluation is {}",
                name_of(scores.loss)
            );
            return Err(self.diverged(step, &what));
        }
        if !log {
            return Ok(scores);
        }
        let mut line = scores.to_json("dev");
        let tags: Vec<(String, f64)> = line
            .iter()
            .filter_map(|(name, value)| Some((name.replacen('_', "/", 1), value.as_f64()?)))
            .collect();
        let tags: Vec<(&str, f64)> = tags.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.events.scalars(step, &tags)?;
        line.insert("step".into(), json!(step));
        self.metrics.write(&line.into())?;
        self.progress.note(&format!("step {step}: dev {}", scores.show()));
        let score = scores.deciding();
        if self.best.is_none_or(|best| score > best.score) {
            let best = Best { step, score };
            self.save_model(&self.folder.best(), Some(best))?;
            self.best = Some(best);
        }
        Ok(scores)
    }

    fn save(&mut self, step: u64) -> Result<()> {
        if let Some(name) = self.trainer.broken_parameter() {
            return Err(self.diverged(
                step,
                &format!("after step {step} the parameter {name} is not finite"),
            ));
        }
        self.metrics.sync()?;
        let weights = self.trainer.weights();
        let fill = |aside: &Path| model::save(aside, &self.prepared.model, &weights, &self.tokenizer);
        self.folder
            .save_checkpoint(step, self.data, &self.trainer.state(), fill)?;
        Ok(())
    }

    /// Saves model and tokenizer, and the evaluation that they are the best of, if they are.
    fn save_model(&self, dir: &Path, best: Option<Best>) -> Result<()> {
        let weights = self.trainer.weights();
        write_folder(dir, |aside| {
            model::save(aside, &self.prepared.model, &weights, &self.tokenizer)?;
            best.map_or(Ok(()), |best| write_best(aside, best))
        })
    }

    fn report(&self, scores: Option<&Scores>, interrupted: bool) -> Result<Report> {
        Report::new(&Facts {
            prepared: &self.prepared,
            folder: &self.folder,
            steps: self.trainer.done(),
            scores,
            best: self.best,
            timing: &self.timing,
            peak: self.trainer.peak(),
            interrupted,
        })
    }
}
