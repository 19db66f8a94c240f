//! A recipe as the loop reads it: settings with types.

use crate::error::{Error, Result};
use crate::settings::Settings;
use lessen_compile::Placement;
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
    pub fn new(recipe: &str, settings: Settings) -> Result<Config> {
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

    /// What single keys cannot say.
    fn check(&self) -> Result<()> {
        let origin = |name: &str| self.settings.origin(name);
        let say = |name: &str, what: String| Err(Error::user(format!("{}: {name} {what}", origin(name))));
        let (model, train) = (&self.model, &self.train);
        if !model.width.is_multiple_of(model.heads) {
            let (width, heads) = (model.width, model.heads);
            return say(
                "model.heads",
                format!("= {heads} does not divide model.width = {width}; choose a divisor"),
            );
        }
        for (name, size) in [
            ("model.layers", model.layers),
            ("model.width", model.width),
            ("model.ffn", model.ffn),
            ("model.vocab", model.vocab),
            ("model.classes", model.classes),
            ("data.max_length", self.data.max_length),
            ("train.batch", train.batch),
            ("train.accumulate", train.accumulate),
        ] {
            // Beyond this no tensor can be counted, whatever the memory.
            if size > 1 << 28 {
                return say(
                    name,
                    format!("= {size} is beyond all memory; choose a smaller number"),
                );
            }
        }
        if model.dropout == Some(1.0) {
            return say(
                "model.dropout",
                "= 1 would drop everything; choose a number below 1".to_string(),
            );
        }
        if let OptimizerConfig::AdamW { beta1, beta2, .. } = self.optimizer {
            for (name, beta) in [("optimizer.beta1", beta1), ("optimizer.beta2", beta2)] {
                if beta == 1.0 {
                    return say(
                        name,
                        "= 1 would never learn from a gradient; choose a number below 1".to_string(),
                    );
                }
            }
        }
        let language_model = matches!(self.data.format, DataFormat::Adder | DataFormat::Text);
        if language_model != (model.kind == ModelKind::Gpt2) {
            let kind = self.settings.text("model.kind").unwrap_or_default();
            let format = self.settings.text("data.format").unwrap_or_default();
            let fitting = if language_model { "gpt2" } else { "bert or encoder" };
            return say(
                "model.kind",
                format!("= {kind} cannot learn data.format = {format}; choose {fitting}"),
            );
        }
        Ok(())
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
    fn settings_that_do_not_go_together_are_refused() {
        let message = |text: &str| {
            config(&format!("data.format = \"text\"\n{text}"))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message("model.heads = 3"),
            "mine.toml line 2: model.heads = 3 does not divide model.width = 128; choose a divisor"
        );
        assert!(message("model.dropout = 1").starts_with("mine.toml line 2: model.dropout = 1 would drop"));
        assert!(message("model.kind = \"bert\"").ends_with("cannot learn data.format = text; choose gpt2"));
        assert!(message("train.batch = 1000000000").contains("beyond all memory"));
        assert!(message("optimizer.beta2 = 1").contains("would never learn"));
    }
}
