//! A recipe as the loop reads it: settings with types.

mod checks;

use crate::settings::{Origin, Settings, Value};
use lessen_base::Result;
use lessen_compile::Placement;
use lessen_data::adder;
use lessen_nn::{OptimizerConfig, Schedule, ScheduleKind};
use std::path::PathBuf;

/// What a model is built from when there is no checkpoint to start from.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Hugging Face folder to start from.
    pub init: Option<PathBuf>,
    /// `gpt2`, `bert` or `encoder`.
    pub kind: ModelKind,
    /// Transformer blocks.
    pub layers: usize,
    /// Size of the hidden states.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Inner size of the feed-forward layers.
    pub ffn: usize,
    /// Share of dropped values; none leaves a checkpoint's own.
    pub dropout: Option<f64>,
    /// Vocabulary that a plan without data assumes.
    pub vocab: usize,
    /// Classes that a plan without data assumes.
    pub classes: usize,
}

/// The architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// A language model.
    Gpt2,
    /// A classifier, post-LN, as in transformers.
    Bert,
    /// A small pre-LN classifier with mean pooling.
    Encoder,
}

/// What the data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFormat {
    /// Sums made on the fly.
    Adder,
    /// Files of `title<TAB>label`.
    Labelled,
    /// A task of GLUE.
    Glue,
    /// Plain text for a language model.
    Text,
}

/// Where batches come from.
#[derive(Clone, Debug, PartialEq)]
pub struct DataConfig {
    /// File or folder.
    pub path: Option<PathBuf>,
    /// Format.
    pub format: DataFormat,
    /// Task of GLUE.
    pub task: Option<String>,
    /// Folder of a tokenizer, or `characters`.
    pub tokenizer: Option<String>,
    /// A character that occurs more seldom is unknown.
    pub min_count: usize,
    /// Tokens of an example.
    pub max_length: usize,
    /// Share of a text file for validation.
    pub held_out: f64,
    /// Another order in every epoch.
    pub shuffle: bool,
}

/// How long and how fast.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainConfig {
    /// Examples in a batch.
    pub batch: usize,
    /// Batches in a step.
    pub accumulate: usize,
    /// Steps; 0 leaves it to the epochs.
    pub steps: u64,
    /// Epochs, when no steps are given.
    pub epochs: u64,
    /// Learning rate at its highest.
    pub lr: f64,
    /// Its course.
    pub schedule: ScheduleKind,
    /// Steps of warm-up.
    pub warmup: u64,
    /// Decay of matrices.
    pub weight_decay: f64,
    /// Longest gradient; 0 is no limit.
    pub clip_norm: f64,
    /// Decides everything random.
    pub seed: u64,
    /// Steps between evaluations; 0 is at the end only.
    pub eval_every: u64,
    /// Steps between checkpoints; 0 is at the end only.
    pub checkpoint_every: u64,
}

/// A whole recipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the recipe.
    pub recipe: String,
    /// Model.
    pub model: ModelConfig,
    /// Data.
    pub data: DataConfig,
    /// Training.
    pub train: TrainConfig,
    /// Optimizer.
    pub optimizer: OptimizerConfig,
    /// When parameters are updated.
    pub placement: Placement,
    /// Where all this comes from, for messages and for `config.toml`.
    pub settings: Settings,
}

impl Config {
    /// Reads the settings of the recipe called `recipe`.
    ///
    /// # Errors
    /// Settings that do not go together.
    pub fn new(recipe: &str, mut settings: Settings) -> Result<Config> {
        if settings.text("data.format") == Some("adder")
            && settings.origin("data.max_length") == Origin::Default
        {
            let own = Value::Count(adder::LENGTH as u64);
            settings.set_named("data.max_length", own, "the adder's own length".to_string())?;
        }
        let s = &settings;
        let size = |name| usize::try_from(s.count(name)).unwrap_or(usize::MAX);
        let number = |name| s.number(name).unwrap_or_default();
        let word = |name| s.text(name).unwrap_or_default();
        let path = |name| s.text(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let model = ModelConfig {
            init: path("model.init"),
            kind: match word("model.kind") {
                "bert" => ModelKind::Bert,
                "encoder" => ModelKind::Encoder,
                _ => ModelKind::Gpt2,
            },
            layers: size("model.layers"),
            width: size("model.width"),
            heads: size("model.heads"),
            ffn: size("model.ffn"),
            dropout: s.number("model.dropout"),
            vocab: size("model.vocab"),
            classes: size("model.classes"),
        };
        let data = DataConfig {
            path: path("data.path"),
            format: match word("data.format") {
                "adder" => DataFormat::Adder,
                "glue" => DataFormat::Glue,
                "text" => DataFormat::Text,
                _ => DataFormat::Labelled,
            },
            task: s.text("data.task").map(str::to_string),
            tokenizer: s.text("data.tokenizer").map(str::to_string),
            min_count: size("data.min_count"),
            max_length: size("data.max_length"),
            held_out: number("data.held_out"),
            shuffle: s.switch("data.shuffle"),
        };
        let train = TrainConfig {
            batch: size("train.batch"),
            accumulate: size("train.accumulate"),
            steps: s.count("train.steps"),
            epochs: s.count("train.epochs"),
            lr: number("train.lr"),
            schedule: match word("train.schedule") {
                "linear" => ScheduleKind::Linear,
                "cosine" => ScheduleKind::Cosine,
                "one-cycle" => ScheduleKind::OneCycle,
                _ => ScheduleKind::Constant,
            },
            warmup: s.count("train.warmup"),
            weight_decay: number("train.weight_decay"),
            clip_norm: number("train.clip_norm"),
            seed: s.count("train.seed"),
            eval_every: s.count("train.eval_every"),
            checkpoint_every: s.count("train.checkpoint_every"),
        };
        let weight_decay = train.weight_decay;
        let optimizer = match word("optimizer.kind") {
            "sgd" => OptimizerConfig::Sgd {
                momentum: number("optimizer.momentum"),
                nesterov: false,
                weight_decay,
            },
            _ => OptimizerConfig::AdamW {
                beta1: number("optimizer.beta1"),
                beta2: number("optimizer.beta2"),
                eps: number("optimizer.epsilon"),
                weight_decay,
            },
        };
        let placement = match word("optimizer.placement") {
            "separate" => Placement::Separate,
            _ => Placement::BackwardFused,
        };
        let config = Config {
            recipe: recipe.to_string(),
            model,
            data,
            train,
            optimizer,
            placement,
            settings,
        };
        config.check()?;
        Ok(config)
    }

    /// The learning rate over a run of this many steps.
    pub fn schedule(&self, total: u64) -> Schedule {
        let steps = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let train = &self.train;
        Schedule {
            kind: train.schedule,
            peak: train.lr,
            warmup: steps(train.warmup),
            total: steps(total),
        }
    }

    /// The value of a setting and its place, for messages.
    pub fn place(&self, name: &str) -> String {
        let value = self
            .settings
            .get(name)
            .map(|value| format!(" = {value}"))
            .unwrap_or_default();
        format!("{name}{value} ({})", self.settings.origin(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config> {
        Config::new("mine", Settings::parse(text, "mine.toml").unwrap())
    }

    #[test]
    fn settings_become_a_config() {
        let text = "train = { lr = 0.5, schedule = \"one-cycle\" }\noptimizer.kind = \"sgd\"\ndata.format = \"text\"";
        let config = config(text).unwrap();
        assert_eq!(
            (config.train.lr, config.train.schedule),
            (0.5, ScheduleKind::OneCycle)
        );
        assert_eq!(
            config.optimizer,
            OptimizerConfig::Sgd {
                momentum: 0.9,
                nesterov: false,
                weight_decay: 0.0
            }
        );
        assert_eq!((config.model.kind, config.model.dropout), (ModelKind::Gpt2, None));
        assert_eq!(config.place("train.lr"), "train.lr = 0.5 (mine.toml line 1)");
    }

    #[test]
    fn the_adder_has_a_length_of_its_own() {
        let own = config("data.format = \"adder\"").unwrap();
        assert_eq!(own.data.max_length, adder::LENGTH);
        // What is written is what was used, and is read back.
        assert_eq!(
            Config::new("mine", Settings::parse(&own.settings.to_toml(), "x").unwrap())
                .unwrap()
                .data,
            own.data
        );
        assert_eq!(
            config("data.format = \"adder\"\ndata.max_length = 12")
                .unwrap_err()
                .to_string(),
            "mine.toml line 2: data.max_length = 12 cannot change the adder, whose examples have 11 tokens; leave it out"
        );
    }
}
