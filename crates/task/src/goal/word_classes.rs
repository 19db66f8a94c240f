//! A class for each word.

use super::logits::largest;
use super::scores::Score;
use super::{Goal, GoalScores, OutputLayer, Scorer, SharedGoal};
use crate::class_names::{name_classes, number_classes};
use lessen_base::Result;
use lessen_data::{Batch, EntityCounts, Field, IGNORE, Metric, Source, are_entities};
use lessen_nn::models::bert::Head;
use lessen_nn::{Model, Task};
use std::sync::Arc;

/// One of several classes for each word; scored by entities where the classes are parts of entities, else by words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WordClasses {
    /// The names of the classes.
    pub names: Vec<String>,
}

/// The goal of a model for token classification.
pub(super) fn of_model(model: &Model, _threshold: f64) -> Option<SharedGoal> {
    matches!(model.task(), Task::TokenClassification { .. }).then(|| -> SharedGoal {
        Arc::new(WordClasses {
            names: model.labels().to_vec(),
        })
    })
}

impl Goal for WordClasses {
    fn data_has(&self) -> &'static str {
        "classes of words"
    }

    fn model_does(&self) -> &'static str {
        "tells classes of words apart"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        matches!(task, Task::TokenClassification { .. })
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::Head(Head::TokenClassification)
    }

    fn scores(&self) -> Vec<&'static str> {
        if are_entities(&self.names) {
            vec![Metric::F1.name(), Metric::Accuracy.name()]
        } else {
            vec![Metric::Accuracy.name()]
        }
    }

    fn weight_of(&self, batch: &Batch) -> f64 {
        batch.labels() as f64
    }

    fn scorer<'a>(&'a self, _model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(WordScorer {
            names: &self.names,
            entities: EntityCounts::default(),
            right: 0,
            all: 0,
            of_class: vec![0; self.names.len()],
        })
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn set_classes(&self, model: &mut Model) {
        model.set_multi_label(false);
        name_classes(model, &self.names);
    }

    fn number_classes(&self, model: &mut Model) -> Result<Option<Vec<usize>>> {
        number_classes(model, &self.names)
    }

    fn no_prediction(&self) -> &'static str {
        "tells classes of words or answers, not of texts; ask its tagger or answerer"
    }
}

struct WordScorer<'a> {
    names: &'a [String],
    entities: EntityCounts,
    /// Words with the right class.
    right: usize,
    /// All words.
    all: usize,
    /// Words of each class.
    of_class: Vec<usize>,
}

impl Scorer for WordScorer<'_> {
    /// Adds the words of a batch, sentence by sentence. A word is a token with a label.
    fn add(&mut self, _index: u64, batch: &Batch, logits: &[f32]) {
        let ints = |name| batch.get(name).and_then(Field::as_i32).unwrap_or_default();
        let (labels, sentences) = (ints("labels"), ints("segments"));
        let chosen = largest(logits, labels.len());
        let name = |class: i32| self.names.get(class as usize).map_or("O", String::as_str);
        let tokens = chosen.iter().zip(labels).zip(sentences);
        let words: Vec<_> = tokens.filter(|((_, label), _)| **label != IGNORE).collect();
        for ((_, label), _) in &words {
            if let Some(count) = self.of_class.get_mut(**label as usize) {
                *count += 1;
            }
        }
        for sentence in words.chunk_by(|(_, one), (_, other)| one == other) {
            let chosen: Vec<&str> = sentence.iter().map(|((chosen, _), _)| name(**chosen)).collect();
            let labels: Vec<&str> = sentence.iter().map(|((_, label), _)| name(**label)).collect();
            self.right += chosen.iter().zip(&labels).filter(|(one, other)| one == other).count();
            self.all += labels.len();
            self.entities.add(&chosen, &labels);
        }
    }

    fn finish(self: Box<Self>) -> GoalScores {
        let accuracy = self.right as f64 / (self.all as f64).max(1.0);
        let entities = are_entities(self.names).then(|| Score::of_metric(Metric::F1, self.entities.f1()));
        let accuracy = Score::of_metric(Metric::Accuracy, accuracy);
        let most = self.of_class.iter().copied().max().unwrap_or_default();
        GoalScores {
            majority: Some(most as f64 / (self.all as f64).max(1.0)),
            named: entities.into_iter().chain([accuracy]).collect(),
            ..GoalScores::default()
        }
    }
}
