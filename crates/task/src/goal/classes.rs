//! One of several classes that exclude each other.

use super::class_table::ConfusionTable;
use super::logits::{largest, softmax};
use super::scores::Score;
use super::{Goal, GoalScores, OutputLayer, Prediction, Scorer, SharedGoal};
use crate::class_names::{name_classes, number_classes};
use lessen_base::Result;
use lessen_data::{Batch, Confusion, Field, IGNORE, LabelKind, Metric, Source};
use lessen_nn::models::bert::Head;
use lessen_nn::{Model, Task};
use std::sync::Arc;

/// One of several classes that exclude each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The names of the classes.
    pub names: Vec<String>,
    /// The metrics; the first one decides.
    pub metrics: Vec<Metric>,
}

/// The goal of a classifier.
pub(super) fn of_model(model: &Model, _threshold: f64) -> Option<SharedGoal> {
    matches!(model.task(), Task::Classification { .. }).then(|| -> SharedGoal {
        Arc::new(Classes {
            names: model.labels().to_vec(),
            metrics: vec![Metric::Accuracy],
        })
    })
}

impl Goal for Classes {
    fn data_has(&self) -> &'static str {
        "classes"
    }

    fn model_does(&self) -> &'static str {
        "tells classes apart"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        matches!(task, Task::Classification { .. })
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::Head(Head::SequenceClassification)
    }

    fn scores(&self) -> Vec<&'static str> {
        self.metrics.iter().map(|metric| metric.name()).collect()
    }

    fn possible_scores(&self) -> &'static [Metric] {
        // F1 is that of the second class, so it says nothing of more than two.
        if self.names.len() == 2 {
            &[Metric::Accuracy, Metric::F1, Metric::Matthews]
        } else {
            &[Metric::Accuracy, Metric::Matthews]
        }
    }

    fn with_metric(&self, metric: Metric) -> Option<SharedGoal> {
        let mut goal = self.clone();
        if !goal.metrics.contains(&metric) {
            goal.metrics.push(metric);
        }
        Some(Arc::new(goal))
    }

    fn scorer<'a>(&'a self, model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(ClassScorer {
            goal: self,
            predictions: Vec::new(),
            labels: Vec::new(),
            confusion: Confusion::new(model.labels().to_vec()),
        })
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn has_class_weights(&self) -> bool {
        true
    }

    fn set_classes(&self, model: &mut Model) {
        model.set_multi_label(false);
        name_classes(model, &self.names);
    }

    fn number_classes(&self, model: &mut Model) -> Result<Option<Vec<usize>>> {
        number_classes(model, &self.names)
    }

    fn label_kind(&self) -> Option<LabelKind> {
        Some(LabelKind::Classes(self.names.clone()))
    }

    fn prediction(&self, logits: &[f32]) -> Option<Prediction> {
        let class = largest(logits, 1).first().copied()?;
        Some(Prediction::Class(class as usize, softmax(logits)))
    }
}

struct ClassScorer<'a> {
    goal: &'a Classes,
    predictions: Vec<f64>,
    labels: Vec<f64>,
    confusion: Confusion,
}

impl Scorer for ClassScorer<'_> {
    fn add(&mut self, _index: u64, batch: &Batch, logits: &[f32]) {
        let labels = batch.get("labels").and_then(Field::as_i32).unwrap_or_default();
        let chosen = largest(logits, labels.len());
        for (&prediction, &label) in chosen.iter().zip(labels).take(batch.examples) {
            if label != IGNORE {
                self.predictions.push(f64::from(prediction));
                self.labels.push(f64::from(label));
                self.confusion.add(label as usize, prediction as usize);
            }
        }
    }

    fn finish(self: Box<Self>) -> GoalScores {
        let score = |metric: &Metric| Score::of_metric(*metric, metric.compute(&self.predictions, &self.labels));
        GoalScores {
            named: self.goal.metrics.iter().map(score).collect(),
            majority: Some(self.confusion.majority()),
            table: Some(Arc::new(ConfusionTable(self.confusion))),
            ..GoalScores::default()
        }
    }
}
