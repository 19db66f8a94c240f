//! The processes of a group of torch.distributed that share a training.
//!
//! The exchange thread and threads that wait for messages call a Python object, which holds the interpreter's lock for
//! a moment; gloo moves bytes without it.

use lessen_base::{Error, Result};
use lessen_comm::{Engine, EngineWire, Exchange, Group, Message, Wait, Wire};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// A `Processes` of Python's files, and the deadline of a wait in seconds.
pub type Joining = (Py<PyAny>, f64);

/// Joins the other processes, if there are any, and runs a job with them. An error of one ends the job of all.
///
/// # Errors
/// Those of the job; a deadline that is no time, and processes that do not join or end.
pub fn together<T>(joining: Option<Joining>, run: impl FnOnce(&Group) -> Result<T>) -> Result<T> {
    let Some((processes, seconds)) = joining else {
        return run(&Group::alone());
    };
    let deadline = Duration::try_from_secs_f64(seconds).ok();
    let deadline = deadline.filter(|deadline| !deadline.is_zero()).ok_or_else(|| {
        Error::user(format!(
            "deadline={seconds} is no time in seconds; give a number above 0"
        ))
    })?;
    let open = move || -> Result<Box<dyn Wire>> { Ok(Box::new(EngineWire::new(TorchEngine::open(processes)?)?)) };
    let exchange = Arc::new(Exchange::start(deadline, open)?);
    let group = Group::of(exchange.clone());
    match group.clone().measured().and_then(|group| run(&group)) {
        Ok(done) => {
            drop(group);
            let last = Arc::try_unwrap(exchange).map_err(|_| Error::internal("the exchange is still in use"))?;
            last.finish().map(|()| done)
        }
        Err(error) => {
            group.abort(&error);
            Err(error)
        }
    }
}

/// Messages over torch.distributed.
struct TorchEngine {
    processes: Py<PyAny>,
    rank: usize,
    size: usize,
}

impl TorchEngine {
    /// Connects the processes.
    fn open(processes: Py<PyAny>) -> Result<TorchEngine> {
        let opened = called(|py| processes.call_method0(py, "open")?.extract(py));
        let (rank, size) = opened.map_err(|said| {
            Error::user(format!(
                "the processes of the group are not connected ({said}); see whether all of them begin this training"
            ))
        })?;
        Ok(TorchEngine { processes, rank, size })
    }

    /// The error of a connection to another process.
    fn broken(&self, other: usize) -> impl Fn(String) -> Error + Send + use<> {
        let size = self.size;
        move |said| {
            Error::user(format!(
                "the connection to rank {other} of {size} has broken ({said}); see what that process and its launcher say"
            ))
        }
    }
}

impl Engine for TorchEngine {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Wait> {
        let broken = self.broken(to);
        let sent = called(|py| {
            let bytes = message.bytes().to_vec().into_pyarray(py);
            self.processes.call_method1(py, "send", (to, tag, bytes))
        });
        let wait = sent.map_err(&broken)?;
        Ok(Box::new(move || {
            called(|py| wait.call0(py)).map_err(broken)?;
            Ok(Vec::new())
        }))
    }

    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Wait> {
        let broken = self.broken(from);
        let begun = called(|py| self.processes.call_method1(py, "receive", (from, tag, length)));
        let wait = begun.map_err(&broken)?;
        let received = move |py: Python<'_>| -> PyResult<Vec<u8>> {
            let bytes = wait.call0(py)?;
            let bytes: PyReadonlyArray1<'_, u8> = bytes.extract(py)?;
            Ok(bytes.as_array().to_vec())
        };
        Ok(Box::new(move || called(received).map_err(broken)))
    }

    fn close(&mut self) {
        // Nothing moves any more, so that nothing is lost.
        drop(called(|py| self.processes.call_method0(py, "close")));
    }
}

/// Calls Python; the text of what it raises, without the place in the source that gloo names.
fn called<T>(call: impl FnOnce(Python<'_>) -> PyResult<T>) -> std::result::Result<T, String> {
    let text = |py: Python<'_>, error: PyErr| {
        let text = error.value(py).to_string();
        let text = text.lines().next().unwrap_or_default();
        let text = text
            .strip_prefix('[')
            .and_then(|text| text.split_once("] "))
            .map_or(text, |(_, said)| said);
        text.split(". ").next().unwrap_or(text).to_string()
    };
    let called = Python::try_attach(|py| call(py).map_err(|error| text(py, error)));
    called.unwrap_or_else(|| Err("the interpreter ends".to_string()))
}
