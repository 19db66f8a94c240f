//! Texts with labels, as they come from files.

use lessen_base::{Error, Result};

use crate::batch::IGNORE;
use crate::metrics::Metric;

/// The labels of examples, in the same order.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// Class indices; [`IGNORE`] where the class is not known.
    Classes(Vec<i32>),
    /// Real scores to predict.
    Scores(Vec<f32>),
}

/// What the examples of a dataset are labelled with.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// One of these classes; the label is an index into the names.
    Classes(Vec<String>),
    /// A real number.
    Score,
}

/// One split: texts, or pairs of texts, with a label each.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// The text and, for tasks on pairs, the second text.
    pub texts: Vec<(String, Option<String>)>,
    /// As many labels as texts.
    pub labels: Labels,
}

impl Examples {
    /// Texts whose labels are asked for: every class is [`IGNORE`], every score 0.
    pub fn unlabelled(texts: Vec<(String, Option<String>)>, target: &Target) -> Examples {
        let labels = match target {
            Target::Classes(_) => Labels::Classes(vec![IGNORE; texts.len()]),
            Target::Score => Labels::Scores(vec![0.0; texts.len()]),
        };
        Examples { texts, labels }
    }

    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// All first and second texts, for building a vocabulary.
    pub fn all_texts(&self) -> impl Iterator<Item = &str> {
        self.texts
            .iter()
            .flat_map(|(first, second)| std::iter::once(first.as_str()).chain(second.as_deref()))
    }
}

/// A task: its splits, what is to be predicted, and how predictions are scored.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The examples to learn from.
    pub train: Examples,
    /// The examples to evaluate on.
    pub dev: Examples,
    /// Further splits to evaluate on by name, where the folder has them.
    pub more: Vec<(&'static str, Examples)>,
    /// Classes or a score.
    pub target: Target,
    /// The task's metrics, the one that decides first.
    pub metrics: Vec<Metric>,
}

impl Dataset {
    /// The names of the classes in label order; `None` for regression.
    pub fn class_names(&self) -> Option<&[String]> {
        match &self.target {
            Target::Classes(names) => Some(names),
            Target::Score => None,
        }
    }

    /// The split called `train` or `dev`, or one of the further splits.
    ///
    /// # Errors
    /// A name that none of them has; the message lists the names.
    pub fn split(&self, name: &str) -> Result<&Examples> {
        let splits = [("train", &self.train), ("dev", &self.dev)]
            .into_iter()
            .chain(self.more.iter().map(|(name, split)| (*name, split)));
        let found = splits.clone().find(|(split, _)| *split == name);
        found.map(|(_, split)| split).ok_or_else(|| {
            let names = splits
                .clone()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
                .join(", ");
            Error::user(format!(
                "this data has no split called {name}; choose one of {names}"
            ))
        })
    }
}
