//! A wire over an engine of a program's own, such as torch.distributed, whose requests can be waited for alone: what
//! gloo has moved shows in no test, and a wait that ends early breaks its connection.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use lessen_base::{Error, Result};

use crate::wire::{LARGEST_TAG, Message, Progress, Request, Wire, unknown, wrong_length};

/// Bytes of the last message between two ranks: the length of a sentence, which is empty where all went well, and the
/// sentence of the error that ends the run.
const LAST: usize = 2048;

/// The tag of last messages.
const LAST_TAG: u32 = LARGEST_TAG + 1;

/// How long an error waits for last messages: that of the rank that it is about, and of those to which it is told.
const GRACE: Duration = Duration::from_secs(1);

/// Waits until a request has ended: returns the bytes of a receive, and none for a send. Its error names the rank.
pub type Wait = Box<dyn FnOnce() -> Result<Vec<u8>> + Send>;

/// Functions by which a program carries bytes between the ranks of a run. Messages meet receives as [`Wire`] says.
/// Their tags are at most `LARGEST_TAG + 1`.
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

    /// Closes the engine, over which nothing is begun any more; what has not ended after an error never does.
    fn close(&mut self) {}
}

/// The result of a request, once the thread that waits for it has it.
type Ended = Receiver<Result<Vec<u8>>>;

/// A request that a thread waits for.
#[derive(Debug)]
struct Waited {
    ended: Ended,
    other: usize,
    /// The length of a receive.
    length: Option<usize>,
}

/// The wire over an [`Engine`]: each request has a thread that waits for it. All ranks receive a last message from each
/// other rank, so that no wait is left over, and the error of one ends the run on all.
#[derive(Debug)]
pub struct EngineWire<E> {
    engine: E,
    begun: HashMap<Request, Waited>,
    next: u64,
    /// The last messages of ranks that have not ended.
    last: HashMap<usize, Ended>,
}

impl<E: Engine> EngineWire<E> {
    /// The wire over an engine.
    ///
    /// # Errors
    /// A receive that cannot be begun.
    pub fn new(mut engine: E) -> Result<EngineWire<E>> {
        let mut last = HashMap::new();
        for other in (0..engine.size())
            .filter(|other| *other != engine.rank())
            .collect::<Vec<_>>()
        {
            last.insert(other, waited(engine.receive(other, LAST_TAG, LAST)?)?);
        }
        Ok(EngineWire {
            engine,
            begun: HashMap::new(),
            next: 0,
            last,
        })
    }

    fn begin(&mut self, wait: Wait, other: usize, length: Option<usize>) -> Result<Request> {
        let request = Request(self.next);
        self.next += 1;
        let ended = waited(wait)?;
        self.begun.insert(request, Waited { ended, other, length });
        Ok(request)
    }

    /// The error with which a rank has ended the run, if it has.
    fn ended_by(&mut self, rank: usize, patience: Duration) -> Option<Error> {
        let bytes = self.last.get(&rank)?.recv_timeout(patience).ok()?;
        self.last.remove(&rank);
        let bytes = bytes.ok()?;
        let (length, sentence) = bytes.split_first_chunk()?;
        let sentence = sentence.get(..usize::from(u16::from_le_bytes(*length)))?;
        let error = (!sentence.is_empty()).then(|| Error::user(String::from_utf8_lossy(sentence)))?;
        Some(error.at(format!("rank {rank} of {} ended the run", self.engine.size())))
    }

    /// Sends the last message to all other ranks; the waits for them.
    fn take_leave(&mut self, sentence: &str) -> Vec<Ended> {
        let sentence = &sentence.as_bytes()[..sentence.len().min(LAST - size_of::<u16>())];
        let mut message = (sentence.len() as u16).to_le_bytes().to_vec();
        message.extend(sentence);
        message.resize(LAST, 0);
        let message = Message::from(message);
        let others = (0..self.engine.size()).filter(|other| *other != self.engine.rank());
        // A rank that cannot be reached has ended.
        let sent = others.collect::<Vec<_>>().into_iter().filter_map(|other| {
            let wait = self.engine.send(other, LAST_TAG, message.clone()).ok()?;
            waited(wait).ok()
        });
        sent.collect()
    }
}

/// Waits for a request in a thread of its own.
fn waited(wait: Wait) -> Result<Ended> {
    let (end, ended) = channel();
    thread::Builder::new()
        .name("lessen-wait".to_string())
        // A wire that was dropped needs no result.
        .spawn(move || end.send(wait()).unwrap_or_default())
        .map_err(|error| Error::internal(format!("a thread that waits for a message does not start: {error}")))?;
    Ok(ended)
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
        self.begin(wait, to, None)
    }

    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Request> {
        let wait = self.engine.receive(from, tag, length)?;
        self.begin(wait, from, Some(length))
    }

    fn test(&mut self, request: Request) -> Result<Progress> {
        let waited = self.begun.get(&request).ok_or_else(|| unknown(request))?;
        let (bytes, other, length) = match waited.ended.try_recv() {
            Err(TryRecvError::Empty) => {
                // What has arrived counts, even from a rank that has ended the run since.
                for rank in 0..self.engine.size() {
                    self.ended_by(rank, Duration::ZERO).map_or(Ok(()), Err)?;
                }
                return Ok(Progress::Pending);
            }
            Err(TryRecvError::Disconnected) => return Err(Error::internal("the wait for a message has panicked")),
            Ok(bytes) => (bytes, waited.other, waited.length),
        };
        self.begun.remove(&request);
        // A rank that ends its process because of an error has told it before.
        let bytes = bytes.map_err(|error| self.ended_by(other, GRACE).unwrap_or(error))?;
        match length {
            None => Ok(Progress::Sent),
            Some(length) if bytes.len() != length => Err(wrong_length(other, bytes.len(), length)),
            Some(_) => Ok(Progress::Received(bytes)),
        }
    }

    fn abort(&mut self, error: &Error) {
        let told = self.take_leave(&error.to_string());
        let until = Instant::now() + GRACE;
        for ended in told.into_iter().chain(self.last.drain().map(|(_, ended)| ended)) {
            // A rank that does not answer is not told, and says nothing.
            drop(ended.recv_timeout(until.saturating_duration_since(Instant::now())));
        }
        self.engine.close();
    }

    fn finish(&mut self) -> Result<()> {
        let told = self.take_leave("");
        for ended in told.into_iter().chain(self.last.drain().map(|(_, ended)| ended)) {
            // A rank that has gone before it took leave had nothing more to say.
            drop(ended.recv());
        }
        self.engine.close();
        Ok(())
    }
}
