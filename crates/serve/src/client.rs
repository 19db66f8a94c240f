//! What a connection is waiting for: its client, or the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// What happens on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientPhase {
    /// The head of a request is waited for.
    Waiting,
    /// The body of a request is waited for.
    Sending,
    /// The server works for a request, or sends the parts of its answer as they come.
    Working,
    /// The rest of an answer is sent.
    Reading,
    /// The last answer is sent, and the end of the connection is waited for.
    Leaving,
}

/// The client of a connection.
pub struct Client {
    state: Mutex<State>,
}

struct State {
    phase: ClientPhase,
    /// When the phase began.
    since: Instant,
    /// When the client last sent or took bytes, or the phase began.
    moved: Instant,
    /// Since when there are bytes that the client does not take.
    stalled: Option<Instant>,
    /// Whether the head of a request has begun to come.
    has_begun: bool,
}

impl Client {
    /// A client that has just connected.
    pub fn new() -> Client {
        let now = Instant::now();
        Client {
            state: Mutex::new(State {
                phase: ClientPhase::Waiting,
                since: now,
                moved: now,
                stalled: None,
                has_begun: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a phase.
    pub fn enter(&self, phase: ClientPhase) {
        let (mut state, now) = (self.lock(), Instant::now());
        (state.phase, state.since, state.moved) = (phase, now, now);
        state.has_begun = false;
    }

    /// Whether the head of a request is waited for.
    pub fn is_waiting(&self) -> bool {
        self.lock().phase == ClientPhase::Waiting
    }

    /// Notes bytes that have come; whether they are the first ones of a head.
    pub fn has_sent(&self) -> bool {
        let mut state = self.lock();
        state.moved = Instant::now();
        let is_first = state.phase == ClientPhase::Waiting && !state.has_begun;
        state.has_begun = state.phase == ClientPhase::Waiting;
        is_first
    }

    /// Whether the rest of a head is waited for.
    pub fn is_in_head(&self) -> bool {
        self.lock().has_begun
    }

    /// Notes bytes that the client has taken.
    pub fn has_taken(&self) {
        self.lock().moved = Instant::now();
    }

    /// Notes that there are bytes that the client does not take.
    pub fn stalls(&self) {
        self.lock().stalled.get_or_insert_with(Instant::now);
    }

    /// Notes that the client has taken all bytes.
    pub fn has_taken_all(&self) {
        let mut state = self.lock();
        state.stalled = None;
        let is_answered = state.phase == ClientPhase::Reading;
        drop(state);
        if is_answered {
            self.enter(ClientPhase::Waiting);
        }
    }

    /// How long no byte has come or gone, where the server waits for the client.
    pub fn idle(&self) -> Option<Duration> {
        let state = self.lock();
        let waits = state.phase != ClientPhase::Working || state.stalled.is_some();
        waits.then(|| state.moved.elapsed())
    }

    /// How long the server has waited for the client, whether or not single bytes come or go.
    pub fn lets_wait(&self) -> Option<Duration> {
        let state = self.lock();
        let since = (state.phase != ClientPhase::Working).then_some(state.since);
        state.stalled.or(since).map(|since| since.elapsed())
    }
}

/// What the server does for a request: it takes a place among all requests that are answered at once, until the last
/// part of the answer is there.
pub struct Work {
    client: Arc<Client>,
    _place: OwnedSemaphorePermit,
}

impl Work {
    /// Begins it.
    pub fn new(client: &Arc<Client>, place: OwnedSemaphorePermit) -> Work {
        client.enter(ClientPhase::Working);
        Work {
            client: client.clone(),
            _place: place,
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.client.enter(ClientPhase::Reading);
    }
}
