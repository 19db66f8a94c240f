//! The thread of a language model. Texts of all requests are continued together; between two tokens texts begin and
//! end.

use crate::given::Prompt;
use crate::metrics::Metrics;
use crate::queue::{Queue, Waiting};
use crate::refusal::Refusal;
use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_train::{Next, Sampling, Sequences, TextStream};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

/// A request to continue texts.
pub struct ContinueJob {
    /// The prompts, at least one.
    pub prompts: Vec<Prompt>,
    /// Whether special tokens stand in the texts of prompts, so that none are added.
    pub is_rendered: bool,
    /// Name of the field that has the prompts.
    pub field: &'static str,
    /// Texts for each prompt.
    pub samples: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The most tokens to add and the name of the field that says it; none adds as many as the context has room for.
    pub tokens: Option<(usize, &'static str)>,
    /// Strings before which a text ends.
    pub stops: Vec<String>,
    /// When its client stops waiting.
    pub deadline: Instant,
    /// Where the texts go.
    pub events: UnboundedSender<Event>,
    /// The request's share of the memory for bodies, free again when its texts have ended.
    pub _share: OwnedSemaphorePermit,
}

/// What happens to the texts of a request.
#[derive(Debug)]
pub enum Event {
    /// The prompts are read, which have so many tokens.
    Begun(usize),
    /// A text goes on: its number, and what is added.
    Piece(usize, String),
    /// A text ends: its number, why, and its tokens.
    End(usize, Finish, usize),
    /// No more comes, because of this.
    Refused(Refusal),
}

/// Why a text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A token that ends texts, or a stop string.
    Stop,
    /// The most tokens.
    Length,
}

impl Finish {
    /// The word of OpenAI's clients.
    pub fn word(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
        }
    }
}

impl Waiting for ContinueJob {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn is_gone(&self) -> bool {
        self.events.is_closed()
    }

    fn refuse(self, refusal: Refusal) {
        // A client that has gone needs no answer.
        let _ = self.events.send(Event::Refused(refusal));
    }
}

/// A request whose prompts are tokens.
struct Begun {
    job: ContinueJob,
    prompts: Vec<Vec<i32>>,
    /// The most tokens to add to each prompt.
    most: Vec<usize>,
    /// The number of the next text to begin.
    next: usize,
    /// Texts that have begun and not ended.
    open: usize,
}

impl Begun {
    fn is_done(&self) -> bool {
        self.open == 0 && self.next == self.prompts.len() * self.job.samples
    }
}

/// A text that is continued.
struct Running<'a> {
    /// Number of its request.
    request: u64,
    /// Number of the text in the request.
    text: usize,
    tokens: Vec<i32>,
    most: usize,
    stream: TextStream<'a>,
}

/// Answers the requests of a queue until it is closed and empty.
pub fn run(
    sequences: &mut Sequences,
    tokenizer: &Tokenizer,
    queue: &Queue<ContinueJob>,
    metrics: &Metrics,
    seconds: f64,
) {
    let decode = |tokens: &[i32]| tokenizer.decode(tokens);
    let mut worker = Worker {
        sequences,
        tokenizer,
        decode: &decode,
        metrics,
        seconds,
        requests: BTreeMap::new(),
        order: VecDeque::new(),
        running: BTreeMap::new(),
        count: 0,
    };
    loop {
        let mut room = worker.order.is_empty() && worker.sequences.has_room();
        let jobs = queue.take(worker.requests.is_empty(), seconds, |_| {
            std::mem::replace(&mut room, false)
        });
        let Some(jobs) = jobs else { return };
        jobs.into_iter().for_each(|job| worker.add(job));
        worker.clear();
        worker.begin();
        worker.step();
    }
}

struct Worker<'a> {
    sequences: &'a mut Sequences,
    tokenizer: &'a Tokenizer,
    decode: &'a dyn Fn(&[i32]) -> Result<String>,
    metrics: &'a Metrics,
    seconds: f64,
    /// Requests by number.
    requests: BTreeMap<u64, Begun>,
    /// Numbers of requests that have texts to begin.
    order: VecDeque<u64>,
    /// Texts by their places.
    running: BTreeMap<usize, Running<'a>>,
    /// Number of requests so far.
    count: u64,
}

impl Worker<'_> {
    /// Reads the prompts of a request.
    fn add(&mut self, job: ContinueJob) {
        match self.read(&job) {
            Ok((prompts, most)) => {
                let tokens = prompts.iter().map(Vec::len).sum();
                self.metrics.read(tokens);
                // A client that has gone is noticed at the next step.
                let _ = job.events.send(Event::Begun(tokens));
                let begun = Begun {
                    job,
                    prompts,
                    most,
                    next: 0,
                    open: 0,
                };
                self.count += 1;
                self.requests.insert(self.count, begun);
                self.order.push_back(self.count);
            }
            Err(refusal) => job.refuse(refusal),
        }
    }

    /// The tokens of prompts, and the most tokens to add to each.
    fn read(&self, job: &ContinueJob) -> std::result::Result<(Vec<Vec<i32>>, Vec<usize>), Refusal> {
        let context = self.sequences.context();
        let too_long = |message: String| Refusal::field(job.field, message).with_code("context_length_exceeded");
        let (mut prompts, mut most) = (Vec::new(), Vec::new());
        for (number, prompt) in job.prompts.iter().enumerate() {
            let number = number + 1;
            let tokens = match prompt {
                Prompt::Text(text) if text.len() > context.saturating_mul(64) => {
                    return Err(too_long(format!(
                        "prompt {number} has {} bytes, which are too many for {context} tokens; shorten it",
                        text.len()
                    )));
                }
                Prompt::Text(text) if job.is_rendered => self.tokenizer.encode(text)?,
                Prompt::Text(text) => self.tokenizer.encode_prompt(text)?,
                Prompt::Tokens(tokens) => tokens.clone(),
            };
            if tokens.is_empty() {
                let message = format!("prompt {number} has no tokens; give at least one");
                return Err(Refusal::field(job.field, message));
            }
            let vocabulary = self.tokenizer.vocab_size() as i32;
            if let Some(token) = tokens.iter().find(|token| !(0..vocabulary).contains(*token)) {
                let message = format!(
                    "prompt {number} has the token {token}, and the model knows 0 to {}",
                    vocabulary - 1
                );
                return Err(Refusal::field(job.field, message));
            }
            let room = context.saturating_sub(tokens.len());
            most.push(match job.tokens {
                Some((tokens, _)) if tokens <= room => tokens,
                None if room > 0 => room,
                Some((asked, field)) if room > 0 => {
                    return Err(Refusal::field(
                        field,
                        format!(
                            "prompt {number} has {} tokens, and with {asked} more it would exceed the {context} that a text \
                             can have; ask for at most {room}",
                            tokens.len()
                        ),
                    )
                    .with_code("context_length_exceeded"));
                }
                _ => {
                    return Err(too_long(format!(
                        "prompt {number} has {} tokens, and a text can have {context} with those that are added; shorten it",
                        tokens.len()
                    )));
                }
            });
            prompts.push(tokens);
        }
        Ok((prompts, most))
    }

    /// Takes out requests of clients that have gone, and late ones.
    fn clear(&mut self) {
        let now = Instant::now();
        let is_over = |begun: &Begun| begun.job.is_gone() || begun.job.deadline <= now;
        let over: Vec<u64> = self
            .requests
            .iter()
            .filter(|(_, begun)| is_over(begun))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            self.refuse(id, Refusal::late(self.seconds));
        }
    }

    /// Ends all texts of a request with a refusal.
    fn refuse(&mut self, id: u64, refusal: Refusal) {
        self.order.retain(|other| *other != id);
        let own: Vec<usize> = self
            .running
            .iter()
            .filter(|(_, text)| text.request == id)
            .map(|(place, _)| *place)
            .collect();
        for place in own {
            self.running.remove(&place);
            self.sequences.leave(place);
        }
        if let Some(begun) = self.requests.remove(&id) {
            begun.job.refuse(refusal);
        }
    }

    /// Begins texts where there is room for them.
    fn begin(&mut self) {
        while self.sequences.has_room()
            && let Some(&id) = self.order.front()
        {
            let Some(begun) = self.requests.get_mut(&id) else {
                self.order.pop_front();
                continue;
            };
            let (text, samples) = (begun.next, begun.job.samples);
            let prompt = text / samples;
            match self
                .sequences
                .join(&begun.prompts[prompt], &begun.job.sampling, text as u64)
            {
                Ok(place) => {
                    (begun.next, begun.open) = (text + 1, begun.open + 1);
                    let running = Running {
                        request: id,
                        text,
                        tokens: Vec::new(),
                        most: begun.most[prompt],
                        stream: TextStream::new(self.decode, &begun.job.stops),
                    };
                    self.running.insert(place, running);
                    if begun.next == begun.prompts.len() * samples {
                        self.order.pop_front();
                    }
                }
                Err(error) => self.refuse(id, Refusal::from(error)),
            }
        }
    }

    /// Adds a token to every text.
    fn step(&mut self) {
        if self.running.is_empty() {
            return;
        }
        match self.sequences.step() {
            Ok(all) => {
                self.metrics.generated(all.len());
                all.into_iter().for_each(|(place, next)| self.follow(place, next));
            }
            Err(error) => {
                let all: Vec<u64> = self.requests.keys().copied().collect();
                all.into_iter()
                    .for_each(|id| self.refuse(id, Refusal::from(error.clone())));
            }
        }
        if self.running.is_empty()
            && let Err(error) = self.sequences.shrink()
        {
            let all: Vec<u64> = self.requests.keys().copied().collect();
            all.into_iter()
                .for_each(|id| self.refuse(id, Refusal::from(error.clone())));
        }
    }

    /// Takes what comes next in a text.
    fn follow(&mut self, place: usize, next: Next) {
        let Some(running) = self.running.get_mut(&place) else {
            return;
        };
        let id = running.request;
        let end = match next {
            Next::Token(token) => {
                running.tokens.push(token);
                match running.stream.push(&running.tokens) {
                    Ok(piece) => {
                        let piece = piece.to_string();
                        self.say(place, piece);
                    }
                    Err(error) => return self.refuse(id, Refusal::from(error)),
                }
                self.running.get(&place).and_then(|running| {
                    let is_full = running.tokens.len() >= running.most;
                    match (running.stream.is_stopped(), is_full) {
                        (true, _) => Some(Finish::Stop),
                        (false, true) => Some(Finish::Length),
                        (false, false) => None,
                    }
                })
            }
            Next::End { is_full } => Some(if is_full { Finish::Length } else { Finish::Stop }),
            Next::Failed(error) => return self.refuse(id, failed(error)),
        };
        if let Some(finish) = end {
            self.end(place, finish);
        }
    }

    /// Sends a piece of a text, unless it is empty.
    fn say(&self, place: usize, piece: String) {
        if let Some(running) = self.running.get(&place).filter(|_| !piece.is_empty())
            && let Some(begun) = self.requests.get(&running.request)
        {
            // A client that has gone is noticed before the next step.
            let _ = begun.job.events.send(Event::Piece(running.text, piece));
        }
    }

    /// Ends a text.
    fn end(&mut self, place: usize, finish: Finish) {
        let Some(mut running) = self.running.remove(&place) else {
            return;
        };
        self.sequences.leave(place);
        let rest = match running.stream.finish(&running.tokens) {
            Ok(rest) => rest.to_string(),
            Err(error) => return self.refuse(running.request, Refusal::from(error)),
        };
        let finish = if running.stream.is_stopped() {
            Finish::Stop
        } else {
            finish
        };
        let Some(begun) = self.requests.get_mut(&running.request) else {
            return;
        };
        if !rest.is_empty() {
            // A client that has gone is noticed before the next step.
            let _ = begun.job.events.send(Event::Piece(running.text, rest));
        }
        let _ = begun
            .job
            .events
            .send(Event::End(running.text, finish, running.tokens.len()));
        begun.open -= 1;
        if begun.is_done() {
            self.requests.remove(&running.request);
        }
    }
}

/// A text that cannot be continued is a failure of the server's model.
fn failed(error: Error) -> Refusal {
    Refusal::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}
