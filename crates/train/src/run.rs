//! What to train, and all that happens before the first step: data, model, plans, folder.

use crate::config::Config;
pub use crate::config_file::{Written, read_config};
use crate::corpus::Corpus;
use crate::course::Run;
use crate::evaluate;
use crate::events::Events;
use crate::finished::device;
use crate::folder::Folder;
use crate::interrupt;
use crate::metrics::Metrics;
use crate::model::{self, FirstWeights, Sizes};
use crate::plans::StepPlans;
use crate::prepared::{Prepared, check_sizes};
use crate::progress::Progress;
use crate::report::{Report, Timing};
use crate::resume::{Reopened, Resumed, digest};
use crate::saved;
use crate::settings::Settings;
use crate::trainer::Trainer;
use lessen_base::{Error, Result};
use lessen_data::{Source, Tokenizer};
use lessen_nn::{BatchShape, Model, checkpoint};
use std::path::PathBuf;

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
    /// Most bytes that parameters, optimizer and steps may take; a run that goes on keeps its own where none is given.
    pub budget: Option<usize>,
}

/// Trains. From the first step on, Ctrl-C stops the run after a step with a checkpoint, in the whole process; sooner, when
/// there is nothing to save, it ends the process.
///
/// # Errors
/// Whatever is wrong with data, checkpoint, settings or folder, before any step; a loss that is no number.
pub fn train(request: &Request) -> Result<Report> {
    let request = &Request {
        settings: request.settings.clone().with_whole_paths(),
        ..request.clone()
    };
    let reopened = match request.resume {
        true => Some(Reopened::new(request)?),
        false => {
            Folder::check_free(&request.out)?;
            None
        }
    };
    let config = Config::new(&request.recipe, request.settings.clone())?;
    let corpus = Corpus::read(&config)?;
    let data = digest(&corpus);
    if let Some(run) = &reopened {
        run.check_data(&config, &corpus, data)?;
    }
    let from = reopened.as_ref().and_then(|run| run.from.as_ref());
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
    check_sizes(&config, sizes)?;
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
    let extent = Extent::of(&prepared.config, source.as_ref());
    prepared.total = extent.steps;
    if let Some(run) = &reopened {
        run.check_end(&prepared.config, extent.steps)?;
        run.note_course(&prepared.config, source.as_ref())?;
    }

    let budget = request
        .budget
        .or(reopened.as_ref().and_then(|run| run.written.budget));
    let options = prepared.options(budget);
    let device = device()?;
    let plans = StepPlans::of(&device, &options, |cx| prepared.model.forward(cx, shape).loss)?;
    let compile_time = plans.compile_time();
    plans.check_memory()?;
    let mut first = first_weights(&prepared, from)?;
    let mut trainer = Trainer::from_plans(device, options, plans, &first.weights)?;
    first.weights.clear();
    let source_of_weights = from
        .map(|from| &*from.dir)
        .or(prepared.config.model.init.as_deref());
    if let (Some(name), Some(dir)) = (trainer.broken_parameter(), source_of_weights) {
        return Err(Error::user(format!(
            "the tensor {name} of the checkpoint {} has values that are no numbers or infinite; start from a sound one",
            dir.display()
        )));
    }
    let function = trainer.function(|cx| evaluate::trace(cx, &prepared.model, &prepared.goal, shape))?;

    interrupt::listen()?;
    let (folder, unbegun) = match &reopened {
        Some(run) => (run.folder.clone(), None),
        None => Folder::create_unbegun(&request.out).map(|(folder, unbegun)| (folder, Some(unbegun)))?,
    };
    let written = Written {
        recipe: prepared.config.recipe.clone(),
        settings: prepared.config.settings.clone(),
        budget,
    };
    folder.write("config.toml", &written.text())?;
    let start = from.map_or(0, |from| from.manifest.step);
    if let Some(from) = from {
        trainer.resume(start, &saved::state(&from.dir)?)?;
    }
    let best = reopened.as_ref().and_then(|run| run.best);
    let metrics = Metrics::open(&folder.metrics(), start)?;
    let events = Events::create(folder.root(), start)?;
    let progress = Progress::new(prepared.total, start);
    let timing = Timing::new(compile_time);
    let run = Run {
        prepared,
        batches: extent.batches,
        tokenizer,
        data,
        folder,
        unbegun,
        trainer,
        function,
        dev,
        best,
        metrics,
        events,
        progress,
        timing,
    };
    run.announce(&first);
    run.go(source, start)
}

fn first_weights(prepared: &Prepared, from: Option<&Resumed>) -> Result<FirstWeights> {
    match from {
        Some(from) => {
            let loaded = checkpoint::load(&from.dir, &prepared.model.parameters(), &|_| false)?;
            Ok(FirstWeights {
                weights: loaded.weights,
                ..FirstWeights::default()
            })
        }
        None => {
            let model = &prepared.config.model;
            model::first_weights(&prepared.model, model.init.as_deref(), prepared.config.train.seed)
        }
    }
}

/// How far a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Steps in all.
    pub steps: u64,
    /// Batches in all; the last step of the last epoch may have fewer than the others.
    pub batches: u64,
}

impl Extent {
    /// As many steps as are asked for, or as the epochs take.
    pub fn of(config: &Config, source: &dyn Source) -> Extent {
        let (train, accumulate) = (&config.train, config.train.accumulate as u64);
        match train.steps {
            0 => {
                let batches = train.epochs.saturating_mul(source.batches_per_epoch());
                Extent {
                    steps: batches.div_ceil(accumulate),
                    batches,
                }
            }
            steps => Extent {
                steps,
                batches: steps.saturating_mul(accumulate),
            },
        }
    }
}
