//! Errors and remarks of Lessen as Python's exceptions and warnings, and calls with the interpreter's lock released.

use lessen_base::watcher::{self, Event, Watcher};
use lessen_base::{Error, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// The class of errors, which Python's files define.
static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An error as `lessen.Error`.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    match CLASS.import(py, "lessen._errors", "Error") {
        Ok(class) => PyErr::from_type(class.clone(), error.to_string()),
        Err(missing) => missing,
    }
}

/// What a panic is for the user.
pub fn of_panic(panic: &(dyn Any + Send)) -> Error {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic");
    Error::internal(format!("{said}; this is a bug in Lessen, please report it"))
}

/// Keeps the remarks and warnings of a call.
#[derive(Default)]
struct Remarks(Mutex<Vec<String>>);

impl Watcher for Remarks {
    fn told(&self, event: &Event<'_>) {
        if let Event::Note(line) | Event::Warning(line) = event {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push((*line).to_string());
        }
    }
}

/// Calls something with the interpreter's lock released. Its remarks become Python's warnings, and a panic an error.
///
/// # Errors
/// `lessen.Error`, and a warning that Python is to raise.
pub fn released<T: Send>(py: Python<'_>, call: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let remarks = Arc::new(Remarks::default());
    let own = remarks.clone();
    let result = py.detach(|| {
        let caught = catch_unwind(AssertUnwindSafe(|| watcher::watched_by(own, call)));
        caught.unwrap_or_else(|panic| Err(of_panic(panic.as_ref())))
    });
    let lines = std::mem::take(&mut *remarks.0.lock().unwrap_or_else(PoisonError::into_inner));
    for line in lines {
        py.import("lessen._show")?.call_method1("warn", (line,))?;
    }
    result.map_err(|error| raised(py, &error))
}
