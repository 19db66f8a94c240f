//! The digits of a sum.

use super::logits::largest;
use super::scores::Score;
use super::{Demonstrated, Goal, GoalScores, OutputLayer, Prediction, Scorer};
use lessen_base::{Error, Result};
use lessen_data::{Adder, Batch, Field, Metric, Source, adder, exact_rows};
use lessen_nn::{Model, Task};
use lessen_train::{Generator, Sampling};

/// Number of sums that are shown.
const SHOWN: usize = 8;

/// The digits of a sum; scored by the share of sums that are right as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum;

impl Goal for Sum {
    fn data_has(&self) -> &'static str {
        "texts to continue"
    }

    fn model_does(&self) -> &'static str {
        "continues texts"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        task == Task::LanguageModelling
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::LanguageModel
    }

    fn scores(&self) -> Vec<&'static str> {
        vec![Metric::Accuracy.name()]
    }

    fn weight_of(&self, batch: &Batch) -> f64 {
        batch.tokens as f64
    }

    fn scorer<'a>(&'a self, _model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(SumScorer { right: 0, all: 0 })
    }

    fn answer_length(&self) -> Option<usize> {
        Some(adder::LENGTH)
    }

    fn answer(&self, generator: &mut Generator, text: &str) -> Result<Prediction> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let numbers = plain.trim_end_matches('=').split_once('+');
        let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number < 1000);
        let Some((a, b)) = numbers.and_then(|(a, b)| Some((number(a)?, number(b)?))) else {
            return Err(Error::user(format!(
                "'{text}' is no sum of two numbers below 1000; write one such as 123+456"
            )));
        };
        let adder = Adder::new(1, 0)?;
        let question = adder.question(a, b);
        let answer = generator.generate(&question, &Sampling::greedy(adder::DIGITS))?;
        Ok(Prediction::Sum(adder.show(&question, &answer)))
    }

    fn most_new_tokens(&self) -> usize {
        adder::DIGITS
    }

    fn no_continuation(&self) -> Option<&'static str> {
        None
    }

    /// Sums of the evaluation with their answers.
    fn demonstration(&self, demonstrated: Demonstrated<'_>) -> Result<Vec<String>> {
        let Demonstrated { dev, new_generator, .. } = demonstrated;
        let adder = Adder::new(1, 0)?;
        let sampling = Sampling::greedy(adder::DIGITS);
        let mut generator = new_generator(adder::LENGTH)?;
        let question = adder.question(0, 0).len();
        let batch = dev.eval_batch(0)?;
        let tokens = batch.get("tokens").and_then(Field::as_i32).unwrap_or_default();
        let rows = tokens.chunks_exact(adder::LENGTH).take(SHOWN.min(batch.examples));
        rows.map(|row| Ok(adder.show(row, &generator.generate(&row[..question], &sampling)?)))
            .collect()
    }
}

struct SumScorer {
    /// Sums that are right as a whole.
    right: usize,
    /// All sums.
    all: usize,
}

impl Scorer for SumScorer {
    fn add(&mut self, _index: u64, batch: &Batch, logits: &[f32]) {
        let field = batch.get("labels");
        let labels = field.and_then(Field::as_i32).unwrap_or_default();
        let rows = field.and_then(|field| field.shape().first().copied());
        let width = labels.len() / rows.unwrap_or(1).max(1);
        let (right, all) = exact_rows(&largest(logits, labels.len()), labels, width);
        self.right += right;
        self.all += all;
    }

    fn finish(self: Box<Self>) -> GoalScores {
        let accuracy = self.right as f64 / (self.all as f64).max(1.0);
        GoalScores {
            named: vec![Score::of_metric(Metric::Accuracy, accuracy)],
            ..GoalScores::default()
        }
    }
}
