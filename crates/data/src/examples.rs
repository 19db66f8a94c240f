//! Labelled texts, as read from files.

use lessen_base::{Error, Result};

use crate::batch::IGNORE;
use crate::metrics::Metric;

/// The labels of examples, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// Class indices; [`IGNORE`] if unknown.
    Classes(Vec<i32>),
    /// Regression targets.
    Scores(Vec<f32>),
}

/// The kind of label of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelKind {
    /// One of these classes; labels are indices into the names.
    Classes(Vec<String>),
    /// A real number (regression).
    Score,
}

/// One split of a dataset: texts or pairs of texts, with a label each.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// The text and, for pair tasks, the second text.
    pub texts: Vec<(String, Option<String>)>,
    /// One label per text.
    pub labels: Labels,
}

impl Examples {
    /// Makes examples to predict: every class is [`IGNORE`], every score 0.
    pub fn unlabelled(texts: Vec<(String, Option<String>)>, target: &LabelKind) -> Examples {
        let labels = match target {
            LabelKind::Classes(_) => Labels::Classes(vec![IGNORE; texts.len()]),
            LabelKind::Score => Labels::Scores(vec![0.0; texts.len()]),
        };
        Examples { texts, labels }
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Iterates over all first and second texts, to build a vocabulary.
    pub fn all_texts(&self) -> impl Iterator<Item = &str> {
        self.texts
            .iter()
            .flat_map(|(first, second)| std::iter::once(first.as_str()).chain(second.as_deref()))
    }
}

/// A dataset: its splits, the kind of label and the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The training split.
    pub train: Examples,
    /// The development split.
    pub dev: Examples,
    /// Further evaluation splits by name, if the folder has them.
    pub more: Vec<(&'static str, Examples)>,
    /// The kind of label.
    pub target: LabelKind,
    /// The metrics, the one that selects the best checkpoint first.
    pub metrics: Vec<Metric>,
}

impl Dataset {
    /// Returns the class names in label order; `None` for a regression.
    pub fn class_names(&self) -> Option<&[String]> {
        match &self.target {
            LabelKind::Classes(names) => Some(names),
            LabelKind::Score => None,
        }
    }

    /// Returns the split `train`, `dev` or one of the further splits.
    ///
    /// # Errors
    /// An unknown name; the message lists the known ones.
    pub fn split(&self, name: &str) -> Result<&Examples> {
        let splits = [("train", &self.train), ("dev", &self.dev)]
            .into_iter()
            .chain(self.more.iter().map(|(name, split)| (*name, split)));
        let found = splits.clone().find(|(split, _)| *split == name);
        found.map(|(_, split)| split).ok_or_else(|| {
            let names = splits.clone().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            Error::user(format!("this data has no split called {name}; choose one of {names}"))
        })
    }
}
