//! Whether a goal goes with settings and model.

use crate::goal::{self, Goal, LOSS, SharedGoal};
use crate::recipe::config::Config;
use lessen_base::{Error, Result};
use lessen_nn::{Loss, Model};

/// Refuses a normalized cross entropy where the goal is not learned by a cross entropy over classes that exclude each
/// other.
///
/// # Errors
/// The key.
pub(super) fn check_loss(config: &Config, goal: &dyn Goal) -> Result<()> {
    match (config.train.loss, goal.loss_limits()) {
        (Loss::Norm(_), Some(limits)) => Err(Error::user(format!(
            "{} {}; leave it out",
            config.place("train.loss"),
            limits.normalized
        ))),
        _ => Ok(()),
    }
}

/// The goal with what the recipe says of its scores: the one that decides which evaluation is best, if the recipe names
/// one, among them, and the probability from which on a label is predicted.
///
/// # Errors
/// A score that the data does not have.
pub(super) fn scored(config: &Config, goal: SharedGoal) -> Result<SharedGoal> {
    let goal = goal.with_threshold(config.data.threshold).unwrap_or(goal);
    let Some(best) = &config.train.best else {
        return Ok(goal);
    };
    if best == LOSS || goal.scores().contains(&best.as_str()) {
        return Ok(goal);
    }
    let known = goal.possible_scores();
    let wanted = known.iter().find(|metric| metric.name() == best);
    if let Some(goal) = wanted.and_then(|metric| goal.with_metric(*metric)) {
        return Ok(goal);
    }
    let mut names = goal.scores();
    names.extend(known.iter().map(|metric| metric.name()));
    names.sort_unstable();
    names.dedup();
    names.push(LOSS);
    Err(Error::user(format!(
        "{} is no score of this data; choose one of {}",
        config.place("train.best"),
        names.join(", ")
    )))
}

/// Refuses data that asks for other answers than the model gives.
///
/// # Errors
/// Classes where the model gives scores, texts where it is a classifier, and so on.
pub fn check_model(goal: &dyn Goal, model: &Model) -> Result<()> {
    if goal.is_learned_by(model.task()) {
        return Ok(());
    }
    Err(Error::user(format!(
        "the data has {} but the model {}; name data of the same task",
        goal.data_has(),
        goal::of_model(model, 0.0).model_does()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::classes::Classes;
    use crate::goal::value::Values;
    use crate::goal::{LossOnly, OutputLayer, Scorer};
    use crate::recipe::settings::Settings;
    use lessen_data::Source;
    use lessen_nn::models::bert::Head;
    use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
    use lessen_nn::{Task, numbered_labels};
    use std::sync::Arc;

    /// A goal of its own: whether a text reads the same backwards. It needs no line elsewhere.
    #[derive(Debug)]
    struct Palindromes;

    impl Goal for Palindromes {
        fn data_has(&self) -> &'static str {
            "palindromes"
        }

        fn model_does(&self) -> &'static str {
            "finds palindromes"
        }

        fn is_learned_by(&self, task: Task) -> bool {
            matches!(task, Task::Classification { classes: 2 })
        }

        fn output_layer(&self) -> OutputLayer {
            OutputLayer::Head(Head::SequenceClassification)
        }

        fn scores(&self) -> Vec<&'static str> {
            vec!["symmetry"]
        }

        fn scorer<'a>(&'a self, _model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
            Box::new(LossOnly { has_perplexity: false })
        }
    }

    #[test]
    fn a_new_goal_is_checked_like_those_of_lessen() {
        let text = "model.kind = \"bert\"\ndata.format = \"glue\"\ntrain.best = \"symmetry\"";
        let config = Config::new(Settings::parse(text, "mine.toml").unwrap()).unwrap();
        let goal = scored(&config, Arc::new(Palindromes)).unwrap();
        assert_eq!(goal.scores(), ["symmetry"]);
        check_loss(&config, goal.as_ref()).unwrap();
        let model = |labels: usize| {
            let config = EncoderConfig {
                labels: numbered_labels(labels),
                ..EncoderConfig::default()
            };
            Model::from(LessenEncoder { config })
        };
        check_model(goal.as_ref(), &model(2)).unwrap();
        assert_eq!(
            check_model(goal.as_ref(), &model(1)).unwrap_err().to_string(),
            "the data has palindromes but the model gives scores; name data of the same task"
        );
        let values = Arc::new(Values { metrics: Vec::new() });
        let refused = scored(&config, values).unwrap_err().to_string();
        assert!(
            refused.contains("symmetry") && refused.contains("is no score of this data"),
            "{refused}"
        );
    }

    #[test]
    fn a_normalized_cross_entropy_is_refused_for_scores() {
        let text = "model.kind = \"bert\"\ndata.format = \"glue\"\ntrain.loss = \"norm_softmax\"";
        let config = Config::new(Settings::parse(text, "mine.toml").unwrap()).unwrap();
        let classes = Classes {
            names: Vec::new(),
            metrics: Vec::new(),
        };
        let values = Values { metrics: Vec::new() };
        assert_eq!(check_loss(&config, &classes), Ok(()));
        assert_eq!(
            check_loss(&config, &values).unwrap_err().to_string(),
            "train.loss = \"norm_softmax\" (mine.toml line 3) is a cross entropy, but the data has scores, which are \
             learned by squared errors; leave it out"
        );
    }
}
