//! A run from its first to its last step: evaluation, checkpoints, resume, interruption, report.

use crate::config::Config;
use crate::corpus::Corpus;
use crate::durable::write_folder;
use crate::error::{Error, Result};
use crate::evaluate::{self, Scores, evaluate, inputs_of, weight_of};
use crate::events::Events;
pub use crate::finished::read_config;
use crate::finished::{config_text, device};
use crate::folder::{Folder, Newest};
use crate::inference::{Function, Inputs};
use crate::interrupt;
use crate::metrics::Metrics;
use crate::model::{self, Sizes};
use crate::plans::StepPlans;
use crate::prepared::Prepared;
use crate::progress::Progress;
use crate::report::{Facts, Report, Timing};
use crate::resume::{Resumed, reopen};
use crate::saved::{self, Best};
use crate::settings::Settings;
use crate::showcase;
use crate::trainer::{StepReport, Trainer};
use lessen_data::{Batch, Prefetch, Source, Tokenizer};
use lessen_nn::{BatchShape, Model, Weights, checkpoint};
use serde_json::{Map, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to train and where.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of the recipe.
    pub recipe: String,
    /// Its settings.
    pub settings: Settings,
    /// The run's folder.
    pub out: PathBuf,
    /// Whether to go on with the run that is in the folder.
    pub resume: bool,
    /// Most bytes that parameters, optimizer and steps may take.
    pub budget: Option<usize>,
}

/// Trains.
///
/// # Errors
/// Whatever is wrong with data, checkpoint, settings or folder, before any step; a loss that is no number.
pub fn train(request: &Request) -> Result<Report> {
    let request = &Request {
        settings: request.settings.clone().with_whole_paths(),
        ..request.clone()
    };
    let resumed = match request.resume {
        true => Some(reopen(request)?),
        false => {
            Folder::check_free(&request.out)?;
            None
        }
    };
    let config = Config::new(&request.recipe, request.settings.clone())?;
    let corpus = Corpus::read(&config)?;
    let from = resumed.as_ref().and_then(|(_, from)| from.as_ref());
    let tokenizer = match from {
        Some(from) => Tokenizer::from_dir(&from.dir)?,
        None => corpus.tokenizer(&config)?,
    };
    let goal = corpus.goal();
    let length = corpus.length(&config);
    let sizes = Sizes {
        vocab: tokenizer.vocab_size(),
        pad: tokenizer.pad_id(),
        length,
    };
    let mut model = match from {
        Some(from) => Model::from_dir(&from.dir)?,
        None => model::build(&config, &goal, sizes)?,
    };
    if let Some(dropout) = config.model.dropout {
        model.set_dropout(dropout);
    }
    let shape = BatchShape {
        size: config.train.batch,
        length,
    };
    let mut prepared = Prepared {
        config,
        goal,
        model,
        shape,
        total: 0,
    };
    prepared.check_extent()?;
    let source = corpus.training(&prepared.config, &tokenizer)?;
    let dev = corpus.evaluation(&prepared.config, &tokenizer, "dev")?;
    prepared.total = total_steps(&prepared.config, source.as_ref());

    let options = prepared.options(request.budget);
    let device = device()?;
    let plans = StepPlans::of(&device, &options, |cx| prepared.model.forward(cx, shape).loss)?;
    let compile_time = plans.compile_time();
    plans.check_memory()?;
    let (weights, drawn) = first_weights(&prepared, from)?;
    let mut trainer = Trainer::from_plans(device, options, plans, &weights)?;
    drop(weights);
    let function = trainer.function(|cx| evaluate::trace(cx, &prepared.model, &prepared.goal, shape))?;

    let folder = match resumed.as_ref() {
        Some((folder, _)) => folder.clone(),
        None => Folder::create(&request.out)?,
    };
    folder.write(
        "config.toml",
        &config_text(&prepared.config.recipe, &prepared.config.settings),
    )?;
    let start = from.map_or(0, |from| from.manifest.step);
    if let Some(from) = from {
        trainer.resume(start, &saved::state(&from.dir)?)?;
    }
    let best = from.and_then(|from| from.manifest.best);
    let metrics = Metrics::open(&folder.metrics(), start)?;
    let events = Events::create(folder.root(), start)?;
    let progress = Progress::new(prepared.total, start);
    let timing = Timing::new(compile_time);
    let run = Run {
        prepared,
        tokenizer,
        folder,
        trainer,
        function,
        dev,
        best,
        metrics,
        events,
        progress,
        timing,
    };
    run.announce(from, &drawn);
    run.go(source, start)
}

fn first_weights(prepared: &Prepared, from: Option<&Resumed>) -> Result<(Weights, Vec<String>)> {
    match from {
        Some(from) => {
            let loaded = checkpoint::load(&from.dir, &prepared.model.parameters(), &|_| false)?;
            Ok((loaded.weights, Vec::new()))
        }
        None => {
            let model = &prepared.config.model;
            model::first_weights(&prepared.model, model.init.as_deref(), prepared.config.train.seed)
        }
    }
}

/// Steps of a run: as many as are asked for, or as the epochs take.
fn total_steps(config: &Config, source: &dyn Source) -> u64 {
    let train = &config.train;
    match train.steps {
        0 => train
            .epochs
            .saturating_mul(source.batches_per_epoch())
            .div_ceil(train.accumulate as u64),
        steps => steps,
    }
}

/// A run that is under way.
struct Run {
    prepared: Prepared,
    tokenizer: Tokenizer,
    folder: Folder,
    trainer: Trainer,
    function: Function,
    dev: Arc<dyn Source>,
    best: Option<Best>,
    metrics: Metrics,
    events: Events,
    progress: Progress,
    timing: Timing,
}

impl Run {
    fn announce(&self, from: Option<&Resumed>, drawn: &[String]) {
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
            "{}: {} with {count} parameters, {total} steps, peak memory {peak}, in {}",
            config.recipe,
            model.architecture().name(),
            self.folder.root().display()
        ));
        if from.is_none() && !drawn.is_empty() {
            self.progress.note(&format!(
                "the checkpoint has no {}; starting with new ones",
                drawn.join(", ")
            ));
        }
    }

    fn go(mut self, source: Arc<dyn Source>, start: u64) -> Result<Report> {
        let (total, accumulate) = (self.prepared.total, self.prepared.config.train.accumulate);
        let (eval_every, checkpoint_every) = (
            self.prepared.config.train.eval_every,
            self.prepared.config.train.checkpoint_every,
        );
        let mut batches = Prefetch::start(source, start * accumulate as u64, 2 * accumulate)?;
        let mut scores = None;
        for step in start + 1..=total {
            self.step(&mut batches, accumulate)?;
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
        self.save_model(&self.folder.model())?;
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

    /// One step, on as many batches as are accumulated.
    fn step(&mut self, batches: &mut Prefetch, accumulate: usize) -> Result<()> {
        let goal = &self.prepared.goal;
        let made: Vec<Batch> = (0..accumulate)
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
        let of = |count: fn(&Batch) -> usize| made.iter().map(count).sum::<usize>();
        self.timing
            .step(report.time, of(|batch| batch.examples), of(|batch| batch.tokens));
        let speed = self.timing.speed(goal);
        self.log(&report)?;
        self.progress.step(report.step, report.loss, &speed);
        if report.loss.is_finite() {
            Ok(())
        } else {
            Err(self.diverged(&report))
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

    fn diverged(&self, report: &StepReport) -> Error {
        let what = if report.loss.is_nan() {
            "no number (NaN)"
        } else {
            "infinite"
        };
        Error::user(format!(
            "the loss of step {} is {what}; {}; lower {} or clip the gradient with train.clip_norm",
            report.step,
            self.last_good(),
            self.prepared.config.place("train.lr")
        ))
    }

    fn last_good(&self) -> String {
        match self.folder.newest_checkpoint() {
            Ok(Newest {
                whole: Some((path, _)),
                ..
            }) => format!("{} is the last good checkpoint", path.display()),
            _ => "there is no checkpoint before it".to_string(),
        }
    }

    fn evaluate(&mut self, step: u64, log: bool) -> Result<Scores> {
        let scores = evaluate(
            &mut self.trainer,
            &mut self.function,
            self.dev.as_ref(),
            &self.prepared.goal,
        )?;
        if !scores.loss.is_finite() {
            return Err(self.broken(step, "the evaluation gives no number"));
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
            self.best = Some(Best { step, score });
            self.save_model(&self.folder.best())?;
        }
        Ok(scores)
    }

    fn broken(&self, step: u64, what: &str) -> Error {
        let place = self.prepared.config.place("train.lr");
        let good = self.last_good();
        Error::user(format!(
            "after step {step} {what}; {good}; lower {place} or clip the gradient with train.clip_norm"
        ))
    }

    fn save(&mut self, step: u64) -> Result<()> {
        if let Some(name) = self.trainer.broken_parameter() {
            return Err(self.broken(step, &format!("the parameter {name} is not finite")));
        }
        self.metrics.sync()?;
        let weights = self.trainer.weights();
        let fill = |aside: &Path| model::save(aside, &self.prepared.model, &weights, &self.tokenizer);
        self.folder
            .save_checkpoint(step, self.best, &self.trainer.state(), fill)?;
        Ok(())
    }

    fn save_model(&self, dir: &Path) -> Result<()> {
        let weights = self.trainer.weights();
        write_folder(dir, |aside| {
            model::save(aside, &self.prepared.model, &weights, &self.tokenizer)
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
