//! A recipe as the training loop reads it: typed settings that go together.

use super::keys::{DataKeys, ImageKeys, LoraKeys, ModelKeys, RecordKeys, RunKeys, TrainKeys};
use super::settings::Settings;
use lessen_compile::{CostSource, Placement};
use lessen_data::{Asking, Batching, Problem, TokenCache};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{LrSchedule, OptimizerConfig};
use std::path::PathBuf;

/// The settings of a recipe, or of one of its training phases.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The name of the training phase; none in a recipe without phases.
    pub phase: Option<String>,
    /// Name and budget.
    pub run: RunKeys,
    /// Model.
    pub model: ModelKeys,
    /// Data.
    pub data: DataKeys,
    /// Images.
    pub image: ImageKeys,
    /// Training.
    pub train: TrainKeys,
    /// Optimizer.
    pub optimizer: OptimizerConfig,
    /// Adapters.
    pub lora: LoraKeys,
    /// Recorded statistics.
    pub record: RecordKeys,
    /// When parameters are updated.
    pub placement: Placement,
    /// Whether the data is only evaluated: all of it, where it has no split for that.
    pub is_whole: bool,
    /// Whether no share of the training data is kept for validation where it has a test split.
    pub(crate) spares_training: bool,
    /// Where all this comes from, for messages and for `config.toml`.
    pub settings: Settings,
}

impl Config {
    /// The same recipe without settings of training that must go with its data.
    pub fn for_evaluation(mut self) -> Config {
        self.train.freeze = None;
        self.train.no_decay = None;
        self.train.class_weights = None;
        self.train.label_smoothing = 0.0;
        self.lora.rank = 0;
        self
    }

    /// The same recipe for data that is only evaluated: all of it, where it has no split for that.
    pub fn for_whole_data(self) -> Config {
        Config { is_whole: true, ..self }
    }

    /// The same recipe with all of the training data, where that has a split `test` by which results are judged.
    pub fn sparing_training(self) -> Config {
        Config {
            spares_training: true,
            ..self
        }
    }

    /// The folder with the model to start from, if there is one.
    pub fn init(&self) -> Option<ModelFolder<'_>> {
        let folder = ModelFolder::from(self.model.init.as_deref()?);
        Some(folder.with_base(self.model.base.as_deref()).to_start_from())
    }

    /// The name of the recipe.
    pub fn recipe(&self) -> &str {
        self.run.recipe.as_deref().unwrap_or("without a name")
    }

    /// The problem that the labels of texts pose.
    pub fn problem(&self) -> Problem {
        self.data.problem.unwrap_or_default()
    }

    /// How questions about texts are cut into windows and answered.
    pub fn asking(&self) -> Asking {
        let (data, default) = (&self.data, Asking::default());
        Asking {
            max_length: data.max_length,
            stride: data.stride.unwrap_or(data.max_length / 3),
            longest: data.answer_length.unwrap_or(default.longest),
            null_threshold: data.null_threshold,
        }
    }

    /// Whether a key has a value of its own, other than its default and than an empty one.
    pub fn is_given(&self, key: &str) -> bool {
        let own = self.settings.get(key).filter(|own| !own.is_empty());
        own.is_some()
            && self
                .settings
                .schema()
                .parse("", "")
                .is_ok_and(|default| default.get(key) != own)
    }

    /// The limit on a batch of texts of different lengths.
    pub fn batching(&self) -> Batching {
        match (self.train.tokens, self.data.group) {
            (0, false) => Batching::Examples(self.train.batch),
            (0, true) => Batching::Grouped(self.train.batch),
            (tokens, _) => Batching::Tokens(tokens),
        }
    }

    /// The number of examples in a batch where all have the same length.
    pub fn equal_batch(&self) -> usize {
        match self.train.tokens {
            0 => self.train.batch,
            tokens => (tokens / self.data.max_length).max(1),
        }
    }

    /// The cost model of the memory planner: the recipe's, or else measured times where the planner chooses, within a
    /// budget or, if `chooses`, for another reason.
    pub fn cost_model(&self, chooses: bool) -> CostSource {
        let usual = if chooses || self.run.budget.is_some() {
            CostSource::Measured
        } else {
            CostSource::Analytic
        };
        self.run.cost.unwrap_or(usual)
    }

    /// Where tokens of large data go.
    pub fn cache(&self) -> TokenCache {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let of_user = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let folder = self.data.cache.clone();
        let folder = folder.unwrap_or_else(|| of_user().unwrap_or_else(std::env::temp_dir).join("lessen"));
        TokenCache::new(folder, self.data.cache_from as u64)
    }

    /// The learning-rate schedule of a run of `total` steps.
    pub fn schedule(&self, total: u64) -> LrSchedule {
        let steps = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let train = &self.train;
        let warmup = train.warmup.steps(total);
        LrSchedule {
            kind: train.schedule,
            peak: train.lr,
            warmup: steps(warmup),
            // A run that ends before its warm-up only rises.
            total: steps(total.max(warmup)),
        }
    }

    /// The value of a setting and its place, for messages.
    pub fn place(&self, name: &str) -> String {
        self.settings.place(name)
    }
}
