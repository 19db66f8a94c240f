//! A recipe as the training loop reads it: typed settings that go together.

mod checks;
mod images;
mod questions;

use super::keys::{DataFormat, DataKeys, ImageKeys, LoraKeys, ModelKeys, RecordKeys, RunKeys, TrainKeys};
use super::optimizer;
use super::phases::Recipe;
use super::settings::Settings;
use lessen_base::{Error, Result};
use lessen_compile::{CostSource, Placement};
use lessen_data::{Batching, TokenCache};
use lessen_nn::checkpoint::ModelFolder;
use lessen_nn::{LrSchedule, OptimizerConfig};
use std::path::PathBuf;

/// A recipe, or a phase of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The phase; none in a recipe without phases.
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
    /// Where all this comes from, for messages and for `config.toml`.
    pub settings: Settings,
}

impl Config {
    /// Reads the settings of a recipe without phases.
    ///
    /// # Errors
    /// Settings that do not go together, and a recipe with phases, which [`Recipe::new`] reads.
    pub fn new(settings: Settings) -> Result<Config> {
        let mut phases = Recipe::new(settings)?.phases;
        let single = phases.pop_if(|config| config.phase.is_none());
        single.ok_or_else(|| Error::user("the recipe has phases; name one without them"))
    }

    /// Reads the settings of a phase, or of a recipe without phases.
    ///
    /// # Errors
    /// Settings that do not go together.
    pub(crate) fn of(settings: Settings, phase: Option<&str>) -> Result<Config> {
        let keys = settings.keys()?;
        let optimizer = optimizer::config(&keys.optimizer, keys.train.weight_decay);
        let config = Config {
            phase: phase.map(str::to_string),
            run: keys.run,
            model: keys.model,
            data: keys.data,
            image: keys.image,
            train: keys.train,
            optimizer,
            lora: keys.lora,
            record: keys.record,
            placement: keys.optimizer.placement,
            settings,
        };
        config.check()?;
        Ok(config)
    }

    /// The same recipe without what matters in training only and must go with its data.
    pub(crate) fn for_evaluation(mut self) -> Config {
        self.train.freeze = None;
        self.train.no_decay = None;
        self.train.class_weights = None;
        self.train.label_smoothing = 0.0;
        self.lora.rank = 0;
        self
    }

    /// The folder with the model to start from, if there is one.
    pub(crate) fn init(&self) -> Option<ModelFolder<'_>> {
        let folder = ModelFolder::from(self.model.init.as_deref()?);
        Some(folder.with_base(self.model.base.as_deref()))
    }

    /// The name of the recipe.
    pub fn recipe(&self) -> &str {
        self.run.recipe.as_deref().unwrap_or("without a name")
    }

    /// Whether the recipe names data, or makes its own.
    pub fn has_data(&self) -> bool {
        self.data.path.is_some() || self.data.format == DataFormat::Adder
    }

    /// What a batch of texts of different lengths holds.
    pub(crate) fn batching(&self) -> Batching {
        match (self.train.tokens, self.data.group) {
            (0, false) => Batching::Examples(self.train.batch),
            (0, true) => Batching::Grouped(self.train.batch),
            (tokens, _) => Batching::Tokens(tokens),
        }
    }

    /// The number of examples in a batch where all have the same length.
    pub(crate) fn equal_batch(&self) -> usize {
        match self.train.tokens {
            0 => self.train.batch,
            tokens => (tokens / self.data.max_length).max(1),
        }
    }

    /// The times that the memory planner goes by: those that the recipe names, or else measured ones where the planner
    /// has to choose, within a budget or, if `chooses`, for another reason.
    pub(crate) fn cost_model(&self, chooses: bool) -> CostSource {
        let usual = match chooses || self.run.budget.is_some() {
            true => CostSource::Measured,
            false => CostSource::Analytic,
        };
        self.run.cost.unwrap_or(usual)
    }

    /// Where tokens of large data go.
    pub(crate) fn cache(&self) -> TokenCache {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let of_user = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let folder = self.data.cache.clone();
        let folder = folder.unwrap_or_else(|| of_user().unwrap_or_else(std::env::temp_dir).join("lessen"));
        TokenCache::new(folder, self.data.cache_from as u64)
    }

    /// The learning rate over a run of this many steps.
    pub fn schedule(&self, total: u64) -> LrSchedule {
        let steps = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let train = &self.train;
        LrSchedule {
            kind: train.schedule,
            peak: train.lr,
            warmup: steps(train.warmup.steps(total)),
            total: steps(total),
        }
    }

    /// The value of a setting and its place, for messages.
    pub fn place(&self, name: &str) -> String {
        self.settings.place(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::keys::{KEYS, Keys, Transformer};
    use crate::recipe::value::{Kind, SettingValue};
    use crate::recipe::words::Word;
    use lessen_nn::{Activation, LrScheduleKind};

    fn config(text: &str) -> Result<Config> {
        let mut settings = Settings::parse(text, "mine.toml").unwrap();
        settings.set_flag("run.recipe=mine").unwrap();
        Config::new(settings)
    }

    #[test]
    fn settings_become_a_config() {
        let text = "train = { lr = 0.5, schedule = \"one-cycle\" }\noptimizer.kind = \"sgd\"\ndata.format = \"text\"";
        let config = config(text).unwrap();
        assert_eq!(
            (config.train.lr, config.train.schedule),
            (0.5, LrScheduleKind::OneCycle)
        );
        assert_eq!(
            config.optimizer,
            OptimizerConfig::Sgd {
                momentum: 0.9,
                nesterov: false,
                weight_decay: 0.0
            }
        );
        assert_eq!(
            (config.model.kind, config.model.dropout),
            (Transformer::Gpt2.into(), None)
        );
        assert_eq!(config.place("train.lr"), "train.lr = 0.5 (mine.toml line 1)");
        assert_eq!(config.model.activation, None);
        let config = self::config(&format!("{text}\nmodel.activation = \"helu:0.05\"")).unwrap();
        assert_eq!(config.model.activation, Some(Activation::Helu(0.05)));
    }

    #[test]
    fn every_word_of_a_choice_is_read_as_itself_and_other_words_are_refused() {
        for key in KEYS {
            let Kind::Choice(words) = key.kind else { continue };
            let read = |word: &'static str| {
                let value = SettingValue::Text(word.to_string());
                let settings = Settings::parse("", "mine.toml").unwrap();
                let keys = Keys::read(|name| {
                    if name == key.name {
                        Some(&value)
                    } else {
                        settings.get(name)
                    }
                })?;
                Ok::<_, &crate::recipe::keys::Key>(match key.name {
                    "model.kind" => keys.model.kind.word(),
                    "model.position" => keys.model.position.map_or("", Word::word),
                    "model.norm" => keys.model.norm.map_or("", Word::word),
                    "data.format" => keys.data.format.word(),
                    "data.problem" => keys.data.problem.map_or("", Word::word),
                    "data.documents" => keys.data.documents.word(),
                    "run.cost" => keys.run.cost.map_or("", Word::word),
                    "train.schedule" => keys.train.schedule.word(),
                    "train.precision" => keys.train.precision.word(),
                    "train.save_dtype" => keys.train.save_dtype.word(),
                    "optimizer.kind" => keys.optimizer.kind.word(),
                    "record.split" => keys.record.split.word(),
                    "optimizer.placement" => keys.optimizer.placement.word(),
                    other => panic!("{other} has no line in this test"),
                })
            };
            for word in words {
                assert_eq!(read(word).unwrap(), *word, "{}", key.name);
            }
            assert_eq!(read("nonsense").unwrap_err().name, key.name);
        }
    }

    #[test]
    fn the_adder_has_a_length_of_its_own() {
        let own = config("data.format = \"adder\"").unwrap();
        assert_eq!(own.data.max_length, lessen_data::adder::LENGTH);
        // What is written is what was used, and is read back.
        assert_eq!(
            Config::new(Settings::parse(&own.settings.to_toml(), "x").unwrap())
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
        let kinds = "cannot learn data.format = text; choose gpt2 or llama or gpt_neox or gptj";
        assert!(message("model.kind = \"bert\"").ends_with(kinds));
        for (key, most) in [
            ("model.layers", 1 << 10),
            ("model.classes", 1 << 16),
            ("train.accumulate", 1 << 16),
            ("model.ffn", 1 << 28),
            ("model.vocab", 1 << 28),
            ("data.max_length", 1 << 28),
            ("train.batch", 1 << 28),
        ] {
            assert_eq!(
                message(&format!("{key} = {}", most + 1)),
                format!(
                    "mine.toml line 2: {key} = {} is more than Lessen can do; choose at most {most}",
                    most + 1
                )
            );
        }
        assert_eq!(
            message("data.held_out = 0"),
            "mine.toml line 2: data.held_out = 0 leaves nothing to validate with; choose a number between 0 and 1, \
             such as 0.1"
        );
        assert!(message("data.held_out = 1").contains("data.held_out = 1 leaves nothing to learn from"));
        assert!(message("optimizer.beta2 = 1").contains("would never learn"));
    }

    #[test]
    fn a_recipe_that_says_neither_model_nor_data_is_told_what_it_lacks() {
        let message = |text: &str| config(text).unwrap_err().to_string();
        assert_eq!(
            message(""),
            "the recipe mine has no data.format; say what the data is with data.format, one of adder, labelled, glue, text, \
             masked, tagged, squad, images"
        );
        assert!(message("model.kind = \"gpt2\"").starts_with("the recipe mine has no data.format"));
        assert_eq!(
            message("data.format = \"glue\""),
            "the recipe mine has no model.kind; say what learns it with model.kind, one of bert, \
             roberta, distilbert, encoder"
        );
    }
}
