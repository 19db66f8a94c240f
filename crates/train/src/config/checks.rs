//! What is wrong with settings that single keys cannot say: values that do not go together, or that nothing can hold.

use super::{Config, DataFormat, ModelKind};
use crate::settings::Origin;
use lessen_base::{Error, Result};
use lessen_data::adder;
use lessen_nn::OptimizerConfig;

impl Config {
    /// What single keys cannot say.
    pub(super) fn check(&self) -> Result<()> {
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
        for (name, size, most) in [
            // What is made once for each of them must end in a time that somebody waits for.
            ("model.layers", model.layers, 1 << 10),
            ("model.classes", model.classes, 1 << 16),
            ("train.accumulate", train.accumulate, 1 << 16),
            // Beyond this no memory holds an array.
            ("model.width", model.width, 1 << 28),
            ("model.ffn", model.ffn, 1 << 28),
            ("model.vocab", model.vocab, 1 << 28),
            ("data.max_length", self.data.max_length, 1 << 28),
            ("train.batch", train.batch, 1 << 28),
        ] {
            if size > most {
                return say(
                    name,
                    format!("= {size} is more than Lessen can do; choose at most {most}"),
                );
            }
        }
        self.check_data()?;
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
        self.check_kind()
    }

    /// Values of `data` keys that the format has no use for.
    fn check_data(&self) -> Result<()> {
        let data = &self.data;
        if data.format == DataFormat::Adder && data.max_length != adder::LENGTH {
            return Err(Error::user(format!(
                "{}: data.max_length = {} cannot change the adder, whose examples have {} tokens; leave it out",
                self.settings.origin("data.max_length"),
                data.max_length,
                adder::LENGTH
            )));
        }
        if data.format == DataFormat::Text && (data.held_out == 0.0 || data.held_out == 1.0) {
            return Err(Error::user(format!(
                "{}: data.held_out = {} leaves no text to {}; choose a number between 0 and 1, such as 0.1",
                self.settings.origin("data.held_out"),
                data.held_out,
                if data.held_out == 0.0 {
                    "validate with"
                } else {
                    "learn from"
                }
            )));
        }
        Ok(())
    }

    /// Language models learn texts, classifiers learn labels.
    fn check_kind(&self) -> Result<()> {
        let language_model = matches!(self.data.format, DataFormat::Adder | DataFormat::Text);
        if language_model == (self.model.kind == ModelKind::Gpt2) {
            return Ok(());
        }
        for (name, what, words) in [
            ("data.format", "what the data is", "adder, labelled, glue, text"),
            ("model.kind", "what learns it", "bert, encoder"),
        ] {
            if self.settings.origin(name) == Origin::Default {
                let recipe = &self.recipe;
                return Err(Error::user(format!(
                    "the recipe {recipe} has no {name}; say {what} with {name}, one of {words}"
                )));
            }
        }
        let kind = self.settings.text("model.kind").unwrap_or_default();
        let format = self.settings.text("data.format").unwrap_or_default();
        let fitting = if language_model { "gpt2" } else { "bert or encoder" };
        Err(Error::user(format!(
            "{}: model.kind = {kind} cannot learn data.format = {format}; choose {fitting}",
            self.settings.origin("model.kind")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn config(text: &str) -> Result<Config> {
        Config::new("mine", Settings::parse(text, "mine.toml").unwrap())
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
            "mine.toml line 2: data.held_out = 0 leaves no text to validate with; choose a number between 0 and 1, \
             such as 0.1"
        );
        assert!(message("data.held_out = 1").contains("data.held_out = 1 leaves no text to learn from"));
        assert!(message("optimizer.beta2 = 1").contains("would never learn"));
    }

    #[test]
    fn a_recipe_that_says_neither_model_nor_data_is_told_what_it_lacks() {
        let message = |text: &str| config(text).unwrap_err().to_string();
        assert_eq!(
            message(""),
            "the recipe mine has no data.format; say what the data is with data.format, one of adder, labelled, glue, text"
        );
        assert!(message("model.kind = \"gpt2\"").starts_with("the recipe mine has no data.format"));
        assert_eq!(
            message("data.format = \"glue\""),
            "the recipe mine has no model.kind; say what learns it with model.kind, one of bert, encoder"
        );
    }
}
