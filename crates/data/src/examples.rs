//! Labelled texts.

use std::sync::Arc;

use crc32c::crc32c_append;
use lessen_base::{Error, Result};

use crate::batch::IGNORE;
use crate::cache::key_of_files;
use crate::exactly::Exactly;
use crate::label_sets::LabelSets;
use crate::labels::{LabelKind, Labels};
use crate::metrics::Metric;
use crate::rows::Rows;

/// One split of a dataset: texts or pairs of texts, with a label, or a set of labels, each. Texts of files are read
/// when they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    texts: Texts,
    /// One label per text.
    pub labels: Labels,
    /// The weight of each text in the loss of training; none where all count alike.
    pub weights: Option<Arc<[f32]>>,
}

/// A text and, for pair tasks, the second text.
pub type TextPair = (String, Option<String>);

#[derive(Clone, Debug, PartialEq)]
enum Texts {
    InMemory(Arc<[TextPair]>),
    /// The chosen rows of files, or of a table; all of them without a choice.
    InRows(Arc<Rows>, Option<Arc<[bool]>>),
}

impl Examples {
    /// Makes a split of texts in memory.
    ///
    /// # Panics
    /// If there is not one label for each text.
    pub fn new(texts: Vec<TextPair>, labels: Labels) -> Examples {
        assert_eq!(texts.len(), labels.len(), "one label for each text");
        Examples {
            texts: Texts::InMemory(texts.into()),
            labels,
            weights: None,
        }
    }

    /// Makes a split of rows: of the `chosen` ones, or of all.
    pub(crate) fn from_rows(rows: Arc<Rows>, chosen: Option<Arc<[bool]>>, labels: Labels) -> Examples {
        Examples {
            texts: Texts::InRows(rows, chosen),
            labels,
            weights: None,
        }
    }

    /// The same examples with these weights, one for each.
    pub(crate) fn with_weights(self, weights: Option<Arc<[f32]>>) -> Examples {
        Examples { weights, ..self }
    }

    /// Makes examples to predict: every class is [`IGNORE`], every set empty, every score 0.
    pub fn unlabelled(texts: Vec<TextPair>, target: &LabelKind) -> Examples {
        let labels = match target {
            LabelKind::Classes(_) => Labels::Classes(vec![IGNORE; texts.len()]),
            LabelKind::Sets(names) => {
                let mut sets = LabelSets::new(names.len());
                texts.iter().for_each(|_| sets.push(&[]));
                Labels::Sets(sets)
            }
            LabelKind::Score => Labels::Scores(vec![0.0; texts.len()]),
        };
        Examples::new(texts, labels)
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the texts in order. A file that is not as it was when its labels were read gives an error, after
    /// which there is nothing more.
    pub fn texts(&self) -> Box<dyn Iterator<Item = Result<TextPair>> + '_> {
        match &self.texts {
            Texts::InMemory(texts) => Box::new(texts.iter().cloned().map(Ok)),
            Texts::InRows(rows, chosen) => {
                let is_chosen = move |row: usize| chosen.as_ref().is_none_or(|chosen| chosen.get(row) == Some(&true));
                let all = rows
                    .iter()
                    .enumerate()
                    .filter(move |(number, row)| row.is_err() || is_chosen(*number));
                let texts = all.map(|(_, row)| row.map(|row| (row.text, row.text_pair)));
                Box::new(Exactly::new(texts, self.len(), rows.files()[0]))
            }
        }
    }

    /// The size in bytes of the files that the texts are in; none in memory.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        match &self.texts {
            Texts::InMemory(_) => None,
            Texts::InRows(rows, _) => rows.bytes(),
        }
    }

    /// What tells texts in files from others.
    pub(crate) fn key(&self) -> String {
        match &self.texts {
            Texts::InMemory(_) => String::new(),
            Texts::InRows(rows, chosen) => {
                let chosen = chosen.iter().flat_map(|chosen| chosen.iter());
                let chosen = chosen.fold(0, |crc, chosen| crc32c_append(crc, &[u8::from(*chosen)]));
                format!("{}\n{chosen:08x}\n{}", rows.format_key(), key_of_files(rows.files()))
            }
        }
    }
}

/// A dataset: its splits, its labels and the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The training split.
    pub train: Examples,
    /// The development split.
    pub dev: Examples,
    /// Whether the development split is all of the data, as it has none of its own.
    pub is_whole: bool,
    /// Further evaluation splits by name, if the folder has them.
    pub more: Vec<(&'static str, Examples)>,
    /// What labels are.
    pub target: LabelKind,
    /// The metrics, the one that selects the best checkpoint first; none where texts have sets of classes, which
    /// [`LabelCounts`](crate::LabelCounts) scores.
    pub metrics: Vec<Metric>,
    /// What there is to say of how it was read, a sentence each.
    pub remarks: Vec<String>,
}

impl Dataset {
    /// Returns the class names in label order; `None` for a regression.
    pub fn class_names(&self) -> Option<&[String]> {
        match &self.target {
            LabelKind::Classes(names) | LabelKind::Sets(names) => Some(names),
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
