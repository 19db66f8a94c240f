//! What a model is to predict, and how it is scored.

use lessen_data::{Batch, LabelCounts, Metric, are_entities};

/// The name of the mean loss among the scores of an evaluation.
pub(crate) const LOSS: &str = "loss";

/// Whether less of the score of this name is better.
pub(crate) fn is_error(score: &str) -> bool {
    score == LOSS || [Metric::Mse, Metric::Mae].iter().any(|metric| metric.name() == score)
}

/// What a model is to predict, and how it is scored.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// One of these classes; the first metric decides.
    Classes(Vec<String>, Vec<Metric>),
    /// Any of these classes, or none; a class is predicted from this probability on. Scored by [`LabelCounts`].
    Labels(Vec<String>, f64),
    /// One of these classes for each word; scored by entities, where the classes are parts of such, or by words.
    WordClasses(Vec<String>),
    /// A number.
    Score(Vec<Metric>),
    /// The next token; scored by the loss.
    NextToken,
    /// The masked tokens; scored by the loss.
    MaskedTokens,
    /// The digits of a sum; scored by the share of sums that are right as a whole.
    Sum,
}

impl Goal {
    /// The names of the scores of an evaluation.
    pub(crate) fn scores(&self) -> Vec<&'static str> {
        match self {
            Goal::Classes(_, metrics) | Goal::Score(metrics) => metrics.iter().map(|metric| metric.name()).collect(),
            Goal::Labels(..) => LabelCounts::SCORES.to_vec(),
            Goal::WordClasses(names) if are_entities(names) => vec![Metric::F1.name(), Metric::Accuracy.name()],
            Goal::Sum | Goal::WordClasses(_) => vec![Metric::Accuracy.name()],
            Goal::NextToken | Goal::MaskedTokens => Vec::new(),
        }
    }

    /// The metrics that it can be scored with.
    pub(crate) fn possible_scores(&self) -> &'static [Metric] {
        match self {
            // F1 is that of the second class, so it says nothing of more than two.
            Goal::Classes(names, _) if names.len() == 2 => &[Metric::Accuracy, Metric::F1, Metric::Matthews],
            Goal::Classes(..) => &[Metric::Accuracy, Metric::Matthews],
            Goal::Score(_) => &[Metric::Mse, Metric::Mae, Metric::Pearson, Metric::Spearman],
            Goal::Labels(..) | Goal::WordClasses(_) | Goal::MaskedTokens | Goal::NextToken | Goal::Sum => &[],
        }
    }

    /// The same goal, scored with a further metric.
    pub(crate) fn with(mut self, metric: Metric) -> Goal {
        match &mut self {
            Goal::Classes(_, metrics) | Goal::Score(metrics) if !metrics.contains(&metric) => metrics.push(metric),
            _ => {}
        }
        self
    }

    /// The same goal, with another probability from which on a class is predicted.
    pub(crate) fn with_threshold(self, threshold: f64) -> Goal {
        match self {
            Goal::Labels(names, _) => Goal::Labels(names, threshold),
            other => other,
        }
    }

    /// The weight of a batch in a mean: the number of its predictions, tokens or examples.
    pub fn weight_of(&self, batch: &Batch) -> f64 {
        match self {
            Goal::NextToken | Goal::Sum => batch.tokens as f64,
            Goal::MaskedTokens | Goal::WordClasses(_) => batch.labels() as f64,
            Goal::Classes(..) | Goal::Labels(..) | Goal::Score(_) => batch.examples as f64,
        }
    }
}
