//! A wire that is slowed down to the latency and the rate of a network, for simulations.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use lessen_base::{Error, Result};

use crate::wire::{Message, Progress, Request, Wire, unknown};

/// Latency and rate of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Time from one rank to another.
    pub latency: Duration,
    /// Bytes per second that a rank sends, to all others together.
    pub rate: f64,
}

impl Network {
    /// When a message that is given to a rank's network at `now`, which is sending until `busy`, has left it. The
    /// message arrives after the latency more.
    pub fn leaves(&self, busy: Duration, now: Duration, bytes: usize) -> Duration {
        let seconds = bytes as f64 / self.rate;
        busy.max(now) + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4)
    }
}

/// A send that the network holds until its time.
#[derive(Debug)]
struct Held {
    request: Request,
    due: Duration,
    to: usize,
    tag: u32,
    message: Message,
}

/// A wire over which each message takes the time that it would take in a [`Network`], without chance.
#[derive(Debug)]
pub struct Delayed<W> {
    wire: W,
    network: Network,
    start: Instant,
    busy: Duration,
    held: VecDeque<Held>,
    /// Requests of the wire below.
    begun: HashMap<Request, Request>,
    next: u64,
}

impl<W: Wire> Delayed<W> {
    /// A wire over another one.
    pub fn new(wire: W, network: Network) -> Delayed<W> {
        Delayed {
            wire,
            network,
            start: Instant::now(),
            busy: Duration::ZERO,
            held: VecDeque::new(),
            begun: HashMap::new(),
            next: 0,
        }
    }

    fn next(&mut self) -> Request {
        self.next += 1;
        Request(self.next)
    }

    /// Gives the wire below all messages whose time has come.
    fn release(&mut self) -> Result<()> {
        let now = self.start.elapsed();
        while self.held.front().is_some_and(|held| held.due <= now)
            && let Some(held) = self.held.pop_front()
        {
            let below = self.wire.send(held.to, held.tag, held.message)?;
            self.begun.insert(held.request, below);
        }
        Ok(())
    }
}

impl<W: Wire> Wire for Delayed<W> {
    fn rank(&self) -> usize {
        self.wire.rank()
    }

    fn size(&self) -> usize {
        self.wire.size()
    }

    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Request> {
        let bytes = message.bytes().len();
        self.busy = self.network.leaves(self.busy, self.start.elapsed(), bytes);
        let request = self.next();
        self.held.push_back(Held {
            request,
            due: self.busy + self.network.latency,
            to,
            tag,
            message,
        });
        Ok(request)
    }

    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Request> {
        let below = self.wire.receive(from, tag, length)?;
        let request = self.next();
        self.begun.insert(request, below);
        Ok(request)
    }

    fn test(&mut self, request: Request) -> Result<Progress> {
        self.release()?;
        let progress = match self.begun.get(&request) {
            Some(below) => self.wire.test(*below)?,
            None if self.held.iter().any(|held| held.request == request) => Progress::Pending,
            None => return Err(unknown(request)),
        };
        if progress != Progress::Pending {
            self.begun.remove(&request);
        }
        Ok(progress)
    }

    fn progress(&mut self) {
        self.wire.progress();
    }

    fn abort(&mut self, error: &Error) {
        self.wire.abort(error);
    }

    fn finish(&mut self) -> Result<()> {
        self.wire.finish()
    }
}
