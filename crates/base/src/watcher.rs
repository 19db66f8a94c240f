//! The watcher of a long job: what it is told, and what it is asked.
//!
//! A job tells its watcher what happens, and asks it after each step whether to stop. A process has one watcher for all
//! of its jobs ([`set_default`]), a silent one unless another is set; a thread can have its own ([`watched_by`]).
//!
//! ```
//! use lessen_base::watcher::{self, Event, Watcher};
//! use std::sync::{Arc, Mutex};
//!
//! #[derive(Default)]
//! struct Losses(Mutex<Vec<f64>>);
//!
//! impl Watcher for Losses {
//!     fn told(&self, event: &Event<'_>) {
//!         if let Event::Numbers { numbers, .. } = event {
//!             let losses = numbers.iter().filter(|(name, _)| *name == "loss").map(|(_, loss)| *loss);
//!             self.0.lock().unwrap().extend(losses);
//!         }
//!     }
//! }
//!
//! let losses = Arc::new(Losses::default());
//! watcher::watched_by(losses.clone(), || {
//!     watcher::tell(&Event::Numbers { step: 1, numbers: &[("loss", 0.5)] });
//! });
//! watcher::tell(&Event::Report("this is heard by nobody"));
//! assert_eq!(*losses.0.lock().unwrap(), [0.5]);
//! ```

use crate::{Error, Result};
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// An event of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A line about the course, for people.
    Report(&'a str),
    /// A remark, for people who do not follow the course either.
    Note(&'a str),
    /// A warning.
    Warning(&'a str),
    /// A count begins: of steps, iterations, tests.
    Begin {
        /// The number of the count, which no other one of the process has.
        count: u64,
        /// What is counted.
        unit: &'a str,
        /// How many are done already.
        done: u64,
        /// How many there will be; 0 while that is not known.
        total: u64,
    },
    /// The total of a count is known, or known better.
    Expect {
        /// The number of the count.
        count: u64,
        /// How many there will be.
        total: u64,
        /// Whether `total` is an estimate.
        is_about: bool,
    },
    /// One more is done.
    Step {
        /// The number of the count.
        count: u64,
        /// How many are done.
        done: u64,
        /// What there is to say of it.
        message: &'a str,
    },
    /// A count ends.
    End {
        /// The number of the count.
        count: u64,
    },
    /// The numbers of a line of `metrics.jsonl`: of a step, an evaluation (`dev_…`), an epoch.
    Numbers {
        /// After how many steps, iterations or epochs.
        step: u64,
        /// The numbers with their names.
        numbers: &'a [(&'a str, f64)],
    },
    /// A checkpoint is on the disk as a whole.
    Checkpoint {
        /// After how many steps, iterations or epochs.
        step: u64,
        /// The checkpoint's folder.
        folder: &'a Path,
    },
}

/// A watcher of jobs.
pub trait Watcher: Send + Sync {
    /// Is told an event, in the thread of the job, which waits meanwhile.
    fn told(&self, event: &Event<'_>) {
        let _ = event;
    }

    /// Is told that the job can stop from now on: it asks [`Watcher::stops`] after each step.
    ///
    /// # Errors
    /// Wishes to stop that cannot be received; the job ends with the error.
    fn can_stop(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the job is to stop, with a checkpoint from which it can be resumed.
    fn stops(&self) -> bool {
        false
    }
}

/// The watcher of a process that sets none.
struct Silent;

impl Watcher for Silent {}

/// A watcher that is told remarks and warnings alone.
struct Quiet(Arc<dyn Watcher>);

impl Watcher for Quiet {
    fn told(&self, event: &Event<'_>) {
        if let Event::Note(_) | Event::Warning(_) = event {
            self.0.told(event);
        }
    }

    fn can_stop(&self) -> Result<()> {
        self.0.can_stop()
    }

    fn stops(&self) -> bool {
        self.0.stops()
    }
}

static OF_PROCESS: OnceLock<Arc<dyn Watcher>> = OnceLock::new();

thread_local! {
    static OF_THREAD: RefCell<Option<Arc<dyn Watcher>>> = const { RefCell::new(None) };
}

/// Sets the watcher of all threads that have no other one.
///
/// # Errors
/// A process that has set one already.
pub fn set_default(watcher: Arc<dyn Watcher>) -> Result<()> {
    let set = OF_PROCESS.set(watcher);
    set.map_err(|_| Error::internal("the process has set a watcher of its jobs already"))
}

/// Runs something under a watcher of its own, in this thread.
pub fn watched_by<R>(watcher: Arc<dyn Watcher>, run: impl FnOnce() -> R) -> R {
    /// Puts the former watcher back, also after a panic.
    struct Former(Option<Arc<dyn Watcher>>);
    impl Drop for Former {
        fn drop(&mut self) {
            OF_THREAD.replace(self.0.take());
        }
    }
    let _former = Former(OF_THREAD.replace(Some(watcher)));
    run()
}

/// Runs something of which the watcher is told remarks and warnings alone.
pub fn quietly<R>(run: impl FnOnce() -> R) -> R {
    watched_by(Arc::new(Quiet(current())), run)
}

/// The watcher of this thread.
pub fn current() -> Arc<dyn Watcher> {
    let own = OF_THREAD.with_borrow(Clone::clone);
    own.or_else(|| OF_PROCESS.get().cloned())
        .unwrap_or_else(|| Arc::new(Silent))
}

/// Tells this thread's watcher an event.
pub fn tell(event: &Event<'_>) {
    current().told(event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::thread;

    /// Keeps lines, and stops.
    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Lines {
        fn taken(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl Watcher for Lines {
        fn told(&self, event: &Event<'_>) {
            if let Event::Report(line) | Event::Note(line) | Event::Warning(line) = event {
                self.0.lock().unwrap().push((*line).to_string());
            }
        }

        fn stops(&self) -> bool {
            true
        }
    }

    #[test]
    fn watchers_are_of_a_thread_and_of_a_time() {
        let (outer, inner) = (Arc::new(Lines::default()), Arc::new(Lines::default()));
        assert!(!current().stops());
        watched_by(outer.clone(), || {
            tell(&Event::Report("before"));
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                watched_by(inner.clone(), || {
                    tell(&Event::Report("inside"));
                    assert!(inner.taken().is_empty(), "panics");
                });
            }));
            assert!(panicked.is_err());
            thread::scope(|scope| {
                scope.spawn(|| tell(&Event::Report("elsewhere")));
            });
            tell(&Event::Warning("after"));
            assert!(current().stops());
        });
        tell(&Event::Report("later"));
        assert!(!current().stops() && current().can_stop().is_ok());
        assert_eq!(
            (outer.taken(), inner.taken()),
            (vec!["before".to_string(), "after".to_string()], vec![])
        );
    }

    #[test]
    fn a_quiet_job_tells_remarks_alone_and_stops() {
        let lines = Arc::new(Lines::default());
        watched_by(lines.clone(), || {
            quietly(|| {
                tell(&Event::Report("a line"));
                tell(&Event::Note("a note"));
                tell(&Event::Warning("a warning"));
                assert!(current().stops());
            });
            tell(&Event::Report("a line"));
        });
        assert_eq!(lines.taken(), ["a note", "a warning", "a line"]);
    }
}
