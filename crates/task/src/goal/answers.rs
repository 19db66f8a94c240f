//! The part of a text that answers a question.

use super::scores::Score;
use super::{Goal, GoalScores, LossLimits, OutputLayer, Scorer, SharedGoal};
use lessen_data::{Answers as FoundAnswers, Batch, Metric, Source};
use lessen_nn::models::bert::Head;
use lessen_nn::{Model, Task};
use std::sync::Arc;

/// The name of the share of questions that are answered word by word.
const EXACT_MATCH: &str = "exact_match";

/// The part of a text that answers a question; scored as SQuAD is, by F1 and exact match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answers;

/// The goal of a model for question answering.
pub(super) fn of_model(model: &Model, _threshold: f64) -> Option<SharedGoal> {
    (model.task() == Task::QuestionAnswering).then(|| -> SharedGoal { Arc::new(Answers) })
}

impl Goal for Answers {
    fn data_has(&self) -> &'static str {
        "questions with answers"
    }

    fn model_does(&self) -> &'static str {
        "finds answers"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        task == Task::QuestionAnswering
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::Head(Head::QuestionAnswering)
    }

    fn scores(&self) -> Vec<&'static str> {
        vec![Metric::F1.name(), EXACT_MATCH]
    }

    fn scorer<'a>(&'a self, _model: &Model, source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(AnswerScorer {
            found: source.questions().map(FoundAnswers::new),
        })
    }

    fn loss_limits(&self) -> Option<LossLimits> {
        Some(LossLimits {
            normalized: "is for classes and tokens, but the data has questions with answers",
            smoothing: "questions with answers",
        })
    }

    fn no_prediction(&self) -> &'static str {
        "tells classes of words or answers, not of texts; ask its tagger or answerer"
    }
}

struct AnswerScorer<'a> {
    found: Option<FoundAnswers<'a>>,
}

impl Scorer for AnswerScorer<'_> {
    fn add(&mut self, index: u64, _batch: &Batch, logits: &[f32]) {
        if let Some(found) = &mut self.found {
            found.add(index, logits);
        }
    }

    fn finish(self: Box<Self>) -> GoalScores {
        let scores = self.found.map(|found| found.scores()).unwrap_or_default();
        GoalScores {
            named: vec![
                Score::of_metric(Metric::F1, scores.f1()),
                Score::share(EXACT_MATCH, scores.exact_match()),
            ],
            examples: Some(scores.questions()),
            ..GoalScores::default()
        }
    }
}
