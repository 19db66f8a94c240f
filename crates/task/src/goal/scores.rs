//! The scores of an evaluation.

use super::LOSS;
use lessen_data::{LabelCounts, Metric};
use serde_json::{Map, Value, json};
use std::fmt::Debug;
use std::sync::Arc;

/// A score of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Its name, such as `accuracy`.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Whether it is shown as a percentage.
    pub is_share: bool,
    /// Whether less of it is better.
    pub is_error: bool,
}

impl Score {
    /// A share of predictions, or a mean of such shares; more is better.
    pub(super) fn share(name: &'static str, value: f64) -> Score {
        Score {
            name,
            value,
            is_share: true,
            is_error: false,
        }
    }

    /// The value of a metric.
    pub(super) fn of_metric(metric: Metric, value: f64) -> Score {
        Score {
            name: metric.name(),
            value,
            is_share: matches!(metric, Metric::Accuracy | Metric::F1),
            is_error: metric.is_error(),
        }
    }

    /// The scores of labels that do not exclude each other.
    pub(super) fn of_labels(counts: &LabelCounts) -> Vec<Score> {
        let scores = counts.scores().into_iter();
        scores.map(|(name, value)| Score::share(name, value)).collect()
    }

    /// The value such that greater is better.
    pub fn gain(&self) -> f64 {
        if self.is_error { -self.value } else { self.value }
    }

    fn show(&self) -> String {
        if self.is_share {
            format!("{} {:.2} %", self.name.replace('_', " "), 100.0 * self.value)
        } else {
            format!("{} {:.4}", self.name, self.value)
        }
    }
}

/// The scores of each class, for files, JSON and people.
pub trait ScoreTable: Debug + Send + Sync {
    /// The name of the file in a run's folder that has the table of its last evaluation.
    fn file(&self) -> &'static str;

    /// The content of that file, after `step` steps.
    fn to_file(&self, step: u64) -> Value;

    /// The fields of `lessen eval --json`.
    fn to_json(&self) -> Map<String, Value>;

    /// A table in plain text, with an empty line in front.
    fn to_text(&self) -> String;
}

/// The scores of an evaluation.
#[derive(Clone, Debug)]
pub struct Scores {
    /// Mean loss over all predictions, in nats for classes and tokens.
    pub loss: f64,
    /// The scores; the one that decides first. None for language models.
    pub named: Vec<Score>,
    /// Number of examples.
    pub examples: usize,
    /// The exponential of the loss of a language model.
    pub perplexity: Option<f64>,
    /// The accuracy of the most frequent class, where there are classes.
    pub majority: Option<f64>,
    /// The scores of each class, where there are classes.
    pub table: Option<Arc<dyn ScoreTable>>,
    /// How many texts lack tokens that did not fit, and how many there are, where texts are cut.
    pub cut_texts: Option<(u64, u64)>,
}

impl Scores {
    /// The score that decides which model is best: the one called `name`, without a name the first one. Where there is
    /// none, and for the name `loss`, it is the loss.
    pub fn deciding(&self, name: Option<&str>) -> Score {
        let found = match name {
            Some(LOSS) => None,
            Some(name) => self.named.iter().find(|score| score.name == name),
            None => self.named.first(),
        };
        found.copied().unwrap_or(Score {
            name: LOSS,
            value: self.loss,
            is_share: false,
            is_error: true,
        })
    }

    /// A sentence about a model that answers no better than the most frequent class; none about others.
    pub fn nothing_learned(&self) -> Option<String> {
        let accuracy = self
            .named
            .iter()
            .find(|score| score.name == Metric::Accuracy.name())?
            .value;
        let majority = self.majority.filter(|majority| accuracy <= *majority)?;
        Some(format!(
            "nothing was learned: the accuracy of {:.2} % is no more than that of the most frequent class, {:.2} %; train \
             longer, change train.lr, or begin with a pretrained model (--init)",
            100.0 * accuracy,
            100.0 * majority
        ))
    }

    /// The keys of a JSON object: `dev_loss`, `dev_accuracy`.
    pub fn to_json(&self, split: &str) -> Map<String, Value> {
        let named = self.named.iter();
        let named = named.map(|score| (format!("{split}_{}", score.name), json!(score.value)));
        let perplexity = self
            .perplexity
            .map(|perplexity| (format!("{split}_perplexity"), json!(perplexity)));
        let loss = (format!("{split}_loss"), json!(self.loss));
        named.chain([loss]).chain(perplexity).collect()
    }

    /// A line in words: `accuracy 88.61 %, loss 0.3911`.
    pub fn show(&self) -> String {
        let named: String = self.named.iter().map(|score| score.show() + ", ").collect();
        let perplexity = self
            .perplexity
            .map(|perplexity| format!(", perplexity {perplexity:.3}"));
        format!("{named}loss {:.4}{}", self.loss, perplexity.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_named_after_their_split() {
        let scores = Scores {
            loss: 0.5,
            named: vec![Score::of_metric(Metric::Accuracy, 0.875)],
            examples: 8,
            perplexity: None,
            majority: None,
            table: None,
            cut_texts: None,
        };
        assert_eq!(
            Value::from(scores.to_json("dev")).to_string(),
            r#"{"dev_accuracy":0.875,"dev_loss":0.5}"#
        );
        assert_eq!(
            (scores.deciding(None).gain(), scores.show().as_str()),
            (0.875, "accuracy 87.50 %, loss 0.5000")
        );
        assert_eq!(
            [Some("loss"), Some("accuracy")].map(|name| scores.deciding(name).gain()),
            [-0.5, 0.875]
        );
        let error = Scores {
            named: vec![
                Score::of_metric(Metric::Mse, 0.25),
                Score::of_metric(Metric::Pearson, 0.5),
            ],
            ..scores.clone()
        };
        let deciding = [None, Some("pearson")].map(|name| error.deciding(name));
        assert_eq!(deciding.map(|score| score.gain()), [-0.25, 0.5]);
        assert_eq!(deciding.map(|score| score.value), [0.25, 0.5]);
        let text = Scores {
            named: vec![],
            perplexity: Some(1.6487),
            ..scores
        };
        assert_eq!(
            (text.deciding(None).gain(), text.show().as_str()),
            (-0.5, "loss 0.5000, perplexity 1.649")
        );
        assert_eq!(
            Value::from(text.to_json("dev")).to_string(),
            r#"{"dev_loss":0.5,"dev_perplexity":1.6487}"#
        );
    }
}
