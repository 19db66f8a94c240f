//! What all requests share: the model's queue, settings and counters.

use crate::body;
use crate::client::{Client, Work};
use crate::continuing::ContinueJob;
use crate::memory::{FREE, Memory, Share};
use crate::metrics::Metrics;
use crate::options::{BUFFER, Options, SPARE};
use crate::queue::Queue;
use crate::refusal::Refusal;
use crate::texts::{TextsJob, TextsReply};
use hyper::StatusCode;
use lessen_data::TextPair;
use lessen_saved::chat::ChatTemplate;
use lessen_saved::saved_run::RawAnswer;
use lessen_train::Sampling;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout_at;

/// What the model that is served can do, with the queue of its requests.
pub enum Served {
    /// Predictions about texts, with the names of the classes.
    Predictions {
        /// Names of classes; empty where it predicts a value.
        labels: Vec<String>,
        /// Requests that wait.
        queue: Queue<TextsJob<RawAnswer>>,
    },
    /// Vectors of texts.
    Embeddings {
        /// Numbers of a vector.
        width: usize,
        /// Whether the model divides vectors by their lengths.
        normalizes: bool,
        /// Requests that wait.
        queue: Queue<TextsJob<Vec<f32>>>,
    },
    /// Continuations of texts.
    Continuations {
        /// Requests that wait.
        queue: Queue<ContinueJob>,
        /// The model's own sampling. It adds `usize::MAX` tokens where the model does not say how many.
        sampling: Box<Sampling>,
        /// The model's own strings before which a text ends.
        stops: Vec<String>,
        /// The model's chat template, if it has one.
        template: Option<Arc<ChatTemplate>>,
    },
}

/// How often the bytes of a body are there at most: as bytes, as texts, and as tokens with their segments, of which
/// there are no more than bytes.
const TIMES_OF_BODY: usize = 8;

/// Bytes of answers beside those of the largest one.
const ANSWERS: usize = 16 << 20;

impl Served {
    /// The most bytes of the answer about a text, as numbers and as JSON; 0 for texts that are continued, whose bytes
    /// are counted as they come.
    fn bytes_of_text(&self) -> usize {
        let of_text = 256;
        match self {
            // A score is there as logit, as probability, with its label, and as JSON of up to twice its length.
            Served::Predictions { labels, .. } => {
                labels.iter().map(|label| 160 + 12 * label.len()).sum::<usize>() + of_text
            }
            // A number is there in four bytes, and as up to 16 characters of JSON of up to twice its length.
            Served::Embeddings { width, .. } => width * (4 + 2 * 16) + of_text,
            Served::Continuations { .. } => 0,
        }
    }
}

/// What all requests share.
pub struct Service {
    /// The settings.
    pub options: Options,
    /// The model.
    pub model: Served,
    /// The counters.
    pub metrics: Metrics,
    /// Memory for the bodies of requests.
    pub bodies: Memory,
    /// Memory for answers.
    pub answers: Memory,
    /// Places of requests that are answered at once.
    places: Arc<Semaphore>,
    /// Seconds since 1970 at the start.
    pub created: u64,
    /// The number of the next request that needs one.
    next: AtomicU64,
}

impl Service {
    /// A service that has answered nothing.
    pub fn new(options: Options, model: Served) -> Service {
        let since = since_1970();
        let largest = options.limits.texts.saturating_mul(model.bytes_of_text());
        Service {
            bodies: body::memory(options.limits.body),
            answers: Memory::new(ANSWERS, largest),
            places: Arc::new(Semaphore::new(options.limits.connections)),
            options,
            model,
            metrics: Metrics::default(),
            created: since.as_secs(),
            next: AtomicU64::new(u64::try_from(since.as_nanos()).unwrap_or_default()),
        }
    }

    /// The most bytes that connections, requests and answers take.
    pub fn most_bytes(&self) -> usize {
        let limits = &self.options.limits;
        // A connection reads ahead and writes ahead, and has its part of requests and answers that take no more.
        let of_connection = 4 * BUFFER + (TIMES_OF_BODY + 2) * FREE;
        let of_connections = (limits.connections + SPARE).saturating_mul(of_connection);
        let of_bodies = self.bodies.bytes().saturating_mul(TIMES_OF_BODY);
        of_connections
            .saturating_add(of_bodies)
            .saturating_add(self.answers.bytes())
    }

    /// Begins to work for a client's request, where fewer than the most are answered.
    ///
    /// # Errors
    /// As many requests as can be answered at once.
    pub fn begin(&self, client: &Arc<Client>) -> Result<Work, Refusal> {
        match self.places.clone().try_acquire_owned() {
            Ok(place) => Ok(Work::new(client, place)),
            Err(_) => Err(Refusal::busy(self.options.limits.connections)),
        }
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u64 {
        since_1970().as_secs()
    }

    /// A number that no other request has.
    pub fn new_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// When a request that has come now is late.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.options.limits.time
    }

    /// The time that a request may take, in seconds.
    pub fn seconds(&self) -> f64 {
        self.options.limits.time.as_secs_f64()
    }

    /// The number of requests that wait.
    pub fn waiting(&self) -> usize {
        match &self.model {
            Served::Predictions { queue, .. } => queue.len(),
            Served::Embeddings { queue, .. } => queue.len(),
            Served::Continuations { queue, .. } => queue.len(),
        }
    }

    /// Takes no more requests; those that wait are answered.
    pub fn close(&self) {
        match &self.model {
            Served::Predictions { queue, .. } => queue.close(),
            Served::Embeddings { queue, .. } => queue.close(),
            Served::Continuations { queue, .. } => queue.close(),
        }
    }

    /// Checks the name of the model in a request.
    ///
    /// # Errors
    /// The name of another model.
    pub fn check_model(&self, name: Option<&str>) -> Result<(), Refusal> {
        let own = &self.options.name;
        match name.filter(|name| name != own) {
            None => Ok(()),
            Some(name) => {
                let message = format!("there is no model '{name}' here; the one that is served is '{own}'");
                let refusal = Refusal::new(StatusCode::NOT_FOUND, message).about("model");
                Err(refusal.with_code("model_not_found"))
            }
        }
    }

    /// The refusal of an endpoint that does not go with the model.
    pub fn unsuited(&self, endpoint: &str) -> Refusal {
        let (does, ask) = match &self.model {
            Served::Predictions { .. } => ("predicts classes or values of texts", "/predict"),
            Served::Embeddings { .. } => ("embeds texts", "/embed or /v1/embeddings"),
            Served::Continuations { .. } => ("continues texts", "/v1/completions"),
        };
        let name = &self.options.name;
        Refusal::bad(format!("{endpoint} is for other models: '{name}' {does}; ask {ask}")).with_code("unsuited_model")
    }

    /// Asks the model about texts and waits for the answer, which comes with its share of the memory for answers.
    ///
    /// # Errors
    /// No texts, or too many; texts that are too long; a full queue; an answer that takes too long.
    pub async fn ask_texts<A>(
        &self,
        queue: &Queue<TextsJob<A>>,
        texts: Vec<TextPair>,
        field: &'static str,
        truncate: Option<bool>,
    ) -> Result<(TextsReply<A>, Share), Refusal> {
        let (count, most) = (texts.len(), self.options.limits.texts);
        if count == 0 {
            return Err(Refusal::field(field, "the list is empty; give at least one text"));
        }
        let is_blank = |(first, second): &TextPair| first.trim().is_empty() && second.is_none();
        if let Some(blank) = texts.iter().position(is_blank) {
            return Err(Refusal::field(
                field,
                format!("text {} is empty; give at least one character", blank + 1),
            ));
        }
        if count > most {
            let message = format!("{count} texts are more than {most} (--max-texts); send them in several requests");
            let refusal = Refusal::field(field, message).with_code("too_many_texts");
            return Err(Refusal {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                ..refusal
            });
        }
        let (deadline, mut share) = (self.deadline(), self.answers.share());
        let bytes = count.saturating_mul(self.model.bytes_of_text());
        if timeout_at(deadline.into(), share.grow(bytes)).await.is_err() {
            return Err(Refusal::no_memory());
        }
        let (reply, answer) = oneshot::channel();
        queue.push(TextsJob {
            texts,
            field,
            truncate,
            deadline,
            reply,
        })?;
        match timeout_at(deadline.into(), answer).await {
            Ok(Ok(answer)) => Ok((answer?, share)),
            Ok(Err(_)) => Err(Refusal::stopping()),
            Err(_) => Err(Refusal::late(self.seconds())),
        }
    }
}

/// The time since 1970.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
