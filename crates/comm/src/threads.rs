//! Ranks as threads of one process, for tests and simulations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lessen_base::{Error, Result};

use crate::buffers;
use crate::wire::{LARGEST_TAG, Message, Progress, Request, Wire, unknown, wrong_length};

/// Number of a message: sender, receiver, tag, and how many such messages were before it.
type Number = (usize, usize, u32, u64);

/// What the threads share.
#[derive(Debug, Default)]
struct Post {
    messages: HashMap<Number, Message>,
    /// The rank that ended the run, with its sentence.
    ended: Option<(usize, Error)>,
}

#[derive(Debug)]
enum Begun {
    Send(Number),
    Receive(Number, usize),
}

/// The wire of a rank that is a thread. A send ends when the other thread has taken its message.
#[derive(Debug)]
pub struct ThreadWire {
    rank: usize,
    size: usize,
    post: Arc<Mutex<Post>>,
    /// How many messages were sent to, and received from, a rank with a tag.
    counts: HashMap<(bool, usize, u32), u64>,
    begun: HashMap<Request, Begun>,
    next: u64,
}

impl ThreadWire {
    /// The wires of `size` ranks that are connected to each other, in order. Each may be moved to a thread of its own.
    pub fn connected(size: usize) -> Vec<ThreadWire> {
        let post = Arc::default();
        let wire = |rank| ThreadWire {
            rank,
            size,
            post: Arc::clone(&post),
            counts: HashMap::new(),
            begun: HashMap::new(),
            next: 0,
        };
        (0..size).map(wire).collect()
    }

    /// What the threads share, if no other rank has ended the run.
    fn post(&self) -> Result<MutexGuard<'_, Post>> {
        let post = self.post.lock().unwrap_or_else(PoisonError::into_inner);
        match &post.ended {
            Some((rank, error)) => Err(error.clone().at(format!("rank {rank} of {} ended the run", self.size))),
            None => Ok(post),
        }
    }

    fn number(&mut self, sends: bool, other: usize, tag: u32) -> Result<Number> {
        if other >= self.size || other == self.rank || tag > LARGEST_TAG {
            return Err(Error::internal(format!(
                "rank {} of {} exchanges no message {tag} with rank {other}",
                self.rank, self.size
            )));
        }
        let count = self.counts.entry((sends, other, tag)).or_default();
        *count += 1;
        Ok(if sends {
            (self.rank, other, tag, *count)
        } else {
            (other, self.rank, tag, *count)
        })
    }

    fn begin(&mut self, begun: Begun) -> Request {
        let request = Request(self.next);
        self.next += 1;
        self.begun.insert(request, begun);
        request
    }
}

impl Wire for ThreadWire {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Request> {
        let number = self.number(true, to, tag)?;
        self.post()?.messages.insert(number, message);
        Ok(self.begin(Begun::Send(number)))
    }

    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Request> {
        let number = self.number(false, from, tag)?;
        Ok(self.begin(Begun::Receive(number, length)))
    }

    fn test(&mut self, request: Request) -> Result<Progress> {
        let progress = match self.begun.get(&request) {
            None => return Err(unknown(request)),
            Some(Begun::Send(number)) if self.post()?.messages.contains_key(number) => Progress::Pending,
            Some(Begun::Send(_)) => Progress::Sent,
            Some(Begun::Receive(number, length)) => match self.post()?.messages.remove(number) {
                None => Progress::Pending,
                Some(message) if message.bytes().len() == *length => {
                    let mut bytes = buffers::filled(*length);
                    bytes.copy_from_slice(message.bytes());
                    Progress::Received(bytes)
                }
                Some(message) => return Err(wrong_length(number.0, message.bytes().len(), *length)),
            },
        };
        if progress != Progress::Pending {
            self.begun.remove(&request);
        }
        Ok(progress)
    }

    fn abort(&mut self, error: &Error) {
        if let Ok(mut post) = self.post() {
            post.ended = Some((self.rank, error.clone()));
        }
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
