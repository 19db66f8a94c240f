//! The thread of a language model. Texts of all requests are continued together; between two tokens texts begin and
//! end. Where there is room for another text, it is one of the request of which the fewest have begun for its age, so
//! a new request comes first, and one of many texts gets another one every few seconds at least; a request whose
//! client leaves its texts unread waits. Where there is no room for a new request, the text that has had the most
//! tokens since it began or went on makes room, and goes on later.

mod events;
mod job;
mod prompts;

use self::job::{Begun, NEW};
use crate::metrics::Metrics;
use crate::queue::{Queue, Waiting};
use crate::refusal::Refusal;
use lessen_base::{Error, Result};
use lessen_data::{StopStrings, TextStream, Tokenizer};
use lessen_train::{Next, Sampling, Sequences, Suspended};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub use self::events::{Event, Events, Finish, events};
pub use self::job::ContinueJob;

/// How long a queue is waited for while all texts that could begin are of clients that read nothing.
const PAUSE: Duration = Duration::from_millis(20);

/// Tokens that a text gets before it makes room for a new request.
const SLICE: usize = 32;

/// A text that is continued, or a search for the best continuations of a prompt.
struct Running<'a> {
    /// Number of its request.
    request: u64,
    /// Number of the text in the request, or of the first text that is searched.
    text: usize,
    tokens: Vec<i32>,
    most: usize,
    /// The number of its tokens when it began or went on.
    since: usize,
    stream: TextStream<'a>,
    stops: StopStrings<'a>,
}

/// Answers the requests of a queue until it is closed and empty.
pub fn run(
    sequences: &mut Sequences,
    tokenizer: &Tokenizer,
    queue: &Queue<ContinueJob>,
    metrics: &Metrics,
    seconds: f64,
) {
    let mut worker = Worker {
        sequences,
        tokenizer,
        metrics,
        seconds,
        requests: BTreeMap::new(),
        running: BTreeMap::new(),
        suspended: BTreeMap::new(),
        count: 0,
    };
    loop {
        // Without requests there is nothing to do but to wait for one.
        if worker.requests.is_empty() {
            match queue.take(true, seconds, one()) {
                Some(jobs) => jobs.into_iter().for_each(|job| worker.add(job)),
                None => return,
            }
        }
        worker.clear();
        worker.begin(queue);
        queue.hold(worker.waiting().filter(|(_, begun)| begun.open == 0).count());
        if worker.running.is_empty() && !worker.requests.is_empty() {
            queue.pause(PAUSE);
        }
        worker.step();
    }
}

/// Takes one job of a queue.
fn one() -> impl FnMut(&ContinueJob) -> bool {
    let mut room = true;
    move |_| std::mem::replace(&mut room, false)
}

/// What comes of a step of a text: nothing, or why its request is not answered.
type Answered = std::result::Result<(), Refusal>;

struct Worker<'a> {
    sequences: &'a mut Sequences,
    tokenizer: &'a Tokenizer,
    metrics: &'a Metrics,
    seconds: f64,
    /// Requests by number.
    requests: BTreeMap<u64, Begun>,
    /// Texts by their places.
    running: BTreeMap<usize, Running<'a>>,
    /// Texts that have made room, by their requests.
    suspended: BTreeMap<u64, Vec<(Running<'a>, Suspended)>>,
    /// Number of requests so far.
    count: u64,
}

impl Worker<'_> {
    /// Reads the prompts of a request.
    fn add(&mut self, job: ContinueJob) {
        match prompts::read(&job, self.tokenizer, self.sequences.context()) {
            Ok((prompts, most)) => {
                let tokens = prompts.iter().map(Vec::len).sum();
                self.metrics.read(tokens);
                if let Err(refusal) = job.events.send(Event::Begun(tokens)) {
                    return job.refuse(refusal);
                }
                // The tokens stand for the texts from here on.
                let begun = Begun {
                    since: Instant::now(),
                    job: ContinueJob {
                        prompts: Vec::new(),
                        ..job
                    },
                    prompts,
                    most,
                    next: 0,
                    open: 0,
                };
                self.count += 1;
                self.requests.insert(self.count, begun);
            }
            Err(refusal) => job.refuse(refusal),
        }
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
        self.suspended.remove(&id);
        if let Some(begun) = self.requests.remove(&id) {
            begun.job.refuse(refusal);
        }
    }

    /// Begins texts where there is room for them.
    fn begin(&mut self, queue: &Queue<ContinueJob>) {
        loop {
            let mut next = self.next();
            // Of a request that waits in the queue nothing has begun.
            let waits = queue.has_jobs() || next.is_some_and(|(rank, _)| rank <= NEW);
            let has_room = self.sequences.has_room_for(&Sampling::default()) || (waits && self.make_room());
            if has_room && next.is_none_or(|(rank, _)| rank > NEW) {
                for job in queue.take(false, self.seconds, one()).into_iter().flatten() {
                    self.add(job);
                    next = self.next();
                }
            }
            let Some((_, id)) = next else { return };
            let Some(begun) = self.requests.get(&id) else { return };
            // One that needs more room than there is keeps it from those after it.
            if !self.sequences.has_room_for(&begun.job.sampling) {
                return;
            }
            let begun = match self.suspended.contains_key(&id) {
                true => self.resume(id),
                false => self.begin_turn(id),
            };
            if let Err(error) = begun {
                self.refuse(id, Refusal::from(error));
            }
        }
    }

    /// Takes out the text that has had the most tokens since it began or went on, where it has had its share; whether
    /// there is one.
    fn make_room(&mut self) -> bool {
        let had = |running: &Running<'_>| running.tokens.len() - running.since;
        let longest = self.running.iter().max_by_key(|(_, running)| had(running));
        let Some(place) = longest
            .filter(|(_, running)| had(running) >= SLICE)
            .map(|(place, _)| *place)
        else {
            return false;
        };
        match (self.sequences.suspend(place), self.running.remove(&place)) {
            (Some(suspended), Some(running)) => {
                self.suspended
                    .entry(running.request)
                    .or_default()
                    .push((running, suspended));
                true
            }
            (_, running) => {
                self.running.extend(running.map(|running| (place, running)));
                false
            }
        }
    }

    /// Lets a text of a request go on that has made room.
    fn resume(&mut self, id: u64) -> Result<()> {
        let Some(own) = self.suspended.get_mut(&id) else {
            return Ok(());
        };
        let taken = own.pop();
        if own.is_empty() {
            self.suspended.remove(&id);
        }
        if let Some((mut running, suspended)) = taken {
            running.since = running.tokens.len();
            let place = self.sequences.resume(suspended)?;
            self.running.insert(place, running);
        }
        Ok(())
    }

    /// The requests that have turns to begin, and clients that read what comes.
    fn waiting(&self) -> impl Iterator<Item = (u64, &Begun)> {
        let all = self.requests.iter().map(|(id, begun)| (*id, begun));
        all.filter(|(id, begun)| {
            let has_turns = !begun.has_all_begun() || self.suspended.contains_key(id);
            has_turns && !begun.job.events.is_left_unread()
        })
    }

    /// The request whose turn is next, the first one of several: its rank and its number.
    fn next(&self) -> Option<(i64, u64)> {
        self.waiting().map(|(id, begun)| (begun.rank(), id)).min()
    }

    /// Begins the next turn of a request.
    fn begin_turn(&mut self, id: u64) -> Result<()> {
        let Some(begun) = self.requests.get_mut(&id) else {
            return Ok(());
        };
        let text = begun.next * begun.texts_of_turn();
        let (prompt, stops) = (begun.prompt_of(text), &begun.job.stops);
        let running = Running {
            request: id,
            text,
            tokens: Vec::new(),
            most: begun.most[prompt],
            since: 0,
            stream: TextStream::new(self.tokenizer, &begun.prompts[prompt], stops)?,
            stops: StopStrings::new(self.tokenizer, stops)?,
        };
        let sampling = Sampling {
            tokens: running.most,
            ..begun.job.sampling.clone()
        };
        let place = self.sequences.join(&begun.prompts[prompt], &sampling, text as u64)?;
        (begun.next, begun.open) = (begun.next + 1, begun.open + 1);
        self.running.insert(place, running);
        Ok(())
    }

    /// Adds a token to every text.
    fn step(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let running = &self.running;
        let is_complete = |place: usize, tokens: &[i32], prompt: usize| match running.get(&place) {
            Some(running) => running.stops.are_completed(&tokens[prompt..]),
            None => Ok(false),
        };
        match self.sequences.step(&is_complete) {
            Ok(all) => {
                self.metrics
                    .generated(all.iter().map(|(_, next)| tokens_of(next)).sum());
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
        let followed = match next {
            Next::Token(token) => running.push(token).map_err(Refusal::from).and_then(|(piece, end)| {
                self.say(place, piece)?;
                end.map_or(Ok(()), |finish| self.end(place, finish))
            }),
            Next::End { is_full } => self.end(place, if is_full { Finish::Length } else { Finish::Stop }),
            Next::Found(found) => self.found(place, &found),
            Next::Failed(error) => Err(failed(error)),
        };
        if let Err(refusal) = followed {
            self.refuse(id, refusal);
        }
    }

    /// Sends a piece of a text, unless it is empty.
    fn say(&self, place: usize, piece: String) -> Answered {
        match self.running.get(&place).filter(|_| !piece.is_empty()) {
            Some(running) => self.send(running.request, Event::Piece(running.text, piece)),
            None => Ok(()),
        }
    }

    /// Ends a text.
    fn end(&mut self, place: usize, finish: Finish) -> Answered {
        let Some(mut running) = self.running.remove(&place) else {
            return Ok(());
        };
        self.sequences.leave(place);
        let rest = running.stream.finish(&running.tokens)?.to_string();
        let finish = if running.stream.is_stopped() {
            Finish::Stop
        } else {
            finish
        };
        self.send_end(running.request, running.text, rest, finish, running.tokens.len())?;
        self.end_turn(running.request);
        Ok(())
    }

    /// Ends a search: the best texts are those of the request.
    fn found(&mut self, place: usize, found: &[Vec<i32>]) -> Answered {
        let Some(running) = self.running.remove(&place) else {
            return Ok(());
        };
        self.sequences.leave(place);
        let Some(begun) = self.requests.get(&running.request) else {
            return Ok(());
        };
        let prompt = &begun.prompts[begun.prompt_of(running.text)];
        for (number, tokens) in found.iter().take(begun.job.samples).enumerate() {
            let mut stream = TextStream::new(self.tokenizer, prompt, &begun.job.stops)?;
            let text = stream.finish(tokens)?.to_string();
            let is_stopped = stream.is_stopped() || running.stops.are_completed(tokens)?;
            let finish = match tokens.len() < running.most || is_stopped {
                true => Finish::Stop,
                false => Finish::Length,
            };
            self.send_end(running.request, running.text + number, text, finish, tokens.len())?;
        }
        self.end_turn(running.request);
        Ok(())
    }

    /// Sends the rest of a text, and its end.
    fn send_end(&self, id: u64, text: usize, rest: String, finish: Finish, tokens: usize) -> Answered {
        if !rest.is_empty() {
            self.send(id, Event::Piece(text, rest))?;
        }
        self.send(id, Event::End(text, finish, tokens))
    }

    /// Sends what happens to a request. A client that has gone is noticed before the next step.
    fn send(&self, id: u64, event: Event) -> Answered {
        self.requests
            .get(&id)
            .map_or(Ok(()), |begun| begun.job.events.send(event))
    }

    /// Ends a turn of a request.
    fn end_turn(&mut self, id: u64) {
        let Some(begun) = self.requests.get_mut(&id) else {
            return;
        };
        begun.open -= 1;
        if begun.is_done() {
            self.requests.remove(&id);
        }
    }
}

impl Running<'_> {
    /// Adds a token; the text that can be shown in addition, and why the text ends, if it does.
    ///
    /// # Errors
    /// Tokens that cannot be decoded.
    fn push(&mut self, token: i32) -> Result<(String, Option<Finish>)> {
        self.tokens.push(token);
        let piece = self.stream.push(&self.tokens)?.to_string();
        // A special token writes nothing that the text has, and ends it where it is a stop string.
        let end = if self.stream.is_stopped() || self.stops.are_completed(&self.tokens)? {
            Some(Finish::Stop)
        } else if self.tokens.len() >= self.most {
            Some(Finish::Length)
        } else {
            None
        };
        Ok((piece, end))
    }
}

/// The number of tokens that are added.
fn tokens_of(next: &Next) -> usize {
    match next {
        Next::Token(_) | Next::End { .. } | Next::Failed(_) => 1,
        Next::Found(found) => found.iter().map(Vec::len).sum(),
    }
}

/// A text that cannot be continued is a failure of the server's model.
fn failed(error: Error) -> Refusal {
    Refusal::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}
