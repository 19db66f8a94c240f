//! The wire of an MPI library.

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::thread;
use std::time::Duration;

use lessen_base::{Error, Result};

use super::launcher::{self, launched};
use super::library::{Constants, Functions, SUCCESS, Status, text};
use crate::buffers;
use crate::wire::{LARGEST_TAG, Message, Progress, Request, Wire, unknown, wrong_length};

/// Time in which a launcher forwards what this process has printed; after an abort it may forward nothing.
const FORWARDING: Duration = Duration::from_millis(300);

/// What MPI reads or writes until a request has ended. Dropped before, it stays allocated, since MPI may still use it.
enum Buffer {
    Sent(ManuallyDrop<Message>),
    /// A boxed slice, made into a pointer: no reference to it exists while MPI writes. Its rank is the sender's.
    Received(*mut [u8], usize),
}

struct Begun<H> {
    handle: H,
    buffer: Buffer,
}

/// The wire of an MPI library whose handles are of the type `H`. All calls are made by the thread that opened it: the
/// type is neither `Send` nor `Sync`.
pub(super) struct MpiWire<H> {
    functions: Functions<H>,
    constants: Constants<H>,
    rank: usize,
    size: usize,
    begun: HashMap<Request, Begun<H>>,
    next: u64,
    /// Whether MPI is finalised, so that nothing of it may be called.
    finished: bool,
    /// Keeps the wire in its thread, also where handles are numbers.
    in_thread: std::marker::PhantomData<*mut ()>,
}

impl<H: Copy> MpiWire<H> {
    /// Initialises MPI and connects to the processes that the launcher started.
    pub fn open(functions: Functions<H>, constants: Constants<H>, name: &str) -> Result<MpiWire<H>> {
        let mut wire = MpiWire {
            functions,
            constants,
            rank: 0,
            size: 0,
            begun: HashMap::new(),
            next: 0,
            finished: false,
            in_thread: std::marker::PhantomData,
        };
        let (functions, constants) = (&wire.functions, &wire.constants);
        let mut initialized = 0;
        // SAFETY: the function may be called at any time, and writes one number.
        unsafe { (functions.initialized)(&mut initialized) };
        if initialized != 0 {
            return Err(Error::user(format!(
                "{name} is already in use in this process; open it once, and do not import mpi4py beside Lessen"
            )));
        }
        let mut granted = 0;
        // SAFETY: MPI is initialised once, which was asked above; null stands for the arguments of a program.
        let code =
            unsafe { (functions.init_thread)(ptr::null_mut(), ptr::null_mut(), constants.funneled, &mut granted) };
        if code != SUCCESS {
            return Err(Error::user(format!(
                "{name} does not start (code {code}); start the program by the library's own `mpiexec`, or name the \
                 launcher's library by {}=PATH",
                launcher::LIBRARY
            )));
        }
        if granted < constants.funneled {
            return Err(Error::user(format!(
                "{name} lets no thread but the first of a process call it; install a library that is built with threads"
            )));
        }
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: MPI is initialised, the handles are the library's, and each function writes one number.
        unsafe {
            wire.check((functions.comm_set_errhandler)(
                constants.world,
                constants.errors_return,
            ))?;
            wire.check((functions.comm_rank)(constants.world, &mut rank))?;
            wire.check((functions.comm_size)(constants.world, &mut size))?;
        }
        (wire.rank, wire.size) = (rank as usize, size as usize);
        match launched() {
            Some(started) if started != wire.size => Err(Error::user(format!(
                "the launcher started {started} processes, and {name} sees {size}: it belongs to another MPI; start \
                 the program by the library's own `mpiexec`, or name the launcher's library by {}=PATH",
                launcher::LIBRARY
            ))),
            _ => Ok(wire),
        }
    }

    /// The error that a code of MPI stands for.
    fn check(&self, code: c_int) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let sentence = text(|buffer, length| {
            // SAFETY: MPI is initialised, and the buffer holds the longest text of an error.
            unsafe { (self.functions.error_string)(code, buffer, length) }
        });
        Err(Error::user(format!(
            "MPI reports '{sentence}'; see whether all processes run"
        )))
    }

    /// Rank, tag and length as MPI takes them.
    fn envelope(&self, other: usize, tag: u32, length: usize) -> Result<(c_int, c_int, c_int)> {
        let fits = !self.finished && other < self.size && other != self.rank && tag <= LARGEST_TAG;
        match c_int::try_from(length) {
            Ok(length) if fits => Ok((other as c_int, tag as c_int, length)),
            _ => Err(Error::internal(format!(
                "rank {} of {} exchanges no message {tag} of {length} bytes with rank {other}",
                self.rank, self.size
            ))),
        }
    }

    fn begin(&mut self, handle: H, buffer: Buffer) -> Request {
        let request = Request(self.next);
        self.next += 1;
        self.begun.insert(request, Begun { handle, buffer });
        request
    }
}

impl<H: Copy> Wire for MpiWire<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Request> {
        let (other, tag, length) = self.envelope(to, tag, message.bytes().len())?;
        let Constants { world, byte, .. } = self.constants;
        let message = ManuallyDrop::new(message);
        let mut handle = MaybeUninit::uninit();
        // SAFETY: the message has `length` bytes, which are kept, and not changed, until `test` finds that MPI has sent
        // them; the function writes the handle where it succeeds.
        let code = unsafe {
            let bytes = message.bytes().as_ptr().cast();
            (self.functions.isend)(bytes, length, byte, other, tag, world, handle.as_mut_ptr())
        };
        self.check(code)?;
        // SAFETY: written above.
        let handle = unsafe { handle.assume_init() };
        Ok(self.begin(handle, Buffer::Sent(message)))
    }

    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Request> {
        let (other, tag, count) = self.envelope(from, tag, length)?;
        let Constants { world, byte, .. } = self.constants;
        let buffer = Box::into_raw(buffers::filled(length).into_boxed_slice());
        let mut handle = MaybeUninit::uninit();
        // SAFETY: the buffer has `length` bytes, which are kept, and not touched, until `test` finds that MPI has
        // written them; the function writes the handle where it succeeds.
        let code =
            unsafe { (self.functions.irecv)(buffer.cast(), count, byte, other, tag, world, handle.as_mut_ptr()) };
        self.check(code)?;
        // SAFETY: written above.
        let handle = unsafe { handle.assume_init() };
        Ok(self.begin(handle, Buffer::Received(buffer, from)))
    }

    fn test(&mut self, request: Request) -> Result<Progress> {
        let begun = self.begun.get_mut(&request).ok_or_else(|| unknown(request))?;
        let mut ended = 0;
        let mut status = Status([0; 64]);
        // SAFETY: the handle is that of a request that has not ended, the status has room for every interface's.
        let code = unsafe { (self.functions.test)(&mut begun.handle, &mut ended, &mut status) };
        if code == SUCCESS && ended == 0 {
            return Ok(Progress::Pending);
        }
        let begun = self.begun.remove(&request);
        self.check(code)?;
        match begun.map(|begun| begun.buffer) {
            None => Err(unknown(request)),
            Some(Buffer::Sent(message)) => {
                drop(ManuallyDrop::into_inner(message));
                Ok(Progress::Sent)
            }
            Some(Buffer::Received(buffer, from)) => {
                // SAFETY: `receive` made the pointer of a box, once, and MPI is done with it.
                let bytes = unsafe { Box::from_raw(buffer) };
                let mut count = 0;
                // SAFETY: the status is that of the receive that has ended; the function writes one number.
                let code = unsafe { (self.functions.get_count)(&status, self.constants.byte, &mut count) };
                self.check(code)?;
                if count as usize != bytes.len() {
                    return Err(wrong_length(from, count as usize, bytes.len()));
                }
                Ok(Progress::Received(bytes.into_vec()))
            }
        }
    }

    fn progress(&mut self) {
        if self.finished {
            return;
        }
        let (mut found, mut status) = (0, Status([0; 64]));
        let other = ((self.rank + 1) % self.size) as c_int;
        // SAFETY: MPI is initialised; looking for a message receives none, and lets the library move others.
        unsafe { (self.functions.iprobe)(other, 0, self.constants.world, &mut found, &mut status) };
    }

    fn abort(&mut self, error: &Error) {
        if self.finished {
            return;
        }
        thread::sleep(FORWARDING);
        // SAFETY: MPI is initialised, and not finalised while this wire is used; the call ends the process.
        unsafe { (self.functions.abort)(self.constants.world, error.exit_code()) };
    }

    fn finish(&mut self) -> Result<()> {
        if self.finished || !self.begun.is_empty() {
            return Err(Error::internal("MPI is closed twice, or while messages are under way"));
        }
        self.finished = true;
        // SAFETY: MPI is initialised, no request is open, and the wire is used no more.
        let code = unsafe { (self.functions.finalize)() };
        if code == SUCCESS {
            return Ok(());
        }
        Err(Error::user(format!(
            "MPI does not end (code {code}); see whether all processes run"
        )))
    }
}
