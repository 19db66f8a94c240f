//! A wire over an engine of a program's own, such as torch.distributed, whose requests can be waited for alone: what
//! gloo has moved shows in no test, and a wait that ends early breaks its connection.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use lessen_base::{Error, Result};

use crate::wire::{Message, Progress, Request, Wire, unknown, wrong_length};

/// Waits until a request has ended: returns the bytes of a receive, and none for a send.
pub type Wait = Box<dyn FnOnce() -> Result<Vec<u8>> + Send>;

/// Functions by which a program carries bytes between the ranks of a run. Messages meet receives as [`Wire`] says.
pub trait Engine {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn size(&self) -> usize;

    /// Begins to send a message, without waiting for the other rank.
    ///
    /// # Errors
    /// A message that cannot be sent.
    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Wait>;

    /// Begins to receive `length` bytes, without waiting for the other rank.
    ///
    /// # Errors
    /// A receive that cannot be begun.
    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Wait>;

    /// Ends the run on all ranks because of an error.
    fn abort(&mut self, error: &Error);
}

/// A request that a thread waits for.
#[derive(Debug)]
struct Waited {
    ended: Receiver<Result<Vec<u8>>>,
    /// The sender and the length of a receive.
    expected: Option<(usize, usize)>,
}

/// The wire over an [`Engine`]: each request has a thread that waits for it.
#[derive(Debug)]
pub struct EngineWire<E> {
    engine: E,
    begun: HashMap<Request, Waited>,
    next: u64,
}

impl<E: Engine> EngineWire<E> {
    /// The wire over an engine.
    pub fn new(engine: E) -> EngineWire<E> {
        EngineWire {
            engine,
            begun: HashMap::new(),
            next: 0,
        }
    }

    fn begin(&mut self, wait: Wait, expected: Option<(usize, usize)>) -> Result<Request> {
        let (end, ended) = channel();
        thread::Builder::new()
            .name("lessen-wait".to_string())
            // A wire that was dropped needs no result.
            .spawn(move || end.send(wait()).unwrap_or_default())
            .map_err(|error| Error::internal(format!("a thread that waits for a message does not start: {error}")))?;
        let request = Request(self.next);
        self.next += 1;
        self.begun.insert(request, Waited { ended, expected });
        Ok(request)
    }
}

impl<E: Engine> Wire for EngineWire<E> {
    fn rank(&self) -> usize {
        self.engine.rank()
    }

    fn size(&self) -> usize {
        self.engine.size()
    }

    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Request> {
        let wait = self.engine.send(to, tag, message)?;
        self.begin(wait, None)
    }

    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Request> {
        let wait = self.engine.receive(from, tag, length)?;
        self.begin(wait, Some((from, length)))
    }

    fn test(&mut self, request: Request) -> Result<Progress> {
        let waited = self.begun.get(&request).ok_or_else(|| unknown(request))?;
        let (bytes, expected) = match waited.ended.try_recv() {
            Err(TryRecvError::Empty) => return Ok(Progress::Pending),
            Err(TryRecvError::Disconnected) => return Err(Error::internal("the wait for a message has panicked")),
            Ok(bytes) => (bytes?, waited.expected),
        };
        self.begun.remove(&request);
        match expected {
            None => Ok(Progress::Sent),
            Some((from, length)) if bytes.len() != length => Err(wrong_length(from, bytes.len(), length)),
            Some(_) => Ok(Progress::Received(bytes)),
        }
    }

    fn abort(&mut self, error: &Error) {
        self.engine.abort(error);
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
