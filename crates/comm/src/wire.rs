//! The wire: what carries bytes between the processes of a run.

use std::ops::Range;
use std::sync::Arc;

use lessen_base::{Error, Result};

/// Bytes to be sent: a part of a shared buffer, so that one buffer goes to many ranks without a copy.
#[derive(Clone, Debug)]
pub struct Message {
    buffer: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Message {
    /// The bytes `range` of a buffer; a range that ends outside of the buffer is cut there.
    pub fn new(buffer: &Arc<Vec<u8>>, range: Range<usize>) -> Message {
        let end = range.end.min(buffer.len());
        Message {
            buffer: buffer.clone(),
            range: range.start.min(end)..end,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Message {
        let range = 0..bytes.len();
        Message {
            buffer: Arc::new(bytes),
            range,
        }
    }
}

/// Number of a send or a receive that a wire has begun, until a test finds that it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request(pub u64);

/// What a test finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request has not ended.
    Pending,
    /// A send has ended: its message is needed no more.
    Sent,
    /// A receive has ended with these bytes.
    Received(Vec<u8>),
}

/// The largest tag of a message, which every MPI library allows.
pub const LARGEST_TAG: u32 = 32_767;

/// What carries bytes between the `size` processes of a run, which are numbered by their rank, `0..size`.
///
/// No method waits for another rank. Messages from one rank to another with the same tag arrive in the order in which
/// they were sent, and meet the receives in the order in which these were begun. A wire stays in the thread that opened
/// it: MPI asks for that.
pub trait Wire {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn size(&self) -> usize;

    /// Begins to send a message to another rank, with a tag up to [`LARGEST_TAG`].
    ///
    /// # Errors
    /// A message that cannot be sent, or a run that another rank has ended.
    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Request>;

    /// Begins to receive a message of `length` bytes with a tag from another rank.
    ///
    /// # Errors
    /// A receive that cannot be begun, or a run that another rank has ended.
    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Request>;

    /// Tells whether a request has ended; one that has is forgotten.
    ///
    /// # Errors
    /// A message of another length than the receive's, a failure of the wire, an unknown request, or a run that another
    /// rank has ended.
    fn test(&mut self, request: Request) -> Result<Progress>;

    /// Moves what has been sent, but has not left yet; it is called now and then while nothing is begun.
    fn progress(&mut self) {}

    /// Ends the run on all ranks because of an error. Where the wire can carry its sentence, the others fail with it;
    /// MPI ends their processes, and this one with the error's exit code, so print the sentence before.
    fn abort(&mut self, error: &Error);

    /// Closes the wire after the last message of all ranks. A wire that is dropped without it tells the others nothing.
    ///
    /// # Errors
    /// A failure of the wire.
    fn finish(&mut self) -> Result<()>;
}

/// The error of a message that has another length than the receive that it meets.
pub(crate) fn wrong_length(from: usize, found: usize, expected: usize) -> Error {
    Error::user(format!(
        "rank {from} sent {found} bytes where {expected} were expected; start every rank with the same version, \
         recipe and data"
    ))
}

/// The error of a test of a request that was not begun, or had ended.
pub(crate) fn unknown(request: Request) -> Error {
    Error::internal(format!("request {} of the wire is unknown", request.0))
}
