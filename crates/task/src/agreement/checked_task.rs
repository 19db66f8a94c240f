//! A task whose settings, data and model go together.

use crate::evaluation;
use crate::fine_tuning::FineTuning;
use crate::first_weights::WeightSource;
use crate::generation_config::GenerationConfig;
use crate::goal::{Goal, SharedGoal};
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recording;
use crate::shapes::Shapes;
use crate::task_data::TaskData;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_compile::Policy;
use lessen_data::Source;
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Cx, Joined, Model, ParamSpec};
use lessen_train::{NonFinite, StepGraphs, Trainer, TrainerOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Goal, data and model of a recipe that go together. Only [`CheckedTask::assemble`] and [`CheckedTask::later`] make
/// one, so that no check can be left out.
pub struct CheckedTask {
    pub(super) config: Config,
    pub(super) goal: SharedGoal,
    pub(super) model: Model,
    /// The folder that the model was read from, where a run has saved it.
    pub(super) saved: Option<PathBuf>,
    pub(super) fine_tuning: FineTuning,
    /// How the model that it starts from continues texts, where its folder says so.
    pub(super) generation: Option<GenerationConfig>,
    /// The data; none where the recipe names none.
    pub(super) data: Option<TaskData>,
}

impl CheckedTask {
    /// The recipe.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The goal: what the model learns.
    pub fn goal(&self) -> &dyn Goal {
        self.goal.as_ref()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How labels count, and which parameters are trained.
    pub fn fine_tuning(&self) -> &FineTuning {
        &self.fine_tuning
    }

    /// All parameters in order of first use, the parameters of adapters among them.
    pub fn parameters(&self) -> Vec<ParamSpec> {
        self.model.parameters_with(self.fine_tuning.lora.as_ref())
    }

    /// The settings by which the model continues texts; none for a model that does not continue texts.
    pub fn generation(&self) -> Option<GenerationConfig> {
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
        self.data()?.training(&self.config)
    }

    /// The batches of a split, each example once.
    ///
    /// # Errors
    /// As [`CheckedTask::training`], and a split that the data does not have.
    pub fn evaluation(&self, split: &str) -> Result<Arc<dyn Source>> {
        self.data()?.evaluation(&self.config, split)
    }

    /// Whether the recipe names data.
    pub fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Whether it has the batches of another task on the same data.
    pub(crate) fn has_batches_of(&self, other: &CheckedTask) -> bool {
        let of = |task: &CheckedTask| {
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

    /// The largest layouts that its batches can have, whatever its data.
    pub fn assumed_shapes(&self) -> Shapes {
        let format = self.config.data.format.format();
        let [train, dev] = format.assumed_shapes(&self.config, &self.model);
        let train = match &self.data {
            Some(data) => data.corpus().training_shape(train),
            None => train,
        };
        Shapes {
            train,
            dev,
            first_dev: dev,
        }
    }

    /// The largest layouts of the task's batches: of the batches for the training steps `steps`, and of all evaluation
    /// batches.
    pub fn shapes_of(&self, training: &dyn Source, dev: &dyn Source, steps: Range<u64>) -> Shapes {
        Shapes::of(self.assumed_shapes(), training, dev, steps)
    }

    /// The options of a trainer for `steps` steps.
    pub fn options(&self, steps: u64) -> TrainerOptions {
        let train = &self.config.train;
        TrainerOptions {
            optimizer: self.config.optimizer,
            algorithm: None,
            schedule: self.config.schedule(steps),
            rate: None,
            // Runs look at the loss themselves, and say what checkpoint is good.
            non_finite: NonFinite::Allow,
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
            ranks: train.ranks.max(1),
            group: Group::alone(),
            shards_parameters: train.shard_parameters,
            kept_quarters: None,
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
        let graphs = graphs.with_function(|cx| evaluation::trace(cx, &self.model, self.goal(), shapes.dev))?;
        recording::add(graphs, &self.config, shapes, |cx, shape| self.loss(cx, shape))
    }

    /// The loss of a batch of this layout.
    pub fn loss(&self, cx: Cx, shape: BatchShape) -> Tensor {
        let cx = cx.with_criterion(&self.fine_tuning.criterion);
        self.model.forward(cx, shape).loss
    }

    /// Where the first weights of training come from.
    pub fn weight_source(&self) -> WeightSource<'_> {
        match (&self.saved, self.config.init()) {
            // A checkpoint has only what is trained beside the weights that stay as they are.
            (Some(_), Some(init)) if self.fine_tuning.lora.is_some() => WeightSource::Init(init),
            (Some(dir), _) => WeightSource::Saved(dir),
            (None, Some(init)) => WeightSource::Init(init),
            (None, None) => WeightSource::Seed,
        }
    }

    /// The folder that the first weights come from, unless they are drawn.
    pub fn source_of_weights(&self) -> Option<&Path> {
        self.saved.as_deref().or(self.config.model.init.as_deref())
    }

    /// Writes a Hugging Face folder: configuration, weights, tokenizer and, for a model that continues texts, its
    /// generation configuration.
    ///
    /// # Errors
    /// A folder that cannot be written to, and a weight that the dtype does not reach.
    pub fn save(&self, dir: &Path, trainer: &mut Trainer, reader: &Reader) -> Result<()> {
        trainer.save(dir, &self.model.config_json(), self.config.train.save_dtype)?;
        self.model.save_files(dir)?;
        let data = &self.config.data;
        let cuts = data.format.format().has_lengths(data);
        reader.save(dir, cuts.then_some(data.max_length))?;
        self.generation().map_or(Ok(()), |generation| generation.save(dir))
    }
}
