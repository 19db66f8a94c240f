//! Any number of labels for each example.

use super::class_table::LabelTable;
use super::logits::sigmoid;
use super::scores::Score;
use super::{Goal, GoalScores, LossLimits, OutputLayer, Prediction, Scorer, SharedGoal};
use crate::class_names::{are_numbers, number_classes};
use lessen_base::{Error, Result};
use lessen_data::{Batch, Field, LabelCounts, LabelKind, Source};
use lessen_nn::models::bert::Head;
use lessen_nn::{Model, Task};
use std::sync::Arc;

/// Any number of labels for each example, scored by [`LabelCounts`].
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// The names of the labels.
    pub names: Vec<String>,
    /// The probability from which on a label is predicted.
    pub threshold: f64,
}

/// The goal of a classifier of several labels.
pub(super) fn of_model(model: &Model, threshold: f64) -> Option<SharedGoal> {
    matches!(model.task(), Task::MultiLabelClassification { .. }).then(|| -> SharedGoal {
        Arc::new(Labels {
            names: model.labels().to_vec(),
            threshold,
        })
    })
}

impl Goal for Labels {
    fn data_has(&self) -> &'static str {
        "several labels for a text"
    }

    fn model_does(&self) -> &'static str {
        "gives texts several labels"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        matches!(task, Task::MultiLabelClassification { .. })
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::Head(Head::SequenceClassification)
    }

    fn scores(&self) -> Vec<&'static str> {
        LabelCounts::SCORES.to_vec()
    }

    fn with_threshold(&self, threshold: f64) -> Option<SharedGoal> {
        let names = self.names.clone();
        Some(Arc::new(Labels { names, threshold }))
    }

    fn scorer<'a>(&'a self, model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(LabelScorer {
            goal: self,
            counts: LabelCounts::new(model.labels().to_vec()),
        })
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn loss_limits(&self) -> Option<LossLimits> {
        Some(LossLimits {
            normalized: "is a cross entropy over classes that exclude each other, but a text of the data can have several",
            smoothing: "several labels for a text",
        })
    }

    fn set_classes(&self, model: &mut Model) {
        model.set_multi_label(true);
        // Targets have a column for each label.
        if !(are_numbers(&self.names) && model.labels().len() == self.names.len()) {
            model.set_labels(self.names.clone());
        }
    }

    fn number_classes(&self, model: &mut Model) -> Result<Option<Vec<usize>>> {
        if self.names.len() != model.labels().len() {
            return Err(Error::user(format!(
                "the data has {} labels but the model {}; name data of the same task",
                self.names.len(),
                model.labels().len()
            )));
        }
        number_classes(model, &self.names)
    }

    fn label_kind(&self) -> Option<LabelKind> {
        Some(LabelKind::Sets(self.names.clone()))
    }

    fn prediction(&self, logits: &[f32]) -> Option<Prediction> {
        let shares: Vec<f64> = logits.iter().map(|logit| sigmoid(*logit)).collect();
        let found = (0..shares.len()).filter(|class| shares[*class] >= self.threshold);
        Some(Prediction::Labels(found.collect(), shares))
    }
}

struct LabelScorer<'a> {
    goal: &'a Labels,
    counts: LabelCounts,
}

impl Scorer for LabelScorer<'_> {
    fn add(&mut self, _index: u64, batch: &Batch, logits: &[f32]) {
        let count = self.goal.names.len().max(1);
        let targets = batch.get("targets").and_then(Field::as_f32).unwrap_or_default();
        let rows = logits.chunks_exact(count).zip(targets.chunks_exact(count));
        for (logits, targets) in rows.take(batch.examples) {
            let is_predicted = |logit: &f32| sigmoid(*logit) >= self.goal.threshold;
            let predicted: Vec<bool> = logits.iter().map(is_predicted).collect();
            let labels: Vec<bool> = targets.iter().map(|target| *target > 0.5).collect();
            self.counts.add(&labels, &predicted);
        }
    }

    fn finish(self: Box<Self>) -> GoalScores {
        GoalScores {
            named: Score::of_labels(&self.counts),
            table: Some(Arc::new(LabelTable(self.counts))),
            ..GoalScores::default()
        }
    }
}
