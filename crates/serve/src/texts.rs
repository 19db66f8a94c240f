//! The thread of a model that answers about texts. Texts of all waiting requests are computed together, in order.

use crate::metrics::Metrics;
use crate::queue::{Queue, Waiting};
use crate::refusal::Refusal;
use hyper::StatusCode;
use lessen_base::{Error, Result};
use lessen_data::{EncodedText, TextPair};
use lessen_saved::text_model::TextModel;
use std::collections::VecDeque;
use std::time::Instant;
use tokio::sync::oneshot;

/// A request about texts.
pub struct TextsJob<A> {
    /// The texts, at least one.
    pub texts: Vec<TextPair>,
    /// Name of the field that has them.
    pub field: &'static str,
    /// Whether texts beyond the model's length are cut, where a request can say so; else they are refused.
    pub truncate: Option<bool>,
    /// When its client stops waiting.
    pub deadline: Instant,
    /// Where the answer goes.
    pub reply: oneshot::Sender<std::result::Result<TextsReply<A>, Refusal>>,
}

/// The answers to a request.
#[derive(Debug)]
pub struct TextsReply<A> {
    /// An answer for each text.
    pub answers: Vec<A>,
    /// Tokens of all texts.
    pub tokens: usize,
}

impl<A> Waiting for TextsJob<A> {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    fn work(&self) -> u64 {
        let tokens = |(first, second): &TextPair| (length(first, second.as_deref()) / 4 + 1) as u64;
        self.texts.iter().map(tokens).fold(0, u64::saturating_add)
    }

    fn refuse(self, refusal: Refusal) {
        // A client that has gone needs no answer.
        let _ = self.reply.send(Err(refusal));
    }
}

/// A request whose texts are tokens.
struct Encoded<A> {
    job: TextsJob<A>,
    texts: Vec<EncodedText>,
    answers: Vec<Result<A>>,
}

/// The most characters for each token of the model's length. Longer texts are refused before they are encoded, which
/// bounds the memory of encoding.
const CHARACTERS: usize = 64;

/// Seconds that a batch should take at most, since a request that comes meanwhile waits for its end.
const SECONDS_OF_BATCH: f64 = 0.1;

/// Answers the requests of a queue until it is closed and empty.
pub fn run<M: TextModel>(model: &M, queue: &Queue<TextsJob<M::Answer>>, metrics: &Metrics, seconds: f64) {
    let mut encoded: VecDeque<Encoded<M::Answer>> = VecDeque::new();
    // The most tokens of a batch.
    let mut most = model.tokens();
    loop {
        // Requests are taken for one batch alone, so that those that come later, and ask for less, can be before the
        // rest.
        let open = encoded.iter().flat_map(|one| &one.texts[one.answers.len()..]);
        let (mut count, mut tokens) = open.fold((0, 0), |(count, tokens), text| (count + 1, tokens + text.0.len()));
        let room = model.room();
        let takes = |job: &TextsJob<M::Answer>| {
            let fits = count < room && tokens < most;
            count += job.texts.len();
            tokens += usize::try_from(job.work()).unwrap_or(usize::MAX);
            fits
        };
        let Some(jobs) = queue.take(encoded.is_empty(), seconds, takes) else {
            return;
        };
        for job in jobs {
            match encode(model, &job) {
                Ok(texts) => encoded.push_back(Encoded {
                    answers: Vec::with_capacity(texts.len()),
                    texts,
                    job,
                }),
                Err(refusal) => job.refuse(refusal),
            }
        }
        encoded.retain(|one| !one.job.is_gone());
        if encoded.front().is_some_and(|one| one.job.deadline <= Instant::now()) {
            if let Some(late) = encoded.pop_front() {
                late.job.refuse(Refusal::late(seconds));
            }
            continue;
        }
        if !encoded.is_empty() {
            let begun = Instant::now();
            let tokens = answer(model, &mut encoded, most, metrics);
            let rate = tokens as f64 / begun.elapsed().as_secs_f64().max(1e-6);
            let least = model.max_length().min(model.tokens());
            most = ((rate * SECONDS_OF_BATCH) as usize).clamp(least, model.tokens());
        }
    }
}

/// The bytes of a text or a pair.
fn length(first: &str, second: Option<&str>) -> usize {
    first.len() + second.map_or(0, str::len)
}

/// The texts of a request as tokens.
fn encode<M: TextModel>(model: &M, job: &TextsJob<M::Answer>) -> std::result::Result<Vec<EncodedText>, Refusal> {
    let (most, mut texts) = (model.max_length(), Vec::with_capacity(job.texts.len()));
    let refusal = |message: String| {
        let refusal = Refusal::field(job.field, message).with_code("context_length_exceeded");
        Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            ..refusal
        }
    };
    for (number, text) in job.texts.iter().enumerate() {
        let bytes = length(&text.0, text.1.as_deref());
        if bytes > most.saturating_mul(CHARACTERS) {
            return Err(refusal(format!(
                "text {} has {bytes} bytes, and {} are the most for a model of {most} tokens; shorten it",
                number + 1,
                most.saturating_mul(CHARACTERS)
            )));
        }
        let whole = model.encode(text, usize::MAX)?;
        let count = whole.0.len();
        texts.push(match count <= most {
            true => whole,
            false if job.truncate == Some(true) => model.encode(text, most)?,
            false => {
                let remedy = match job.truncate {
                    Some(_) => "shorten it, or cut it by \"truncate\": true",
                    None => "shorten it",
                };
                return Err(refusal(format!(
                    "text {} has {count} tokens, and the model reads {most}; {remedy}",
                    number + 1
                )));
            }
        });
    }
    Ok(texts)
}

/// Computes one batch: the first texts without an answer, of about `most` tokens; returns the number of their tokens.
fn answer<M: TextModel>(
    model: &M,
    encoded: &mut VecDeque<Encoded<M::Answer>>,
    most: usize,
    metrics: &Metrics,
) -> usize {
    let (mut batch, mut tokens) = (Vec::new(), 0);
    let open = encoded.iter().flat_map(|one| &one.texts[one.answers.len()..]);
    for text in open {
        let own = text.0.len().max(1);
        if batch.len() == model.room() || (!batch.is_empty() && tokens + own > most) {
            break;
        }
        batch.push(text);
        tokens += own;
    }
    metrics.batch(batch.len(), tokens);
    match model.ask(&batch) {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for one in encoded.iter_mut() {
                let missing = one.texts.len() - one.answers.len();
                one.answers.extend(answers.by_ref().take(missing));
            }
        }
        Err(error) => {
            // All requests that have a text in the batch.
            let mut texts = batch.len();
            while texts > 0
                && let Some(one) = encoded.pop_front()
            {
                texts = texts.saturating_sub(one.texts.len() - one.answers.len());
                one.job.refuse(Refusal::from(error.clone()));
            }
        }
    }
    while encoded.front().is_some_and(|one| one.answers.len() == one.texts.len()) {
        if let Some(Encoded { job, texts, answers }) = encoded.pop_front() {
            let tokens = texts.iter().map(|text| text.0.len()).sum();
            let named = answers.into_iter().zip(1..);
            let answers = named.map(|(answer, number)| answer.map_err(|error| unsound(job.field, number, error)));
            let reply = answers.collect::<std::result::Result<_, _>>();
            // A client that has gone needs no answer.
            let _ = job.reply.send(reply.map(|answers| TextsReply { answers, tokens }));
        }
    }
    tokens
}

/// A text for which the model has no sound numbers is a failure of the server's model.
fn unsound(field: &'static str, number: usize, error: Error) -> Refusal {
    Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        ..Refusal::field(field, format!("text {number}: {}", error.message()))
    }
}
