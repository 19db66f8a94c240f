//! Evaluation: a pass over a split without dropout, and the scores that come out.

use super::goal::{EXACT_MATCH, Goal, is_error};
use lessen_base::Result;
use lessen_data::{
    Answers, Batch, ClassScores, Confusion, EntityCounts, Field, IGNORE, LabelCounts, Metric, Source, are_entities,
    exact_rows,
};
use lessen_device::Host;
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Context, Model};
use lessen_train::{Function, Inputs, Session};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// The scores of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// Mean loss over everything that was to be predicted, in nats for classes and tokens.
    pub loss: f64,
    /// The scores by name, such as `accuracy`; the one that decides first. None for language models.
    pub named: Vec<(&'static str, f64)>,
    /// Examples seen.
    pub examples: usize,
    /// The exponential of the loss of a language model.
    pub perplexity: Option<f64>,
    /// Which of a classifier's classes was taken for which.
    pub confusion: Option<Confusion>,
    /// How well each label is found where texts can have several.
    pub labels: Option<LabelCounts>,
}

impl Scores {
    /// The score that decides which model is best, greater is better: the one of this name, the negative of the loss
    /// for `loss`, or without a name the first score, if there is one, else the negative of the loss. Of an error it is
    /// the negative, too.
    pub fn deciding(&self, name: Option<&str>) -> f64 {
        let mut named = self.named.iter();
        let found = match name {
            Some(name) => named.find(|(own, _)| *own == name),
            None => named.next(),
        };
        found.map_or(-self.loss, |(name, score)| if is_error(name) { -score } else { *score })
    }

    /// As the keys of a JSON object: `dev_loss`, `dev_accuracy`.
    pub fn to_json(&self, split: &str) -> Map<String, Value> {
        let named = self
            .named
            .iter()
            .map(|(name, score)| (format!("{split}_{name}"), json!(score)));
        let perplexity = self
            .perplexity
            .map(|perplexity| (format!("{split}_perplexity"), json!(perplexity)));
        let loss = (format!("{split}_loss"), json!(self.loss));
        named.chain([loss]).chain(perplexity).collect()
    }

    /// The confusion matrix of an evaluation after `step` steps, as it is written: the names of the classes, and a row
    /// for each class that was right, with a count for each class that was predicted.
    pub(crate) fn confusion_json(&self, step: u64) -> Option<Value> {
        let confusion = self.confusion.as_ref()?;
        let counts: Vec<&[u64]> = confusion.rows().collect();
        Some(json!({ "step": step, "classes": confusion.names(), "counts": counts }))
    }

    /// How well each label was found after `step` steps, as it is written: a row for each label, then means.
    pub(crate) fn labels_json(&self, step: u64) -> Option<Value> {
        let labels = self.labels.as_ref()?;
        let names = labels.names().iter().map(String::as_str);
        let means = [("micro", labels.micro()), ("mean", labels.mean())];
        let rows: Vec<Value> = names
            .zip(labels.classes())
            .chain(means)
            .map(|(name, scores)| class_json(name, scores))
            .collect();
        Some(json!({ "step": step, "labels": rows }))
    }

    /// For people: `accuracy 88.61 %, loss 0.3911`.
    pub fn show(&self) -> String {
        let show = |(name, score): &(&str, f64)| match *name {
            "accuracy" | "f1" | "micro_f1" | "macro_f1" | "subset_accuracy" | EXACT_MATCH => {
                format!("{} {:.2} %, ", name.replace('_', " "), 100.0 * score)
            }
            _ => format!("{name} {score:.4}, "),
        };
        let named: String = self.named.iter().map(show).collect();
        let perplexity = self
            .perplexity
            .map(|perplexity| format!(", perplexity {perplexity:.3}"));
        format!("{named}loss {:.4}{}", self.loss, perplexity.unwrap_or_default())
    }
}

/// The scores of a class, or a mean over classes, as JSON.
pub fn class_json(name: &str, scores: ClassScores) -> Value {
    let ClassScores {
        precision,
        recall,
        f1,
        support,
    } = scores;
    json!({ "name": name, "precision": precision, "recall": recall, "f1": f1, "support": support })
}

/// The arrays of a batch as inputs of a graph.
pub fn inputs_of(batch: &Batch) -> Vec<(&str, Host<'_>)> {
    fn host(field: &Field) -> Host<'_> {
        match field {
            Field::I32 { data, .. } => Host::I32(data),
            Field::F32 { data, .. } => Host::F32(data),
            Field::Bool { data, .. } => Host::Bool(data),
        }
    }
    batch
        .fields
        .iter()
        .map(|(name, field)| (name.as_str(), host(field)))
        .collect()
}

/// What an evaluation asks of a model: the loss, and the scores of classes where they are needed.
pub(crate) fn trace<'g>(
    cx: &Context<'g>,
    model: &Model,
    goal: &Goal,
    shape: BatchShape,
) -> Vec<(&'static str, Tensor<'g>)> {
    let outputs = model.forward(cx, shape);
    match goal {
        Goal::NextToken | Goal::MaskedTokens => vec![("loss", outputs.loss)],
        _ => vec![("loss", outputs.loss), ("logits", outputs.logits)],
    }
}

/// The layout of a batch.
pub fn shape_of(batch: &Batch) -> BatchShape {
    let extents = |name| batch.get(name).map_or(&[][..], Field::shape);
    if let &[size, height, width, channels] = extents("images") {
        return BatchShape::Images {
            size,
            image: [height, width, channels],
            mixed: batch.get("targets").is_some(),
        };
    }
    match (extents("tokens"), extents("starts"), extents("places")) {
        (&[_, tokens], &[starts], &[masked]) => BatchShape::Masked {
            size: starts - 1,
            tokens,
            masked,
        },
        (&[_, tokens], &[starts], _) => BatchShape::Packed {
            size: starts - 1,
            tokens,
        },
        (tokens, ..) => BatchShape::Padded {
            size: tokens.first().copied().unwrap_or(0),
            length: tokens.last().copied().unwrap_or(0),
        },
    }
}

/// The layout of a source's batches of `size` texts with so many tokens.
pub(crate) fn packed_shape(source: &dyn Source, size: usize, tokens: usize) -> BatchShape {
    match source.masked_places(tokens) {
        Some(masked) => BatchShape::Masked { size, tokens, masked },
        None => BatchShape::Packed { size, tokens },
    }
}

/// The functions of an evaluation, by the layout of the batches that they are for.
pub(crate) type Functions = HashMap<BatchShape, Function>;

/// Evaluates a model on the evaluation side of a source. `functions` are made from [`trace`]; where one is lacking, it
/// is added, that for the largest batch first.
///
/// # Errors
/// Data that does not fit the model.
pub(crate) fn evaluate(
    session: &mut Session,
    functions: &mut Functions,
    (model, goal): (&Model, &Goal),
    source: &dyn Source,
) -> Result<Scores> {
    let mut function_for = |session: &mut Session, shape: BatchShape| -> Result<Function> {
        if let Some(function) = functions.get(&shape) {
            return Ok(*function);
        }
        let function = session.function(|cx| trace(cx, model, goal, shape))?;
        functions.insert(shape, function);
        Ok(function)
    };
    if let Some((size, tokens)) = source.largest_eval_layout(0..source.eval_batches()) {
        function_for(session, packed_shape(source, size, tokens))?;
    }
    let (mut loss, mut weight, mut examples) = (0.0, 0.0, 0);
    let (mut predictions, mut labels) = (Vec::new(), Vec::new());
    let (mut right, mut rows) = (0, 0);
    let mut words = WordScores::default();
    let mut answers = source.questions().map(Answers::new);
    let mut confusion = Confusion::new(model.labels().to_vec());
    let mut sets = LabelCounts::new(model.labels().to_vec());
    for index in 0..source.eval_batches() {
        let batch = source.eval_batch(index)?;
        let function = function_for(session, shape_of(&batch))?;
        let inputs: &Inputs<'_> = &inputs_of(&batch);
        let results = session.run(function, inputs)?;
        let own = goal.weight_of(&batch);
        if own > 0.0 {
            loss += own * results.scalar("loss")?;
        }
        weight += own;
        examples += batch.examples;
        let has_logits = results.names().any(|name| name == "logits");
        let logits = if has_logits { results.f32("logits")? } else { &[] };
        let ints = |name| batch.get(name).and_then(Field::as_i32).unwrap_or_default();
        match goal {
            Goal::NextToken | Goal::MaskedTokens => {}
            Goal::Sum => {
                let labels = ints("labels");
                let width = labels.len() / batch.get("labels").map_or(1, |field| field.shape()[0].max(1));
                let chosen = largest(logits, labels.len());
                let (more_right, more_rows) = exact_rows(&chosen, labels, width);
                right += more_right;
                rows += more_rows;
            }
            Goal::Answers => {
                if let Some(answers) = &mut answers {
                    answers.add(index, logits);
                }
            }
            Goal::WordClasses(names) => {
                let (labels, segments) = (ints("labels"), ints("segments"));
                words.add(names, &largest(logits, labels.len()), labels, segments);
            }
            Goal::Classes(..) => {
                let chosen = largest(logits, ints("labels").len());
                for (&prediction, &label) in chosen.iter().zip(ints("labels")).take(batch.examples) {
                    if label != IGNORE {
                        predictions.push(f64::from(prediction));
                        labels.push(f64::from(label));
                        confusion.add(label as usize, prediction as usize);
                    }
                }
            }
            Goal::Labels(names, threshold) => {
                let targets = batch.get("targets").and_then(Field::as_f32).unwrap_or_default();
                let rows = logits.chunks_exact(names.len()).zip(targets.chunks_exact(names.len()));
                for (logits, targets) in rows.take(batch.examples) {
                    let predicted: Vec<bool> = logits.iter().map(|logit| sigmoid(*logit) >= *threshold).collect();
                    let labels: Vec<bool> = targets.iter().map(|target| *target > 0.5).collect();
                    sets.add(&labels, &predicted);
                }
            }
            Goal::Score(_) => {
                let targets = batch.get("targets").and_then(Field::as_f32).unwrap_or_default();
                predictions.extend(logits.iter().take(batch.examples).map(|&score| f64::from(score)));
                labels.extend(targets.iter().take(batch.examples).map(|&score| f64::from(score)));
            }
        }
    }
    let score = |metric: &Metric| (metric.name(), metric.compute(&predictions, &labels));
    let named = match goal {
        Goal::NextToken | Goal::MaskedTokens => Vec::new(),
        Goal::WordClasses(names) => words.named(names),
        Goal::Labels(..) => sets.scores().to_vec(),
        Goal::Answers => {
            let scores = answers.map(|answers| answers.scores()).unwrap_or_default();
            examples = scores.questions();
            vec![(Metric::F1.name(), scores.f1()), (EXACT_MATCH, scores.exact_match())]
        }
        Goal::Sum => vec![(Metric::Accuracy.name(), right as f64 / (rows as f64).max(1.0))],
        Goal::Classes(_, metrics) | Goal::Score(metrics) => metrics.iter().map(score).collect(),
    };
    let loss = loss / weight.max(1.0);
    Ok(Scores {
        loss,
        named,
        examples,
        perplexity: matches!(goal, Goal::NextToken).then(|| loss.exp()),
        confusion: matches!(goal, Goal::Classes(..)).then_some(confusion),
        labels: matches!(goal, Goal::Labels(..)).then_some(sets),
    })
}

/// What is counted of the classes of words.
#[derive(Default)]
struct WordScores {
    entities: EntityCounts,
    right: usize,
    all: usize,
}

impl WordScores {
    /// Adds the words of a batch: those of its tokens that have labels, sentence by sentence.
    fn add(&mut self, names: &[String], chosen: &[i32], labels: &[i32], segments: &[i32]) {
        let name = |class: i32| names.get(class as usize).map_or("O", String::as_str);
        let tokens = chosen.iter().zip(labels).zip(segments);
        let of_words: Vec<_> = tokens.filter(|((_, label), _)| **label != IGNORE).collect();
        for sentence in of_words.chunk_by(|(_, one), (_, other)| one == other) {
            let chosen: Vec<&str> = sentence.iter().map(|((chosen, _), _)| name(**chosen)).collect();
            let labels: Vec<&str> = sentence.iter().map(|((_, label), _)| name(**label)).collect();
            self.right += chosen.iter().zip(&labels).filter(|(one, other)| one == other).count();
            self.all += labels.len();
            self.entities.add(&chosen, &labels);
        }
    }

    /// The scores by name, the one that decides first.
    fn named(&self, names: &[String]) -> Vec<(&'static str, f64)> {
        let accuracy = self.right as f64 / (self.all as f64).max(1.0);
        let entities = are_entities(names).then(|| (Metric::F1.name(), self.entities.f1()));
        entities
            .into_iter()
            .chain([(Metric::Accuracy.name(), accuracy)])
            .collect()
    }
}

/// The probability of a label whose logit this is.
pub(crate) fn sigmoid(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

/// The position of the largest element in each of `rows` equal rows; the first of equals.
pub(crate) fn largest(values: &[f32], rows: usize) -> Vec<i32> {
    let width = (values.len() / rows.max(1)).max(1);
    let best = |row: &[f32]| {
        let mut best = 0;
        for (index, value) in row.iter().enumerate() {
            if *value > row[best] {
                best = index;
            }
        }
        best as i32
    };
    values.chunks_exact(width).map(best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_each_row_is_found() {
        assert_eq!(largest(&[0.0, 2.0, 2.0, -1.0, -3.0, -2.0], 2), [1, 0]);
        assert_eq!(largest(&[], 0), [0i32; 0]);
    }

    #[test]
    fn scores_are_named_after_their_split() {
        let scores = Scores {
            loss: 0.5,
            named: vec![("accuracy", 0.875)],
            examples: 8,
            perplexity: None,
            confusion: None,
            labels: None,
        };
        assert_eq!(
            Value::from(scores.to_json("dev")).to_string(),
            r#"{"dev_accuracy":0.875,"dev_loss":0.5}"#
        );
        assert_eq!(
            (scores.deciding(None), scores.show().as_str()),
            (0.875, "accuracy 87.50 %, loss 0.5000")
        );
        assert_eq!(
            (scores.deciding(Some("loss")), scores.deciding(Some("accuracy"))),
            (-0.5, 0.875)
        );
        let error = Scores {
            named: vec![("mse", 0.25), ("pearson", 0.5)],
            ..scores.clone()
        };
        assert_eq!((error.deciding(None), error.deciding(Some("pearson"))), (-0.25, 0.5));
        let text = Scores {
            named: vec![],
            perplexity: Some(1.6487),
            ..scores
        };
        assert_eq!(
            (text.deciding(None), text.show().as_str()),
            (-0.5, "loss 0.5000, perplexity 1.649")
        );
        assert_eq!(
            Value::from(text.to_json("dev")).to_string(),
            r#"{"dev_loss":0.5,"dev_perplexity":1.6487}"#
        );
    }
}
