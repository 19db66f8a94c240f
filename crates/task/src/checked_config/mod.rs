//! From settings to the checked [`Config`] of a training phase.

mod checks;

use self::checks::check;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataKeys, ImageKeys, LoraKeys, ModelKeys, OptimizerKeys, RecordKeys, RunKeys, TrainKeys};
use crate::recipe::optimizer;
use crate::recipe::settings::Settings;
use lessen_base::Result;

impl Config {
    /// Reads the settings of a training phase, or of a recipe without phases.
    ///
    /// # Errors
    /// Settings that do not go together.
    pub fn of(settings: Settings, phase: Option<&str>) -> Result<Config> {
        let train = settings.section::<TrainKeys>()?;
        let optimizer = settings.section::<OptimizerKeys>()?;
        let config = Config {
            phase: phase.map(str::to_string),
            run: settings.section::<RunKeys>()?,
            model: settings.section::<ModelKeys>()?,
            data: settings.section::<DataKeys>()?,
            image: settings.section::<ImageKeys>()?,
            optimizer: optimizer::config(&optimizer, train.weight_decay),
            train,
            lora: settings.section::<LoraKeys>()?,
            record: settings.section::<RecordKeys>()?,
            placement: optimizer.placement,
            is_whole: false,
            spares_training: false,
            settings,
        };
        config.check()?;
        Ok(config)
    }

    /// Checks again that the settings go together, since a caller of the library may have changed them.
    ///
    /// # Errors
    /// The first key that does not go with the others.
    pub fn check(&self) -> Result<()> {
        check(self)
    }

    /// Whether the recipe names data, or makes its own.
    pub fn has_data(&self) -> bool {
        self.data.path.is_some() || !self.data.format.format().is_in_files()
    }
}

#[cfg(test)]
mod tests {
    use crate::recipe::config::Config;
    use crate::recipe::keys::{
        CORE, DataKeys, ModelKeys, OptimizerKeys, RecordKeys, RunKeys, Section, TrainKeys, Transformer,
    };
    use crate::recipe::settings::Settings;
    use crate::recipe::value::{SettingValue, ValueKind};
    use lessen_base::Result;
    use lessen_base::word::Word;
    use lessen_nn::OptimizerConfig;
    use lessen_nn::{Activation, LrScheduleKind};

    fn config(text: &str) -> Result<Config> {
        let mut settings = Settings::parse(text, "mine.toml").unwrap();
        settings.set_flag("run.recipe=mine").unwrap();
        Config::new(settings)
    }

    #[test]
    fn a_share_of_all_steps_only_rises() {
        for kind in LrScheduleKind::ALL {
            let train = format!("train = {{ lr = 0.5, schedule = \"{kind}\", warmup = 1.0 }}");
            let config = config(&format!("{train}\ndata.format = \"text\"")).unwrap();
            let schedule = config.schedule(4);
            schedule.check().unwrap();
            let rates: Vec<f64> = (0..4).map(|step| schedule.lr(step)).collect();
            assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{kind}: {rates:?}");
        }
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
        for key in CORE.keys() {
            let ValueKind::Choice(words) = key.kind else { continue };
            let read = |word: &'static str| {
                let value = SettingValue::Text(word.to_string());
                let settings = Settings::parse("", "mine.toml").unwrap();
                let get = |name: &str| {
                    if name == key.name {
                        Some(&value)
                    } else {
                        settings.get(name)
                    }
                };
                let (run, model, data) = (RunKeys::read(&get)?, ModelKeys::read(&get)?, DataKeys::read(&get)?);
                let (train, optimizer) = (TrainKeys::read(&get)?, OptimizerKeys::read(&get)?);
                let record = RecordKeys::read(&get)?;
                Ok::<_, &str>(match key.name {
                    "model.kind" => model.kind.word(),
                    "model.position" => model.position.map_or("", Word::word),
                    "model.batch_norm" => model.batch_norm.map_or("", Word::word),
                    "model.norm" => model.norm.map_or("", Word::word),
                    "data.format" => data.format.word(),
                    "data.problem" => data.problem.map_or("", Word::word),
                    "data.documents" => data.documents.word(),
                    "run.cost" => run.cost.map_or("", Word::word),
                    "train.schedule" => train.schedule.word(),
                    "train.precision" => train.precision.word(),
                    "train.save_dtype" => train.save_dtype.word(),
                    "optimizer.kind" => optimizer.kind.word(),
                    "record.split" => record.split.word(),
                    "optimizer.placement" => optimizer.placement.word(),
                    other => panic!("{other} has no line in this test"),
                })
            };
            for word in words {
                assert_eq!(read(word).unwrap(), *word, "{}", key.name);
            }
            assert_eq!(read("nonsense").unwrap_err(), key.name);
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
             masked, tagged, squad, table, images"
        );
        assert!(message("model.kind = \"gpt2\"").starts_with("the recipe mine has no data.format"));
        assert_eq!(
            message("data.format = \"glue\""),
            "the recipe mine has no model.kind; say what learns it with model.kind, one of bert, \
             roberta, distilbert, mpnet, encoder, linear"
        );
    }

    #[test]
    fn fields_that_a_caller_has_changed_are_checked_again() {
        let changed = |change: fn(&mut Config)| {
            let mut config = config("data.format = \"text\"").unwrap();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(
            changed(|config| config.train.accumulate = 0),
            "train.accumulate = 0 is too small; choose at least 1"
        );
        assert_eq!(
            changed(|config| config.model.heads = 0),
            "model.heads = 0 is too small; choose at least 1"
        );
        assert_eq!(
            changed(|config| config.train.lr = f64::NAN),
            "train.lr = NaN is out of range; choose a finite number, at least 0"
        );
        assert_eq!(
            changed(|config| config.train.clip_norm = -1.0),
            "train.clip_norm = -1 is out of range; choose a finite number, at least 0"
        );
        assert_eq!(
            changed(|config| config.model.dropout = Some(f64::NAN)),
            "model.dropout = NaN is out of range; choose a number from 0 to 1"
        );
        assert!(changed(|config| config.train.ema = 1.0).contains("never move from the first average"));
    }
}
