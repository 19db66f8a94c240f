//! Long jobs on a thread of their own. The caller's thread waits in slices, tells a listener in Python what happens,
//! and asks the interpreter for signals: Ctrl-C stops the job after its step, with a checkpoint, and is then raised.

use crate::error::{of_panic, raised};
use lessen_base::watcher::{self, Event, Watcher};
use lessen_base::{Error, Result};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two questions for signals.
const SLICE: Duration = Duration::from_millis(50);

/// The watcher of a job whose caller waits.
pub struct Course {
    told: Mutex<Told>,
    changed: Condvar,
    stops: AtomicBool,
}

/// What the caller has still to hear.
#[derive(Default)]
struct Told {
    /// Events as JSON.
    events: Vec<String>,
    /// When a step of a count was told last.
    step: Option<Instant>,
    /// Whether the caller is to look for something else than events.
    is_called: bool,
    /// Whether the job has ended.
    ended: bool,
    /// Whether nobody listens any more.
    unheard: bool,
}

impl Course {
    fn locked(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for events, a call, the end, or until the slice is over; the events, and whether the job has ended.
    fn wait(&self) -> (Vec<String>, bool) {
        let told = self.locked();
        let is_quiet = |told: &mut Told| told.events.is_empty() && !told.ended && !told.is_called;
        let waited = self.changed.wait_timeout_while(told, SLICE, is_quiet);
        let (mut told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        told.is_called = false;
        (told.events.clone(), told.ended)
    }

    /// Notes that the first events were heard.
    fn heard(&self, events: usize) {
        self.locked().events.drain(..events);
        self.changed.notify_all();
    }

    /// Calls the caller, who looks whether it has waited long enough.
    pub fn call(&self) {
        self.locked().is_called = true;
        self.changed.notify_all();
    }

    /// Asks the job to stop.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::SeqCst);
    }

    /// Lets the job go on without a listener.
    pub fn leave(&self) {
        self.locked().unheard = true;
        self.changed.notify_all();
    }
}

impl Watcher for Course {
    /// Keeps the event; the job waits until numbers and checkpoints were heard, so that a callback sees them in time.
    fn told(&self, event: &Event<'_>) {
        let mut told = self.locked();
        if told.unheard {
            return;
        }
        if let Event::Step { .. } = event {
            if told.step.is_some_and(|step| step.elapsed() < SLICE) {
                return;
            }
            told.step = Some(Instant::now());
        }
        told.events.push(to_json(event).to_string());
        self.changed.notify_all();
        if matches!(event, Event::Numbers { .. } | Event::Checkpoint { .. }) {
            let is_waiting = |told: &mut Told| !told.events.is_empty() && !told.unheard;
            drop(self.changed.wait_while(told, is_waiting));
        }
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }
}

fn to_json(event: &Event<'_>) -> Value {
    match *event {
        Event::Report(line) => json!({"kind": "report", "line": line}),
        Event::Note(line) => json!({"kind": "note", "line": line}),
        Event::Warning(line) => json!({"kind": "warning", "line": line}),
        Event::Begin {
            count,
            unit,
            done,
            total,
        } => {
            json!({"kind": "begin", "count": count, "unit": unit, "done": done, "total": total})
        }
        Event::Expect { count, total, .. } => json!({"kind": "expect", "count": count, "total": total}),
        Event::Step { count, done, message } => {
            json!({"kind": "step", "count": count, "done": done, "message": message})
        }
        Event::End { count } => json!({"kind": "end", "count": count}),
        Event::Numbers { step, numbers } => {
            let numbers: serde_json::Map<String, Value> = numbers
                .iter()
                .map(|(name, number)| (name.to_string(), json!(number)))
                .collect();
            json!({"kind": "numbers", "step": step, "numbers": numbers})
        }
        Event::Checkpoint { step, folder } => {
            json!({"kind": "checkpoint", "step": step, "folder": folder.display().to_string()})
        }
    }
}

/// A job on a thread of its own.
pub struct Attended<T> {
    course: Arc<Course>,
    thread: JoinHandle<Result<T>>,
}

impl<T: Send + 'static> Attended<T> {
    /// Begins a job, which gets its own watcher.
    ///
    /// # Errors
    /// `lessen.Error` where no thread can be started.
    pub fn begin(py: Python<'_>, job: impl FnOnce(Arc<Course>) -> Result<T> + Send + 'static) -> PyResult<Attended<T>> {
        let course = Arc::new(Course {
            told: Mutex::default(),
            changed: Condvar::new(),
            stops: AtomicBool::new(false),
        });
        let own = course.clone();
        let run = move || {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                watcher::watched_by(own.clone(), || job(own.clone()))
            }));
            own.locked().ended = true;
            own.changed.notify_all();
            caught.unwrap_or_else(|panic| Err(of_panic(panic.as_ref())))
        };
        let thread = thread::Builder::new().name("lessen job".to_string()).spawn(run);
        let thread = thread.map_err(|error| {
            let sentence = format!("no thread can be started for the job ({error}); end other programs");
            raised(py, &Error::user(sentence))
        })?;
        Ok(Attended { course, thread })
    }

    /// The watcher of the job.
    pub fn course(&self) -> &Course {
        &self.course
    }

    /// Attends the job until it has ended, or until `is_enough` and no event is left; whether it has ended. `listener`
    /// is called with each event as JSON; where it answers true, the job is to stop. What it or a handler of signals
    /// raises stops the job, too, and is raised when the job has stopped; a second signal is raised at once, and the
    /// job goes on to its stop alone.
    ///
    /// # Errors
    /// What was raised.
    pub fn attend(&self, py: Python<'_>, listener: &Bound<'_, PyAny>, is_enough: impl Fn() -> bool) -> PyResult<bool> {
        let (course, mut pending) = (&self.course, None::<PyErr>);
        loop {
            let (events, ended) = py.detach(|| course.wait());
            for event in &events {
                match listener.call1((event,)).and_then(|answer| answer.is_truthy()) {
                    Ok(false) => {}
                    Ok(true) => course.stop(),
                    Err(error) => {
                        course.stop();
                        pending.get_or_insert(error);
                    }
                }
            }
            course.heard(events.len());
            if let Err(signal) = py.check_signals() {
                course.stop();
                if pending.is_some() {
                    course.leave();
                    return Err(signal);
                }
                pending = Some(signal);
            }
            if events.is_empty() && (ended || pending.is_none() && is_enough()) {
                return pending.map_or(Ok(ended), Err);
            }
        }
    }

    /// The result of a job that has ended, or ends soon.
    ///
    /// # Errors
    /// `lessen.Error` with the error of the job.
    pub fn result(self, py: Python<'_>) -> PyResult<T> {
        let joined = py.detach(|| self.thread.join());
        let result = joined.unwrap_or_else(|panic| Err(of_panic(panic.as_ref())));
        result.map_err(|error| raised(py, &error))
    }
}

/// Does a job on a thread of its own, and attends it to its end.
///
/// # Errors
/// `lessen.Error`, and what was raised.
pub fn attended<T: Send + 'static>(
    py: Python<'_>,
    listener: &Bound<'_, PyAny>,
    job: impl FnOnce(Arc<dyn Watcher>) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let attended = Attended::begin(py, move |course| job(course))?;
    attended.attend(py, listener, || false)?;
    attended.result(py)
}
