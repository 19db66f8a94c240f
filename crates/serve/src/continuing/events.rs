//! What happens to the texts of a request, on its way from the model's thread to the client. Pieces of a text that
//! nobody has taken become one, and their bytes count as those of answers.

use crate::memory::{Memory, Share};
use crate::refusal::Refusal;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc::{self, Receiver, Sender};

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

/// The most bytes of pieces that become one.
const LONGEST_PIECE: usize = 4 << 10;

/// The bytes of untaken events from which on a request's next texts wait.
const MOST_UNREAD: usize = 16 << 10;

/// How often the bytes of a text are there at most: in a string and in JSON, each of up to twice its length.
const TIMES_OF_TEXT: usize = 4;

/// Bytes of an event beside those of its text.
const OF_EVENT: usize = 256;

/// Where events go to.
pub struct Outlet {
    untaken: Arc<Mutex<Untaken>>,
    /// Full as long as there are events that nobody knows of.
    news: Sender<()>,
}

/// Where events come from.
pub struct Events {
    untaken: Arc<Mutex<Untaken>>,
    news: Receiver<()>,
    memory: Memory,
    taken: VecDeque<Event>,
    /// The bytes of the events that were taken.
    share: Share,
}

/// Events that nobody has taken.
struct Untaken {
    events: VecDeque<Event>,
    /// The place of the last piece of each text.
    last: BTreeMap<usize, usize>,
    share: Share,
}

/// A way for the events of a request, whose bytes are of this memory.
pub fn events(memory: &Memory) -> (Outlet, Events) {
    let (sender, receiver) = mpsc::channel(1);
    let untaken = Arc::new(Mutex::new(Untaken {
        events: VecDeque::new(),
        last: BTreeMap::new(),
        share: memory.share(),
    }));
    let outlet = Outlet {
        untaken: untaken.clone(),
        news: sender,
    };
    let events = Events {
        untaken,
        news: receiver,
        memory: memory.clone(),
        taken: VecDeque::new(),
        share: memory.share(),
    };
    (outlet, events)
}

impl Outlet {
    /// Whether nobody takes events any more.
    pub fn is_closed(&self) -> bool {
        self.news.is_closed()
    }

    /// Whether the client has left more bytes untaken than it may, so that its next texts wait.
    pub fn is_left_unread(&self) -> bool {
        let untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        untaken.share.bytes() > MOST_UNREAD
    }

    /// Sends an event.
    ///
    /// # Errors
    /// Answers of others, or what the client has not taken, that leave no memory for it.
    pub fn send(&self, event: Event) -> Result<(), Refusal> {
        let mut untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        untaken.add(event)?;
        drop(untaken);
        // Where it is full, the other side will see this event, too.
        let _ = self.news.try_send(());
        Ok(())
    }
}

impl Untaken {
    fn add(&mut self, event: Event) -> Result<(), Refusal> {
        let bytes = match &event {
            Event::Piece(_, piece) => piece.len().saturating_mul(TIMES_OF_TEXT),
            _ => 0,
        };
        if let Event::Piece(text, piece) = &event
            && let Some(Event::Piece(_, before)) = self.last.get(text).and_then(|place| self.events.get_mut(*place))
            && before.len() + piece.len() <= LONGEST_PIECE
        {
            if !self.share.try_grow(bytes) {
                return Err(Refusal::no_memory());
            }
            before.push_str(piece);
            return Ok(());
        }
        // A refusal takes no memory, so that it always comes.
        if !matches!(event, Event::Refused(_)) && !self.share.try_grow(bytes.saturating_add(OF_EVENT)) {
            return Err(Refusal::no_memory());
        }
        if let Event::Piece(text, _) = &event {
            self.last.insert(*text, self.events.len());
        }
        self.events.push_back(event);
        Ok(())
    }
}

impl Events {
    /// The next event; none where no more come.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.taken.pop_front() {
                return Poll::Ready(Some(event));
            }
            let polled = self.news.poll_recv(cx);
            if polled.is_pending() {
                return Poll::Pending;
            }
            self.take();
            if polled == Poll::Ready(None) && self.taken.is_empty() {
                return Poll::Ready(None);
            }
        }
    }

    /// The next event; none where no more come.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Frees the bytes of the events that were taken, where all of them have gone on.
    pub fn free(&mut self) {
        if self.taken.is_empty() {
            self.share = self.memory.share();
        }
    }

    /// The bytes of all events, for an answer that has all of them.
    pub fn into_share(self) -> Share {
        self.share
    }

    fn take(&mut self) {
        let mut untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        self.taken = mem::take(&mut untaken.events);
        untaken.last.clear();
        self.share.merge(mem::replace(&mut untaken.share, self.memory.share()));
    }
}
