//! Texts with labels.

use super::corpus::{Corpus, LabelledTextIter, place};
use super::digests::digest_of;
use super::{ENCODER_LENGTH, Format, HeldOut, KnownModel, ModelSettings, assumed_classes, held_out_by, packed_texts};
use crate::folder::manifest::DataDigests;
use crate::goal::{self, SharedGoal};
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::{DataKeys, THRESHOLD, Transformer};
use lessen_base::Result;
use lessen_data::labelled::{self, Columns};
use lessen_data::memory::DataInMemory;
use lessen_data::{Dataset, EncodedExamples, ExampleBatches, LabelKind, Labels, Metric, Order, Problem, Source};
use lessen_nn::{BatchShape, Model, Task};
use std::path::Path;
use std::sync::Arc;

/// Texts with labels: `text<TAB>label`, CSV, TSV, JSON lines, folders of classes.
pub(super) struct LabelledFormat;

impl Format for LabelledFormat {
    fn own_keys(&self) -> &'static [&'static str] {
        &[
            "data.problem",
            "data.text",
            "data.text_pair",
            "data.label",
            held_out_by::GROUP,
            held_out_by::TIME,
        ]
    }

    fn learned_by(&self) -> ModelRole {
        ModelRole::ClassifiesTexts
    }

    fn has_lengths(&self, _data: &DataKeys) -> bool {
        true
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::Share
    }

    fn check(&self, config: &Config) -> Result<()> {
        held_out_by::check(config)
    }

    fn takes(&self, data: &DataInMemory) -> bool {
        data.table().is_some()
    }

    fn read(&self, config: &Config, known: &KnownModel, given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        let options = options(config, known.classes.clone());
        let place = place(config, given.and_then(DataInMemory::table))?;
        Ok(Arc::new(LabelledTexts(labelled::read_from(place, &options)?)))
    }

    fn has_pairs(&self, config: &Config) -> bool {
        let path = config.data.path.as_deref().unwrap_or(Path::new(""));
        labelled::has_pairs(path, &options(config, None))
    }

    fn assumed_goal(&self, config: &Config) -> SharedGoal {
        assumed_goal(config)
    }

    fn assumed_shapes(&self, config: &Config, _model: &Model) -> [BatchShape; 2] {
        [packed_texts(config, 1); 2]
    }

    fn settings_of_model(&self, model: &Model) -> Option<ModelSettings> {
        let problem = match model.task() {
            _ if model.image().is_some() => return None,
            Task::Classification { .. } => None,
            Task::MultiLabelClassification { .. } => Some(Problem::MultiLabel),
            Task::Regression => Some(Problem::Regression),
            _ => return None,
        };
        Some(ModelSettings {
            problem,
            ..ModelSettings::encoder(Transformer::Bert, model, ENCODER_LENGTH)
        })
    }
}

/// The goal of labelled texts without data.
pub(super) fn assumed_goal(config: &Config) -> SharedGoal {
    let (labels, metrics) = match config.problem() {
        Problem::SingleLabel => (LabelKind::Classes(assumed_classes(config)), vec![Metric::Accuracy]),
        Problem::MultiLabel => (LabelKind::Sets(assumed_classes(config)), Vec::new()),
        Problem::Regression => (LabelKind::Score, vec![Metric::Mse]),
    };
    goal::of_labels(labels, metrics, config.data.threshold)
}

/// The columns of texts and labels that a recipe names.
pub fn columns(config: &Config) -> Columns {
    let data = &config.data;
    Columns {
        text: data.text.clone(),
        text_pair: data.text_pair.clone(),
        label: data.label.as_ref().map(|names| names.0.clone()),
        several: config.problem() == Problem::MultiLabel,
        held_out_by: held_out_by::held_out_by(config),
    }
}

/// How labelled texts are read.
fn options(config: &Config, classes: Option<Vec<String>>) -> labelled::Options {
    let (columns, data) = (columns(config), config.data.clone());
    labelled::Options {
        problem: config.problem(),
        separator: data.separator,
        columns,
        dev: data.dev,
        test: data.test,
        held_out: data.held_out,
        held_out_seed: data.held_out_seed,
        whole: config.is_whole,
        classes,
    }
}

/// Texts with labels as they were read.
pub(super) struct LabelledTexts(pub(super) Dataset);

impl Corpus for LabelledTexts {
    fn goal(&self) -> SharedGoal {
        goal::of_labels(self.0.target.clone(), self.0.metrics.clone(), THRESHOLD)
    }

    fn texts(&self) -> Box<dyn Iterator<Item = Result<String>> + '_> {
        let texts = self.0.train.texts().flat_map(|pair| match pair {
            Ok((first, second)) => [Some(Ok(first)), second.map(Ok)],
            Err(error) => [Some(Err(error)), None],
        });
        Box::new(texts.flatten())
    }

    fn remarks(&self) -> &[String] {
        &self.0.remarks
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole
    }

    fn example(&self) -> &'static str {
        "text"
    }

    fn digests(&self) -> Result<DataDigests> {
        DataDigests::of([&self.0.train, &self.0.dev], |split| digest_of(&self.0.target, split))
    }

    fn class_counts(&self, classes: usize) -> Option<Vec<u64>> {
        self.0.train.labels.class_counts(classes)
    }

    fn has_weights(&self) -> bool {
        self.0.train.weights.is_some()
    }

    fn mean_target(&self) -> Option<f64> {
        self.0.train.labels.mean_score()
    }

    fn labelled_texts(&self, split: &str) -> Result<Option<LabelledTextIter<'_>>> {
        let examples = self.0.split(split)?;
        Ok(match &examples.labels {
            Labels::Classes(labels) => {
                let both = examples.texts().zip(labels);
                Some(Box::new(both.map(|(text, label)| Ok((text?, *label)))))
            }
            Labels::Sets(_) | Labels::Scores(_) => None,
        })
    }

    fn show(&self, split: &str, examples: &[usize]) -> Result<Vec<String>> {
        let mut shown = vec![String::new(); examples.len()];
        for (number, pair) in self.0.split(split)?.texts().enumerate() {
            let (text, second) = pair?;
            for (place, _) in examples.iter().enumerate().filter(|(_, example)| **example == number) {
                shown[place] = match &second {
                    Some(second) => format!("{text} | {second}"),
                    None => text.clone(),
                };
            }
        }
        Ok(shown)
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, order: Order) -> Result<Arc<dyn Source>> {
        let (length, cache) = (config.data.max_length, config.cache());
        let examples = EncodedExamples::new(self.0.split(split)?, reader.tokenizer()?, length, Some(&cache))?;
        let batches = ExampleBatches::of(Arc::new(examples), config.batching(), order)?;
        Ok(Arc::new(batches.with_balanced_evaluations()))
    }
}
