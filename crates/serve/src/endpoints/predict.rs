//! `POST /predict`: classes of texts, as text-embeddings-inference has them.

use crate::body::parse;
use crate::given::{Given, Pairs};
use crate::refusal::Refusal;
use crate::reply::{Reply, counted_json};
use crate::service::{Served, Service};
use lessen_saved::saved_run::{Prediction, RawAnswer};
use serde::{Deserialize, Serialize};

/// The fields of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PredictRequest {
    inputs: Pairs,
    #[serde(default)]
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Given,
    #[serde(default)]
    raw_scores: Option<bool>,
}

/// A class and its probability, or its logit.
#[derive(Serialize)]
struct ClassScore<'a> {
    score: f64,
    label: &'a str,
}

/// Answers about one text by a list of classes, the likeliest first; about several by a list of such lists.
///
/// # Errors
/// A model without classes; fields that are wrong; texts that are too many or too long; a full queue.
pub async fn predict(service: &Service, body: &[u8]) -> Result<Reply, Refusal> {
    let Served::Predictions { labels, queue } = &service.model else {
        return Err(service.unsuited("/predict"));
    };
    let request: PredictRequest = parse(body)?;
    check_direction(&request.truncation_direction)?;
    let (texts, is_one) = match request.inputs {
        Pairs::One(text) => (vec![text], true),
        Pairs::Many(texts) => (texts, false),
    };
    let (reply, share) = service
        .ask_texts(queue, texts, "inputs", Some(request.truncate.unwrap_or(false)))
        .await?;
    let mut scores = Vec::with_capacity(reply.answers.len());
    for answer in &reply.answers {
        scores.push(scored(labels, answer, request.raw_scores.unwrap_or(false)));
    }
    match (is_one, scores.first()) {
        (true, Some(one)) => counted_json(one, share),
        _ => counted_json(&scores, share),
    }
}

/// Refuses to cut texts at their start.
///
/// # Errors
/// Another word than `Right`.
pub fn check_direction(given: &Given) -> Result<(), Refusal> {
    let right = [Given::Text("Right".to_string()), Given::Text("right".to_string())];
    let why = "texts are cut at their end alone; leave it out, or say \"Right\"";
    given.only("truncation_direction", &right, why)
}

/// The classes of an answer, the likeliest first.
fn scored<'a>(labels: &'a [String], answer: &RawAnswer, raw: bool) -> Vec<ClassScore<'a>> {
    let own = match &answer.prediction {
        _ if raw => answer.logits.iter().map(|&logit| f64::from(logit)).collect(),
        Prediction::Class(_, shares) | Prediction::Labels(_, shares) => shares.clone(),
        Prediction::Score(score) => vec![*score],
        Prediction::Sum(_) => Vec::new(),
    };
    let named = own.into_iter().enumerate().map(|(class, score)| ClassScore {
        score,
        label: labels.get(class).map_or("score", String::as_str),
    });
    let mut scores: Vec<ClassScore<'_>> = named.collect();
    scores.sort_by(|a, b| b.score.total_cmp(&a.score));
    scores
}
