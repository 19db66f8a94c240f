//! A model that is asked about texts, whatever it answers.

use super::output::{Fields, Format, by_name};
use super::tags::fields_of;
use crate::tell;
use lessen_base::{Error, Result};
use lessen_data::{FoundAnswer, Questions, TextPair, tagged};
use lessen_nn::Task;
use lessen_saved::saved_run::{Answer, Answerer, Prediction, Predictor, SavedRun, Tagger};
use serde_json::{Value, json};
use std::sync::Arc;

/// How answers are written.
#[derive(Clone, Copy)]
pub struct AnswerOptions<'a> {
    /// The format, which decides how several values stand in a field.
    pub format: Format,
    /// Whether the probabilities of all classes are written.
    pub probabilities: bool,
    /// Separator of several labels of a text in a column.
    pub separator: &'a str,
}

/// A model on a device, to be asked about many texts.
pub struct Asking<'a> {
    model: Asked,
    labels: &'a [String],
    options: AnswerOptions<'a>,
    count: usize,
    /// How many texts say nothing to the model, and the number of the first one.
    blank: (usize, Option<usize>),
}

enum Asked {
    Texts(Predictor),
    Questions(Answerer),
    Words(Tagger),
}

impl<'a> Asking<'a> {
    /// The model of a run.
    ///
    /// # Errors
    /// A model that is not asked about texts, and one that cannot be read.
    pub fn new(run: &'a SavedRun, options: AnswerOptions<'a>) -> Result<Asking<'a>> {
        Ok(Asking {
            model: match run.task() {
                Task::QuestionAnswering => Asked::Questions(run.answerer()?),
                Task::TokenClassification { .. } => Asked::Words(run.tagger()?),
                _ => Asked::Texts(run.predictor()?),
            },
            labels: run.labels(),
            options,
            count: 0,
            blank: (0, None),
        })
    }

    /// Number of texts that are best asked about at once.
    pub fn at_once(&self) -> usize {
        match &self.model {
            Asked::Texts(predictor) => predictor.at_once(),
            Asked::Questions(answerer) => answerer.at_once(),
            Asked::Words(tagger) => tagger.at_once(),
        }
    }

    /// Asks about texts: pairs of question and context where the model finds answers. Returns the fields of each
    /// answer; an error where the model has no sound numbers for the text.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    pub fn ask(&mut self, texts: &[TextPair]) -> Result<Vec<Result<Fields>>> {
        let (options, labels) = (self.options, self.labels);
        let found: Vec<Result<Fields>> = match &self.model {
            Asked::Texts(predictor) => {
                let answers = predictor.ask(texts)?;
                let is_blank = |answer: &Result<Answer>| answer.as_ref().is_ok_and(|answer| answer.is_blank);
                for (number, _) in answers.iter().enumerate().filter(|(_, answer)| is_blank(answer)) {
                    self.blank.0 += 1;
                    self.blank.1.get_or_insert(self.count + number + 1);
                }
                let answers = answers.into_iter();
                answers
                    .map(|answer| Ok(fields(options, labels, answer?.prediction)))
                    .collect()
            }
            Asked::Questions(answerer) => {
                let pairs = texts
                    .iter()
                    .map(|(question, context)| (question.as_str(), context.as_deref().unwrap_or_default()));
                let found = answerer.ask(Arc::new(Questions::unanswered(pairs)))?;
                found.into_iter().map(|found| Ok(fields_of_answer(&found?))).collect()
            }
            Asked::Words(tagger) => {
                let sentences: Vec<Vec<String>> = texts.iter().map(|(text, _)| tagged::split_words(text)).collect();
                let tags = tagger.tag(&sentences)?;
                let both = sentences.iter().zip(tags);
                both.map(|(words, tags)| Ok(fields_of(words, &tags?, labels, options.probabilities)))
                    .collect()
            }
        };
        if found.len() != texts.len() {
            return Err(Error::internal("some texts have no answer"));
        }
        self.count += texts.len();
        Ok(found)
    }

    /// Says on stderr which texts were cut, or say nothing to the model.
    pub fn tell(&self) {
        match &self.model {
            Asked::Texts(predictor) => predictor.cut_texts().tell(),
            Asked::Questions(answerer) => answerer.cut_texts().tell(),
            // Sentences that are too long are answered in parts.
            Asked::Words(_) => {}
        }
        if let (blank, Some(number)) = self.blank {
            tell(&format!(
                "warning: {blank} of {} texts are empty or have no character that the model knows, such as number {number}; \
                 the answers to them say nothing",
                self.count
            ));
        }
    }
}

/// The fields of a prediction.
pub(super) fn fields(options: AnswerOptions<'_>, labels: &[String], prediction: Prediction) -> Fields {
    let mut fields = Fields::new();
    let mut add = |name: &str, value: Value| fields.push((name.to_string(), value));
    let all = |shares: &[f64]| -> Fields {
        match options.format {
            _ if !options.probabilities => Vec::new(),
            Format::Jsonl => vec![("probabilities".to_string(), by_name(labels, shares))],
            Format::Csv | Format::Tsv => {
                let named = labels.iter().zip(shares);
                named
                    .map(|(label, share)| (format!("probability_{label}"), json!(share)))
                    .collect()
            }
        }
    };
    match prediction {
        Prediction::Class(class, shares) => {
            add("label", json!(labels[class]));
            add("probability", json!(shares[class]));
            fields.extend(all(&shares));
        }
        Prediction::Labels(found, shares) => {
            let joined = |of: &dyn Fn(usize) -> String| -> Value {
                let items: Vec<String> = found.iter().map(|class| of(*class)).collect();
                json!(items.join(options.separator))
            };
            if options.format == Format::Jsonl {
                add("labels", found.iter().map(|class| json!(labels[*class])).collect());
                add("probability", found.iter().map(|class| json!(shares[*class])).collect());
            } else {
                add("labels", joined(&|class| labels[class].clone()));
                add("probability", joined(&|class| format!("{:.6}", shares[class])));
            }
            fields.extend(all(&shares));
        }
        Prediction::Score(score) => add("score", json!(score)),
        Prediction::Sum(sum) => add("answer", json!(sum)),
    }
    fields
}

/// The fields of a found answer. Without an answer, it has no place in the text.
pub fn fields_of_answer(found: &FoundAnswer) -> Fields {
    let place = |place: usize| (!found.text.is_empty()).then_some(place);
    let fields = [
        ("answer", json!(found.text)),
        ("start", json!(place(found.characters.start))),
        ("end", json!(place(found.characters.end))),
        ("probability", json!(found.probability)),
        ("null_margin", json!(found.null_margin)),
    ];
    fields.map(|(name, value)| (name.to_string(), value)).to_vec()
}
