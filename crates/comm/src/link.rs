//! The link: a wire with a deadline on every wait. Requests become futures, which end when the exchange thread finds
//! that the wire has moved their bytes.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lessen_base::{Error, Result};

use crate::wire::{LARGEST_TAG, Message, Progress, Request, Wire};

/// Where the result of a request will be.
type Slot = Rc<RefCell<Option<Result<Vec<u8>>>>>;

/// The result of a request: the bytes that were received, none for a send.
pub(crate) struct Ticket(Slot);

impl Future for Ticket {
    type Output = Result<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// A request that has not ended.
struct Waiting {
    request: Request,
    other: usize,
    since: Instant,
    purpose: Arc<str>,
    slot: Slot,
}

struct State {
    wire: Box<dyn Wire>,
    waiting: Vec<Waiting>,
    /// When a request with each rank ended last.
    heard: Vec<Instant>,
    failed: Option<Error>,
    next_tag: u32,
}

/// A wire with a deadline.
pub(crate) struct Link {
    pub rank: usize,
    pub size: usize,
    deadline: Duration,
    bytes_sent: Arc<AtomicU64>,
    state: RefCell<State>,
}

impl Link {
    pub fn new(wire: Box<dyn Wire>, deadline: Duration, bytes_sent: Arc<AtomicU64>) -> Link {
        let (rank, size) = (wire.rank(), wire.size());
        let state = State {
            wire,
            waiting: Vec::new(),
            heard: vec![Instant::now(); size],
            failed: None,
            next_tag: 0,
        };
        Link {
            rank,
            size,
            deadline,
            bytes_sent,
            state: RefCell::new(state),
        }
    }

    /// A channel for the messages of the next collective, which has its own tag.
    pub fn channel(self: &Rc<Self>, purpose: Arc<str>) -> Channel {
        let tag = &mut self.state.borrow_mut().next_tag;
        let channel = Channel {
            link: self.clone(),
            tag: *tag,
            purpose,
        };
        *tag = (*tag + 1) % (LARGEST_TAG + 1);
        channel
    }

    /// Tests all requests once; whether one ended. A failure or a passed deadline ends all of them.
    pub fn advance(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let now = Instant::now();
        let mut moved = false;
        if state.waiting.is_empty() {
            state.wire.progress();
        }
        let mut at = 0;
        while let Some(waiting) = state.waiting.get(at) {
            let bytes = match state.wire.test(waiting.request) {
                Ok(Progress::Pending) => {
                    at += 1;
                    continue;
                }
                Ok(Progress::Sent) => Vec::new(),
                Ok(Progress::Received(bytes)) => bytes,
                Err(error) => {
                    let error = error.at(&waiting.purpose);
                    state.fail(error);
                    return true;
                }
            };
            let ended = state.waiting.swap_remove(at);
            state.heard[ended.other] = now;
            *ended.slot.borrow_mut() = Some(Ok(bytes));
            moved = true;
        }
        let begin = |waiting: &&Waiting| waiting.since.max(state.heard[waiting.other]);
        if let Some(oldest) = state.waiting.iter().min_by_key(begin)
            && now.duration_since(begin(&oldest)) >= self.deadline
        {
            let error = Error::user(format!(
                "{}: rank {} of {} has not answered for {} s; see whether its process and its machine run, or set a \
                 longer deadline",
                oldest.purpose,
                oldest.other,
                self.size,
                self.deadline.as_secs_f64()
            ));
            state.fail(error);
            return true;
        }
        moved
    }

    /// Whether a request or the deadline has failed, which ends all that is begun.
    pub fn has_failed(&self) -> bool {
        self.state.borrow().failed.is_some()
    }

    /// Ends all requests, of all ranks, with an error.
    pub fn abort(&self, error: &Error) {
        let state = &mut *self.state.borrow_mut();
        state.fail(error.clone());
        state.wire.abort(error);
    }

    /// Closes the wire.
    pub fn finish(&self) -> Result<()> {
        let state = &mut *self.state.borrow_mut();
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => state.wire.finish(),
        }
    }
}

impl State {
    /// Ends all requests of this rank with an error, the first of which stays.
    fn fail(&mut self, error: Error) {
        let error = self.failed.get_or_insert(error);
        for waiting in self.waiting.drain(..) {
            *waiting.slot.borrow_mut() = Some(Err(error.clone()));
        }
    }
}

/// The messages of one collective between this rank and the others.
#[derive(Clone)]
pub(crate) struct Channel {
    link: Rc<Link>,
    tag: u32,
    purpose: Arc<str>,
}

impl Channel {
    pub fn rank(&self) -> usize {
        self.link.rank
    }

    pub fn size(&self) -> usize {
        self.link.size
    }

    /// The other ranks, from the next one on, so that not all ranks send to one first.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank(), self.size());
        (1..size).map(move |distance| (rank + distance) % size)
    }

    /// Begins to send a message.
    pub fn send(&self, to: usize, message: Message) -> Ticket {
        let bytes = message.bytes().len() as u64;
        self.begin(to, |wire, tag| {
            let request = wire.send(to, tag, message);
            self.link.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
            request
        })
    }

    /// Begins to receive a message of `length` bytes.
    pub fn receive(&self, from: usize, length: usize) -> Ticket {
        self.begin(from, |wire, tag| wire.receive(from, tag, length))
    }

    fn begin(&self, other: usize, request: impl FnOnce(&mut dyn Wire, u32) -> Result<Request>) -> Ticket {
        let state = &mut *self.link.state.borrow_mut();
        let slot = Slot::default();
        let begun = match &state.failed {
            Some(error) => Err(error.clone()),
            None => request(&mut *state.wire, self.tag).map_err(|error| error.at(&self.purpose)),
        };
        match begun {
            Ok(request) => state.waiting.push(Waiting {
                request,
                other,
                since: Instant::now(),
                purpose: self.purpose.clone(),
                slot: slot.clone(),
            }),
            Err(error) => {
                state.fail(error.clone());
                *slot.borrow_mut() = Some(Err(error));
            }
        }
        Ticket(slot)
    }
}
