//! A task: goal, data and model of a recipe, assembled by one function for planning, training, resuming and evaluating.

pub(crate) mod class_names;
pub mod corpus;
mod digests;
pub mod evaluation;
pub(crate) mod fine_tuning;
pub(crate) mod first_weights;
pub(crate) mod fit;
pub mod goal;
mod images;
pub(crate) mod model;
mod questions;
pub mod reader;
pub(crate) mod recording;
mod saved_model;
mod shapes;

use self::corpus::Corpus;
use self::fine_tuning::FineTuning;
use self::first_weights::Origin;
use self::goal::Goal;
use self::model::Sizes;
use self::reader::Reader;
pub use self::saved_model::SavedModel;
use self::saved_model::generation_of;
pub(crate) use self::saved_model::tokenizer_of;
pub use self::shapes::Shapes;
use crate::folder::manifest::DataDigests;
use crate::generation_config::GenerationConfig;
use crate::recipe::config::Config;
use crate::recipe::keys::DataFormat;
use lessen_base::{Error, Result};
use lessen_compile::Policy;
use lessen_data::{Metric, Problem, Source};
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Context, Joined, Model, ParamSpec};
use lessen_train::{StepGraphs, TrainerOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Data that was read, and what reads its examples.
#[derive(Clone)]
pub struct TaskData {
    corpus: Arc<Corpus>,
    /// What tells the data from other data, once it has been asked for.
    digests: Arc<OnceLock<DataDigests>>,
    /// The tokenizer, or how images become what a model sees.
    pub reader: Arc<Reader>,
}

/// Goal, data and model of a recipe.
pub struct RunTask {
    /// The recipe.
    pub config: Config,
    /// What is predicted.
    pub goal: Goal,
    /// The model.
    pub model: Model,
    /// The folder that the model was read from, where a run has saved it.
    saved: Option<PathBuf>,
    /// How labels count, and which parameters are trained.
    pub(crate) fine_tuning: FineTuning,
    /// How the model that it starts from continues texts, where its folder says so.
    generation: Option<GenerationConfig>,
    /// The data; none where the recipe names none.
    data: Option<TaskData>,
}

impl RunTask {
    /// Assembles the task of a recipe. The model is `saved`, or else the recipe's: that of the checkpoint to start
    /// from, or a new one. Where the recipe names no data, as a plan may, its `model.vocab` and `model.classes` stand
    /// for them.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake, or that do not go together.
    pub fn assemble(config: Config, saved: Option<SavedModel>) -> Result<RunTask> {
        let corpus = match config.has_data() {
            true => Some(Corpus::read(&config, saved.as_ref())?),
            false => None,
        };
        let goal = match &corpus {
            Some(corpus) => corpus.goal(),
            None => assumed_goal(&config),
        };
        let goal = fit::scored(&config, goal)?;
        fit::check_loss(&config, &goal)?;
        let (dir, model, reader, generation) = match saved {
            Some(saved) => {
                fit::check_goal(&goal, &saved.model)?;
                (Some(saved.dir), saved.model, Some(saved.reader), saved.generation)
            }
            None => {
                let (model, reader) = new_model(&config, &goal, corpus.as_ref())?;
                let generation = config.init().map(|init| generation_of(init, &model)).transpose()?;
                (None, model, reader, generation.flatten())
            }
        };
        fit::check_batch(&config, &model)?;
        let fine_tuning = FineTuning::of(&config, &goal, &model, corpus.as_ref())?;
        let data = corpus.zip(reader);
        Ok(RunTask {
            fine_tuning,
            config,
            goal,
            model,
            generation,
            saved: dir,
            data: data.map(|(corpus, reader)| TaskData {
                corpus: Arc::new(corpus),
                digests: Arc::default(),
                reader: Arc::new(reader),
            }),
        })
    }

    /// The task of a later phase: the same data and goal, and the model that the phase makes of this one.
    ///
    /// # Errors
    /// Settings that do not go together with the data or the checkpoint that the run started from.
    pub fn later(&self, mut config: Config) -> Result<RunTask> {
        let goal = fit::scored(&config, self.goal.clone())?;
        fit::check_loss(&config, &goal)?;
        if let Some(init) = &self.config.model.init {
            model::check_unchanged(init, &self.config, &config)?;
            if self.fine_tuning.lora.is_none() {
                // The checkpoint that the run started from may be gone.
                config.model.init = Some(self.saved.as_ref().unwrap_or(init).clone());
            }
        }
        let reader = self.data.as_ref().map(|data| data.reader.as_ref());
        let own = Sizes::of(&config, reader);
        let sizes = Sizes {
            vocab: self.model.vocab_size(),
            image: self.model.image().unwrap_or(own.image),
            ..own
        };
        let model = sound_model(&config, &goal, sizes, reader)?;
        fit::check_batch(&config, &model)?;
        let corpus = self.data.as_ref().map(TaskData::corpus);
        Ok(RunTask {
            fine_tuning: FineTuning::of(&config, &goal, &model, corpus)?,
            config,
            goal,
            model,
            generation: self.generation.clone(),
            saved: None,
            data: self.data.clone(),
        })
    }

    /// All parameters in order of first use, those of adapters among them.
    pub(crate) fn parameters(&self) -> Vec<ParamSpec> {
        self.model.parameters_with(self.fine_tuning.lora.as_ref())
    }

    /// How its model continues texts; none for a model that does not.
    pub(crate) fn generation(&self) -> Option<GenerationConfig> {
        self.model.decoder()?;
        Some(
            self.generation
                .clone()
                .unwrap_or_else(|| GenerationConfig::of(&self.model)),
        )
    }

    /// The data.
    ///
    /// # Errors
    /// A recipe that names none.
    pub fn data(&self) -> Result<&TaskData> {
        self.data.as_ref().ok_or_else(|| {
            Error::user(format!(
                "the recipe {} needs data; name its file or folder with --data",
                self.config.recipe()
            ))
        })
    }

    /// The batches of the training split.
    ///
    /// # Errors
    /// Data that is not named, or does not fit the tokenizer or the sizes.
    pub fn training(&self) -> Result<Arc<dyn Source>> {
        let TaskData { corpus, reader, .. } = self.data()?;
        corpus.training(&self.config, reader)
    }

    /// The batches of a split in order, each example once.
    ///
    /// # Errors
    /// As [`RunTask::training`], and a split that the data does not have.
    pub fn evaluation(&self, split: &str) -> Result<Arc<dyn Source>> {
        let TaskData { corpus, reader, .. } = self.data()?;
        corpus.evaluation(&self.config, reader, split)
    }

    /// Whether the recipe names data.
    pub(crate) fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Whether it has the batches of another task on the same data.
    pub(crate) fn has_batches_of(&self, other: &RunTask) -> bool {
        let of = |task: &RunTask| {
            let (train, data) = (&task.config.train, &task.config.data);
            let masking = (data.mask, data.lines);
            (
                task.config.image.clone(),
                task.config.batching(),
                data.stride,
                train.seed,
                data.max_length,
                data.shuffle,
                data.documents,
                masking,
            )
        };
        of(self) == of(other)
    }

    /// How to train it in this many steps.
    pub fn options(&self, steps: u64) -> TrainerOptions {
        let train = &self.config.train;
        TrainerOptions {
            optimizer: self.config.optimizer,
            schedule: self.config.schedule(steps),
            groups: Vec::new(),
            schedule_start: 0,
            joined: Joined::new(),
            joined_at: Default::default(),
            frozen: train.freeze.clone().unwrap_or_default(),
            lora: self.fine_tuning.lora.clone(),
            no_decay: train.no_decay.clone().unwrap_or_default(),
            layer_decay: (train.layer_decay < 1.0).then_some(train.layer_decay),
            ema: (train.ema > 0.0).then_some(train.ema),
            seed: train.seed,
            clip_norm: (train.clip_norm > 0.0).then_some(train.clip_norm),
            accumulate: train.accumulate,
            norm: self.model.norm(),
            placement: self.config.placement,
            precision: self.config.train.precision,
            policy: Policy::default(),
            allowed_error: train.allow_error,
            cost: self.config.cost_model(false),
            budget: self.config.run.budget,
        }
    }

    /// The graphs of training on the largest batches: the step, and as its functions the evaluation and what records
    /// statistics.
    ///
    /// # Errors
    /// An evaluation with parameters that the step does not have; nothing to record of what is asked for.
    pub fn graphs(&self, options: &TrainerOptions, shapes: Shapes) -> Result<StepGraphs> {
        let graphs = StepGraphs::new(options, |cx| self.loss(cx, shapes.train))?.with_shape(shapes.train);
        let graphs = graphs.with_function(|cx| evaluation::trace(cx, &self.model, &self.goal, shapes.dev))?;
        recording::add(graphs, self, shapes)
    }

    /// The loss of a batch of this layout.
    pub(crate) fn loss<'g>(&self, cx: &Context<'g>, shape: BatchShape) -> Tensor<'g> {
        let cx = cx.with_criterion(&self.fine_tuning.criterion);
        self.model.forward(&cx, shape).loss
    }

    /// Where the first weights of training come from.
    pub(crate) fn origin(&self) -> Origin<'_> {
        match (&self.saved, self.config.init()) {
            // A checkpoint has only what is trained beside the weights that stay as they are.
            (Some(_), Some(init)) if self.fine_tuning.lora.is_some() => Origin::Init(init),
            (Some(dir), _) => Origin::Saved(dir),
            (None, Some(init)) => Origin::Init(init),
            (None, None) => Origin::Seed,
        }
    }

    /// The folder that the first weights come from, unless they are drawn.
    pub(crate) fn source_of_weights(&self) -> Option<&Path> {
        self.saved.as_deref().or(self.config.model.init.as_deref())
    }
}

impl TaskData {
    /// The data as it was read.
    pub(crate) fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// What tells the data from other data.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    pub(crate) fn digests(&self) -> Result<DataDigests> {
        if let Some(digests) = self.digests.get() {
            return Ok(*digests);
        }
        let digests = self.corpus.digests()?;
        Ok(*self.digests.get_or_init(|| digests))
    }
}

/// The model of a recipe that no run has saved, and what reads its examples where there is data.
fn new_model(config: &Config, goal: &Goal, corpus: Option<&Corpus>) -> Result<(Model, Option<Reader>)> {
    if let Some(init) = config.init() {
        fit::check_init(config, init)?;
    }
    let reader = corpus.map(|corpus| corpus.reader(config)).transpose()?;
    let sizes = Sizes::of(config, reader.as_ref());
    Ok((sound_model(config, goal, sizes, reader.as_ref())?, reader))
}

/// The model of a recipe, checked against data and settings.
fn sound_model(config: &Config, goal: &Goal, sizes: Sizes, reader: Option<&Reader>) -> Result<Model> {
    let tokenizer = reader.and_then(|reader| reader.tokenizer().ok());
    fit::check_sizes(config, sizes.vocab)?;
    fit::check_image_size(config, sizes)?;
    let mut model = model::build(config, goal, sizes)?;
    model.set_vocab_size(fit::vocabulary_for(config, &model, tokenizer));
    fit::check_new(config, &model, reader)?;
    Ok(model)
}

/// The names of classes of a recipe without data.
fn assumed_classes(config: &Config) -> Vec<String> {
    (0..config.model.classes).map(|class| class.to_string()).collect()
}

/// The goal of a recipe without data.
fn assumed_goal(config: &Config) -> Goal {
    match config.data.format {
        DataFormat::Adder => Goal::Sum,
        DataFormat::Text => Goal::NextToken,
        DataFormat::Masked => Goal::MaskedTokens,
        DataFormat::Labelled | DataFormat::Glue => match config.problem() {
            Problem::SingleLabel => Goal::Classes(assumed_classes(config), vec![Metric::Accuracy]),
            Problem::MultiLabel => Goal::Labels(assumed_classes(config), config.data.threshold),
            Problem::Regression => Goal::Score(vec![Metric::Mse]),
        },
        DataFormat::Images => Goal::Classes(assumed_classes(config), vec![Metric::Accuracy]),
        DataFormat::Tagged => Goal::WordClasses(assumed_classes(config)),
        DataFormat::Squad => Goal::Answers,
    }
}
