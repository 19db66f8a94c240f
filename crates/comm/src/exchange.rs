//! The exchange: one thread of a process that moves all of its messages while others compute.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lessen_base::{Error, Result};

use crate::collectives::{self, Reduction};
use crate::link::{Channel, Link};
use crate::wire::Wire;

/// The shortest and the longest pause of the exchange thread between two looks at a wire on which nothing moves:
/// libraries of MPI move bytes only while they are called.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
/// The time for which nothing has moved, in pauses.
const PAUSES_OF_IDLE: u32 = 32;

/// The deadline of a wait unless another is set.
pub const DEADLINE: Duration = Duration::from_secs(120);

type Task = Pin<Box<dyn Future<Output = ()>>>;

enum Command {
    Run(Arc<str>, Box<dyn FnOnce(Channel) -> Task + Send>),
    Abort(Error, Sender<()>),
    Finish(Sender<Result<()>>),
}

/// A collective that was begun.
#[must_use = "a collective ends, and fails, in `end`"]
#[derive(Debug)]
pub struct Pending<T>(Receiver<Result<T>>);

impl<T> Pending<T> {
    /// Waits until the collective has ended on this rank, and returns its result.
    ///
    /// # Errors
    /// A rank that has not answered within the deadline, a failure of the wire, a run that another rank has ended, or
    /// arguments that do not fit together.
    pub fn end(self) -> Result<T> {
        self.0.recv().unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> Error {
    Error::internal("the thread that exchanges messages has ended")
}

/// Waits until the wire has been opened or closed, which needs all ranks.
fn within<T>(deadline: Duration, result: &Receiver<Result<T>>, done: &str) -> Result<T> {
    result.recv_timeout(deadline).unwrap_or_else(|error| match error {
        RecvTimeoutError::Disconnected => Err(closed()),
        RecvTimeoutError::Timeout => Err(Error::user(format!(
            "the wire has not {done} within {} s; see whether all processes and their machines run, or set a longer \
             deadline",
            deadline.as_secs_f64()
        ))),
    })
}

/// This process among the others: it begins collectives and counts their bytes. All ranks begin the same collectives in
/// the same order; they end in any.
///
/// A collective holds its arguments and its result, and beside them at most four messages of 1 MiB for each rank, or in
/// a reduce-scatter for each subtree of another rank, from which it receives at the time. The process keeps up to 16
/// MiB of [buffers](crate::buffers) for later messages.
///
/// The first error stays: it ends all collectives that were begun, and those that are begun later. A process that fails
/// calls [`Exchange::abort`], so that the others need not wait for the deadline.
#[derive(Debug)]
pub struct Exchange {
    commands: Sender<Command>,
    deadline: Duration,
    rank: usize,
    size: usize,
    bytes_sent: Arc<AtomicU64>,
    place: Mutex<String>,
}

impl Exchange {
    /// Opens a wire in a thread of its own, which moves all messages. A rank with which nothing has moved for the
    /// deadline, while something was begun, is an error.
    ///
    /// # Errors
    /// Those of `open`, a wire that has not opened within the deadline, and a thread that the system refuses.
    pub fn start(
        deadline: Duration,
        open: impl FnOnce() -> Result<Box<dyn Wire>> + Send + 'static,
    ) -> Result<Exchange> {
        let (commands, received) = channel();
        let (opened, ranks) = channel();
        let bytes_sent = Arc::new(AtomicU64::new(0));
        let counter = bytes_sent.clone();
        let exchange = move || match open() {
            Ok(wire) => {
                let link = Rc::new(Link::new(wire, deadline, counter));
                if opened.send(Ok((link.rank, link.size))).is_ok() {
                    serve(&link, &received);
                }
            }
            // The receiver waits for this one result.
            Err(error) => opened.send(Err(error)).unwrap_or_default(),
        };
        thread::Builder::new()
            .name("lessen-exchange".to_string())
            .spawn(exchange)
            .map_err(|error| Error::internal(format!("the thread that exchanges messages does not start: {error}")))?;
        let (rank, size) = within(deadline, &ranks, "opened")?;
        Ok(Exchange {
            deadline,
            commands,
            rank,
            size,
            bytes_sent,
            place: Mutex::new("the start".to_string()),
        })
    }

    /// The number of this process, `0..size`.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes that this rank has sent so far.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    /// Sets where the run is, such as `step 71`, which errors of collectives that are begun from now on name.
    pub fn set_place(&self, place: impl Into<String>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place.into();
    }

    /// Begins to add up the sums of all ranks by the tree; the result is the part that this rank owns. Every bit of it
    /// depends on the leaves alone, not on the number of ranks. `purpose` names the values in errors.
    pub fn reduce_scatter(&self, purpose: &str, reduction: Reduction) -> Pending<Vec<u8>> {
        self.begin(purpose, |channel| collectives::reduce_scatter(channel, reduction))
    }

    /// Begins to give all ranks what each of them owns: `borders` are `ranks + 1` offsets in bytes, from 0 to the
    /// length of the whole, which is the result.
    pub fn all_gather(&self, purpose: &str, owned: Vec<u8>, borders: Vec<usize>) -> Pending<Vec<u8>> {
        self.begin(purpose, |channel| collectives::all_gather(channel, owned, borders))
    }

    /// Begins to give all ranks the bytes of each, of any length; the result has them in the order of the ranks.
    pub fn gather(&self, purpose: &str, bytes: Vec<u8>) -> Pending<Vec<Vec<u8>>> {
        self.begin(purpose, |channel| collectives::gather(channel, bytes))
    }

    /// Begins to give all ranks the bytes of the rank `root`, of any length; the other ranks' are left out.
    pub fn broadcast(&self, purpose: &str, root: usize, bytes: Vec<u8>) -> Pending<Vec<u8>> {
        self.begin(purpose, move |channel| collectives::broadcast(channel, root, bytes))
    }

    /// Begins to add up the terms of all ranks, each of the same few numbers, for norms and losses: the terms are the
    /// leaves of a [`Tree`](crate::Tree) in the order of the ranks, so the bits of the sum do not depend on how they
    /// are dealt out. All ranks get the sum.
    pub fn all_reduce(&self, purpose: &str, terms: Vec<Vec<f64>>) -> Pending<Vec<f64>> {
        self.begin(purpose, |channel| collectives::all_reduce(channel, terms))
    }

    fn begin<T: Send + 'static, F: Future<Output = Result<T>> + 'static>(
        &self,
        purpose: &str,
        collective: impl FnOnce(Channel) -> F + Send + 'static,
    ) -> Pending<T> {
        let (ended, result) = channel();
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let purpose = format!("{place}, {purpose}").into();
        let run = |channel| -> Task {
            let running = collective(channel);
            Box::pin(async move {
                // A caller that has dropped its `Pending` needs no result.
                ended.send(running.await).unwrap_or_default();
            })
        };
        // Without the thread, the sender of the result is dropped, and the end fails.
        drop(self.commands.send(Command::Run(purpose, Box::new(run))));
        Pending(result)
    }

    /// Ends the run on all ranks because of an error. Print its sentence before: MPI ends this process, too, with the
    /// error's exit code.
    pub fn abort(&self, error: &Error) {
        let (aborted, done) = channel();
        if self.commands.send(Command::Abort(error.clone(), aborted)).is_ok() {
            // A thread that has ended, or hangs in a library, aborts nothing.
            done.recv_timeout(self.deadline).unwrap_or_default();
        }
    }

    /// Waits for all ranks and closes the wire.
    ///
    /// # Errors
    /// Those of [`Pending::end`].
    pub fn finish(self) -> Result<()> {
        self.gather("the end", Vec::new()).end()?;
        let (finished, result) = channel();
        drop(self.commands.send(Command::Finish(finished)));
        within(self.deadline, &result, "closed")
    }
}

/// Moves messages until the wire is finished or the exchange is dropped.
fn serve(link: &Rc<Link>, commands: &Receiver<Command>) {
    let mut running: Vec<Task> = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    let mut last = Instant::now();
    loop {
        let pause = (last.elapsed() / PAUSES_OF_IDLE).clamp(PAUSES.0, PAUSES.1);
        let command = match link.size {
            // Nothing moves without others.
            1 => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            _ => commands.recv_timeout(pause),
        };
        let mut moved = command.is_ok();
        match command {
            Ok(Command::Run(purpose, begin)) => running.push(begin(link.channel(purpose))),
            Ok(Command::Abort(error, aborted)) => {
                link.abort(&error);
                aborted.send(()).unwrap_or_default();
            }
            Ok(Command::Finish(finished)) => {
                finished.send(link.finish()).unwrap_or_default();
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        moved |= link.advance();
        if moved || link.has_failed() {
            running.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
        }
        if moved {
            last = Instant::now();
        }
    }
}
