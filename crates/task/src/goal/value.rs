//! A number for each example.

use super::scores::Score;
use super::{Goal, GoalScores, LossLimits, OutputLayer, Prediction, Scorer, SharedGoal};
use lessen_data::{Batch, Field, LabelKind, Metric, Source};
use lessen_nn::models::bert::Head;
use lessen_nn::{Model, Task, numbered_labels};
use std::sync::Arc;

/// A number for each example.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// The metrics; the first one decides.
    pub metrics: Vec<Metric>,
}

/// The goal of a regression.
pub(super) fn of_model(model: &Model, _threshold: f64) -> Option<SharedGoal> {
    (model.task() == Task::Regression).then(|| -> SharedGoal {
        Arc::new(Values {
            metrics: vec![Metric::Mse],
        })
    })
}

impl Goal for Values {
    fn data_has(&self) -> &'static str {
        "scores"
    }

    fn model_does(&self) -> &'static str {
        "gives scores"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        task == Task::Regression
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::Head(Head::SequenceClassification)
    }

    fn scores(&self) -> Vec<&'static str> {
        self.metrics.iter().map(|metric| metric.name()).collect()
    }

    fn possible_scores(&self) -> &'static [Metric] {
        &[Metric::Mse, Metric::Mae, Metric::Pearson, Metric::Spearman]
    }

    fn with_metric(&self, metric: Metric) -> Option<SharedGoal> {
        let mut goal = self.clone();
        if !goal.metrics.contains(&metric) {
            goal.metrics.push(metric);
        }
        Some(Arc::new(goal))
    }

    fn scorer<'a>(&'a self, _model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(ValueScorer {
            goal: self,
            predictions: Vec::new(),
            targets: Vec::new(),
        })
    }

    fn loss_limits(&self) -> Option<LossLimits> {
        Some(LossLimits {
            normalized: "is a cross entropy, but the data has scores, which are learned by squared errors",
            smoothing: "scores",
        })
    }

    fn set_classes(&self, model: &mut Model) {
        model.set_multi_label(false);
        model.set_labels(numbered_labels(1));
    }

    fn label_kind(&self) -> Option<LabelKind> {
        Some(LabelKind::Score)
    }

    fn prediction(&self, logits: &[f32]) -> Option<Prediction> {
        let value = logits.first().copied()?;
        Some(Prediction::Score(f64::from(value)))
    }
}

struct ValueScorer<'a> {
    goal: &'a Values,
    predictions: Vec<f64>,
    targets: Vec<f64>,
}

impl Scorer for ValueScorer<'_> {
    fn add(&mut self, _index: u64, batch: &Batch, logits: &[f32]) {
        let targets = batch.get("targets").and_then(Field::as_f32).unwrap_or_default();
        let own = |values: &[f32]| -> Vec<f64> { values.iter().take(batch.examples).map(|&x| f64::from(x)).collect() };
        self.predictions.extend(own(logits));
        self.targets.extend(own(targets));
    }

    fn finish(self: Box<Self>) -> GoalScores {
        let score = |metric: &Metric| Score::of_metric(*metric, metric.compute(&self.predictions, &self.targets));
        GoalScores {
            named: self.goal.metrics.iter().map(score).collect(),
            ..GoalScores::default()
        }
    }
}
