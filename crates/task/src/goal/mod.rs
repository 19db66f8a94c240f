//! Goals: what a run learns and how it is scored. A goal is a file of this folder and a line of `OF_MODELS`.

pub mod answers;
mod class_table;
pub mod classes;
pub mod labels;
pub mod logits;
pub mod masked_tokens;
pub mod next_token;
mod prediction;
pub mod scores;
pub mod sum;
pub mod value;
pub(crate) mod word_classes;

pub use self::prediction::Prediction;

use self::scores::{Score, ScoreTable};
use lessen_base::{Error, Result};
use lessen_data::{Batch, LabelKind, Metric, Source, Tokenizer};
use lessen_nn::models::bert::Head;
use lessen_nn::{Model, Task};
use lessen_train::Generator;
use std::fmt::Debug;
use std::sync::Arc;

/// The name of the mean loss among the scores of an evaluation.
pub const LOSS: &str = "loss";

/// A goal that tasks share.
pub type SharedGoal = Arc<dyn Goal>;

/// The goal of a model, by its training objective; none where the objective is another goal's.
type OfModel = fn(&Model, f64) -> Option<SharedGoal>;

/// The goals that a model can have been trained for.
const OF_MODELS: [OfModel; 7] = [
    classes::of_model,
    labels::of_model,
    value::of_model,
    next_token::of_model,
    masked_tokens::of_model,
    word_classes::of_model,
    answers::of_model,
];

/// The goal of a saved model. Where a text can have several labels, labels with at least the probability `threshold`
/// are predicted.
pub fn of_model(model: &Model, threshold: f64) -> SharedGoal {
    let found = OF_MODELS.iter().find_map(|of_model| of_model(model, threshold));
    found.unwrap_or_else(|| Arc::new(next_token::NextToken))
}

/// The goal of labels with these metrics. Where a text can have several labels, labels with at least the probability
/// `threshold` are predicted.
pub fn of_labels(kind: LabelKind, metrics: Vec<Metric>, threshold: f64) -> SharedGoal {
    match kind {
        LabelKind::Classes(names) => Arc::new(classes::Classes { names, metrics }),
        LabelKind::Sets(names) => Arc::new(labels::Labels { names, threshold }),
        LabelKind::Score => Arc::new(value::Values { metrics }),
    }
}

/// Where a goal's model gets its output layer from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLayer {
    /// The head of an encoder.
    Head(Head),
    /// The head of a language model that continues texts.
    LanguageModel,
}

/// Why a goal refuses a setting of its loss, as the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossLimits {
    /// Why `train.loss` cannot be a normalized cross entropy.
    pub normalized: &'static str,
    /// The labels of the data in place of classes and tokens, so that `train.label_smoothing` has no meaning.
    pub smoothing: &'static str,
}

/// What a run learns and how it is scored.
pub trait Goal: Debug + Send + Sync {
    /// The labels of data for this goal, in messages: `classes`.
    fn data_has(&self) -> &'static str;

    /// The ability of a model for this goal, in messages: `tells classes apart`.
    fn model_does(&self) -> &'static str;

    /// Whether a model with this training objective learns the goal.
    fn is_learned_by(&self, task: Task) -> bool;

    /// Where the output layer comes from when a model starts from a checkpoint, and the head of an encoder from
    /// scratch.
    fn output_layer(&self) -> OutputLayer;

    /// The names of the scores of an evaluation, the one that decides first.
    fn scores(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The metrics that it can be scored with.
    fn possible_scores(&self) -> &'static [Metric] {
        &[]
    }

    /// The same goal, scored with a further one of its possible metrics.
    fn with_metric(&self, metric: Metric) -> Option<SharedGoal> {
        let _ = metric;
        None
    }

    /// The same goal, with another probability from which on a label is predicted; none where labels exclude each
    /// other.
    fn with_threshold(&self, threshold: f64) -> Option<SharedGoal> {
        let _ = threshold;
        None
    }

    /// The weight of a batch in a mean: the number of its predictions, tokens or examples.
    fn weight_of(&self, batch: &Batch) -> f64 {
        batch.examples as f64
    }

    /// Whether the scores need the logits of an evaluation, beside its loss.
    fn reads_logits(&self) -> bool {
        true
    }

    /// Counts the predictions of an evaluation of a model on a source.
    fn scorer<'a>(&'a self, model: &Model, source: &'a dyn Source) -> Box<dyn Scorer + 'a>;

    /// The names of the classes or labels; empty where there are none.
    fn class_names(&self) -> &[String] {
        &[]
    }

    /// Whether `train.class_weights` can weigh the examples of each class.
    fn has_class_weights(&self) -> bool {
        false
    }

    /// Why its loss is no cross entropy over classes or tokens that exclude each other; none where it is.
    fn loss_limits(&self) -> Option<LossLimits> {
        None
    }

    /// Names the outputs of a model for this goal.
    fn set_classes(&self, model: &mut Model) {
        model.set_multi_label(false);
    }

    /// Numbers the classes of a trained model as the data does.
    ///
    /// # Errors
    /// A class that the model does not know.
    fn number_classes(&self, model: &mut Model) -> Result<Option<Vec<usize>>> {
        let _ = model;
        Ok(None)
    }

    /// Whether speed is told in tokens rather than in examples.
    fn counts_tokens(&self) -> bool {
        false
    }

    /// How the labels of examples are read that a saved model is asked about; none for a model that is not asked about
    /// whole texts.
    fn label_kind(&self) -> Option<LabelKind> {
        None
    }

    /// The prediction that follows from an example's logits; none for a goal without predictions of whole examples.
    fn prediction(&self, logits: &[f32]) -> Option<Prediction> {
        let _ = logits;
        None
    }

    /// The number of tokens that a generator keeps to answer a text; none where predictions follow from logits.
    fn answer_length(&self) -> Option<usize> {
        None
    }

    /// The answer of a generator to a text.
    ///
    /// # Errors
    /// A text that is no question for this goal.
    fn answer(&self, generator: &mut Generator, text: &str) -> Result<Prediction> {
        let _ = (generator, text);
        Err(Error::internal("a goal without generated answers"))
    }

    /// Most tokens that a text is continued by.
    fn most_new_tokens(&self) -> usize {
        usize::MAX
    }

    /// Why a model for this goal is not asked about whole texts, as the end of a sentence.
    fn no_prediction(&self) -> &'static str {
        "gives no predictions of texts"
    }

    /// Why a model for this goal continues no texts, as the end of a sentence; none where it does.
    fn no_continuation(&self) -> Option<&'static str> {
        Some("is a classifier; ask it about a text with `lessen predict`")
    }

    /// A demonstration of a trained model in a few lines; none for most goals.
    ///
    /// # Errors
    /// Data that cannot be read any more, and a device that fails.
    fn demonstration(&self, demonstrated: Demonstrated<'_>) -> Result<Vec<String>> {
        let _ = demonstrated;
        Ok(Vec::new())
    }
}

/// The inputs of a demonstration.
pub struct Demonstrated<'a> {
    /// The tokenizer; none for images.
    pub tokenizer: Option<&'a Tokenizer>,
    /// The batches of the evaluation.
    pub dev: &'a dyn Source,
    /// Seed of draws.
    pub seed: u64,
    /// Makes a generator, given the number of tokens that it keeps.
    pub new_generator: Box<dyn FnOnce(usize) -> Result<Generator> + 'a>,
}

/// Counts the predictions of an evaluation, batch by batch.
pub trait Scorer {
    /// Adds a batch of the evaluation by its number, with the logits that the model has for it.
    fn add(&mut self, index: u64, batch: &Batch, logits: &[f32]);

    /// The scores of all batches.
    fn finish(self: Box<Self>) -> GoalScores;
}

/// The scores of an evaluation beside its loss.
#[derive(Clone, Debug, Default)]
pub struct GoalScores {
    /// The scores, the one that decides first.
    pub named: Vec<Score>,
    /// The number of examples where a batch does not tell it.
    pub examples: Option<usize>,
    /// The scores of each class, where there are classes.
    pub table: Option<Arc<dyn ScoreTable>>,
    /// Whether the loss has a perplexity.
    pub has_perplexity: bool,
    /// The accuracy of the most frequent class, where there are classes.
    pub majority: Option<f64>,
}

/// The scores of a goal that is scored by its loss alone.
pub(crate) struct LossOnly {
    /// Whether the loss has a perplexity.
    pub has_perplexity: bool,
}

impl Scorer for LossOnly {
    fn add(&mut self, _index: u64, _batch: &Batch, _logits: &[f32]) {}

    fn finish(self: Box<Self>) -> GoalScores {
        GoalScores {
            has_perplexity: self.has_perplexity,
            ..GoalScores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_nn::models::bert::{Bert, BertConfig};
    use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
    use lessen_nn::numbered_labels;

    #[test]
    fn a_model_has_the_one_goal_that_it_learns() {
        let bert = |head: Head, labels: usize, multi_label: bool| {
            let config = BertConfig {
                labels: numbered_labels(labels),
                multi_label,
                ..BertConfig::default()
            };
            Model::from(Bert { config, head })
        };
        let config = Gpt2Config::default();
        let models = [
            (bert(Head::SequenceClassification, 3, false), "tells classes apart"),
            (
                bert(Head::SequenceClassification, 3, true),
                "gives texts several labels",
            ),
            (bert(Head::SequenceClassification, 1, false), "gives scores"),
            (
                bert(Head::TokenClassification, 3, false),
                "tells classes of words apart",
            ),
            (bert(Head::QuestionAnswering, 2, false), "finds answers"),
            (bert(Head::MaskedLM, 2, false), "fills in masked tokens"),
            (GPT2LMHeadModel { config }.into(), "continues texts"),
        ];
        for (model, does) in models {
            let found = OF_MODELS.iter().filter(|of_model| of_model(&model, 0.5).is_some());
            assert_eq!(found.count(), 1, "{does}");
            let goal = of_model(&model, 0.5);
            assert_eq!(goal.model_does(), does);
            assert!(goal.is_learned_by(model.task()));
        }
    }
}
