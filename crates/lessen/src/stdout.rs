//! Standard output, to which every command writes its results: a full one is an error, a closed pipe is none.

use lessen_base::{Error, Result};
use std::cell::{Cell, RefCell};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a write has found that nobody reads standard output any more.
static CLOSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What the command of this thread has said, where that is kept in place of being printed.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
    /// Whether what the command of this thread says, and writes to files of its answers, is dropped.
    static DROPPED: Cell<bool> = const { Cell::new(false) };
}

/// Runs something whose results in this thread are dropped: another process prints the same.
pub fn dropped<R>(run: impl FnOnce() -> R) -> R {
    DROPPED.set(true);
    let result = run();
    DROPPED.set(false);
    result
}

/// Whether results of this thread are dropped.
pub fn is_dropped() -> bool {
    DROPPED.get()
}

/// Runs something whose results in this thread are kept in place of being printed; they come back beside its own.
pub fn kept<R>(run: impl FnOnce() -> R) -> (R, String) {
    KEPT.set(Some(Vec::new()));
    let result = run();
    let said = KEPT.take().unwrap_or_default();
    (result, String::from_utf8_lossy(&said).into_owned())
}

/// Whether results of this thread are kept.
pub fn is_kept() -> bool {
    is_dropped() || KEPT.with_borrow(Option::is_some)
}

/// Adds to what is kept; whether it is.
fn keep(bytes: &[u8]) -> bool {
    if is_dropped() {
        return true;
    }
    KEPT.with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.extend_from_slice(bytes)).is_some())
}

/// Whether nobody reads standard output any more, as after `lessen predict … | head -1`.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Prints a result at once.
///
/// # Errors
/// A full standard output.
pub fn say(text: &str) -> Result<()> {
    if keep(text.as_bytes()) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    done(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints what `fill` writes, in large pieces. A closed pipe ends it early without an error: a writer in `fill` gets
/// an error then, and must pass it on or stop.
///
/// # Errors
/// The errors of `fill`; a full standard output.
pub fn write(fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if is_dropped() {
        return fill(&mut io::sink());
    }
    if is_kept() {
        let mut bytes = Vec::new();
        fill(&mut bytes)?;
        keep(&bytes);
        return Ok(());
    }
    let mut out = Stdout(BufWriter::with_capacity(1 << 16, io::stdout().lock()));
    match fill(&mut out).and_then(|()| done(out.flush())) {
        Err(_) if is_closed() => Ok(()),
        result => result,
    }
}

/// Prints what clap answers to `--help`, `--version` and flags that it refuses; the exit code.
///
/// # Errors
/// A full standard output.
pub fn print_answer(answer: &clap::Error) -> Result<u8> {
    let printed = answer.print().and_then(|()| io::stdout().flush());
    if !answer.use_stderr() {
        done(printed)?;
    }
    Ok(u8::try_from(answer.exit_code()).unwrap_or(2))
}

/// The result of a write to standard output.
fn done(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(Error::user(format!(
            "standard output cannot be written ({error}); free some space or write to another place"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Standard output with a buffer, which notes that it is closed.
struct Stdout<W>(W);

impl<W: Write> Stdout<W> {
    fn noted<T>(&self, written: io::Result<T>) -> io::Result<T> {
        if matches!(&written, Err(error) if error.kind() == ErrorKind::BrokenPipe) {
            CLOSED.store(true, Ordering::Relaxed);
        }
        written
    }
}

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.0.flush();
        self.noted(written)
    }
}
