//! Trainings whose batches Python gives one by one.

use crate::error::raised;
use crate::interrupt::{Attended, Course};
use crate::processes::{Joining, together};
use crate::train::{Asked, Given, Reported, in_memory};
use lessen_base::Error;
use lessen_jobs::training::{Feed, Wish};
use pyo3::prelude::*;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Batches as they pass from Python's thread to that of the run.
struct Handed {
    state: Mutex<State>,
    changed: Condvar,
    course: Arc<Course>,
}

#[derive(Default)]
struct State {
    wish: Option<Wish>,
    /// Whether the run waits for a wish.
    waits: bool,
    /// Whether no wish comes any more.
    closed: bool,
    refusal: Option<Error>,
    scores: Vec<(String, f64)>,
}

impl Handed {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a wish over; none closes.
    fn hand(&self, wish: Option<Wish>) {
        let mut state = self.locked();
        (state.closed, state.waits) = (wish.is_none(), false);
        state.wish = wish;
        self.changed.notify_all();
    }
}

impl Feed for Handed {
    fn next(&self) -> Option<Wish> {
        let mut state = self.locked();
        state.waits = true;
        self.course.call();
        let is_idle = |state: &mut State| state.wish.is_none() && !state.closed;
        let mut state = self
            .changed
            .wait_while(state, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        state.wish.take()
    }

    fn refused(&self, error: Error) {
        self.locked().refusal = Some(error);
    }

    fn scored(&self, scores: &[(String, f64)]) {
        self.locked().scores = scores.to_vec();
    }
}

/// A run under way that waits for batches.
#[pyclass(frozen, module = "lessen._lessen")]
pub struct SteppedRun {
    handed: Arc<Handed>,
    job: Mutex<Option<Attended<Reported>>>,
}

impl SteppedRun {
    fn job(&self) -> MutexGuard<'_, Option<Attended<Reported>>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attends the run until it waits for a wish; whether it has ended.
    fn attend(&self, py: Python<'_>, listener: &Bound<'_, PyAny>) -> PyResult<bool> {
        let job = self.job();
        let Some(job) = &*job else { return Ok(true) };
        job.attend(py, listener, || self.handed.locked().waits)
    }
}

#[pymethods]
impl SteppedRun {
    /// Begins a run with the first arguments of `lessen train`, or resumes it with the second, up to its first step.
    /// The first process of a group says whether the run has begun.
    #[new]
    fn begin(
        py: Python<'_>,
        args: [Vec<String>; 2],
        has_begun: bool,
        data: Option<Given<'_>>,
        listener: &Bound<'_, PyAny>,
        joining: Option<Joining>,
    ) -> PyResult<SteppedRun> {
        let data = data.map(in_memory).transpose();
        let (sender, receiver) = std::sync::mpsc::channel();
        let job = Attended::begin(py, move |course| {
            let handed = Arc::new(Handed {
                state: Mutex::default(),
                changed: Condvar::new(),
                course,
            });
            together(joining, |group| {
                let has_begun = group.of_first("whether the run has begun", vec![u8::from(has_begun)])? == [1];
                let mut asked = Asked::of(&args[usize::from(has_begun)], data, group)?;
                asked.request = asked.request.fed_by(handed.clone());
                // Nobody waits for it where the caller's thread has been stopped.
                let _ = sender.send(handed);
                asked.train()
            })
        })?;
        match py.detach(move || receiver.recv()) {
            Ok(handed) => {
                let run = SteppedRun {
                    handed,
                    job: Mutex::new(Some(job)),
                };
                run.attend(py, listener)?;
                Ok(run)
            }
            Err(_) => {
                job.result(py)?;
                Err(raised(py, &Error::internal("a run has ended before it began")))
            }
        }
    }

    /// Trains a step on the examples of the training split as one batch; whether the run has ended.
    fn step(&self, py: Python<'_>, batch: Given<'_>, listener: &Bound<'_, PyAny>) -> PyResult<bool> {
        let batch = in_memory(batch).map_err(|error| raised(py, &error))?;
        self.handed.hand(Some(Wish::Step(Box::new(batch))));
        let ended = self.attend(py, listener)?;
        match self.handed.locked().refusal.take() {
            Some(error) => Err(raised(py, &error)),
            None => Ok(ended),
        }
    }

    /// The scores of the present parameters on the run's validation data.
    fn evaluate(&self, py: Python<'_>, listener: &Bound<'_, PyAny>) -> PyResult<Vec<(String, f64)>> {
        self.handed.hand(Some(Wish::Evaluate));
        self.attend(py, listener)?;
        let mut state = self.handed.locked();
        match state.refusal.take() {
            Some(error) => Err(raised(py, &error)),
            None => Ok(std::mem::take(&mut state.scores)),
        }
    }

    /// Ends the run, with a checkpoint where it has steps left; its report.
    fn end(&self, py: Python<'_>, listener: &Bound<'_, PyAny>) -> PyResult<Reported> {
        let job = self.job().take();
        let Some(job) = job else {
            return Err(raised(py, &Error::user("the run has ended already; begin another one")));
        };
        self.handed.hand(None);
        let attended = job.attend(py, listener, || false);
        let result = job.result(py);
        attended.and(result)
    }
}

impl Drop for SteppedRun {
    /// Lets the run save a checkpoint and end alone.
    fn drop(&mut self) {
        if let Some(job) = &*self.job() {
            job.course().leave();
        }
        self.handed.hand(None);
    }
}
