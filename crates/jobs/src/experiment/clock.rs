//! The time that the runs of an experiment take.

use lessen_task::wording::show_duration;
use std::time::Instant;

/// How long the runs take.
pub(super) struct Clock {
    start: Instant,
    left: usize,
    done: usize,
}

impl Clock {
    /// A clock for this number of runs that are left.
    pub(super) fn new(left: usize) -> Clock {
        Clock {
            start: Instant::now(),
            left,
            done: 0,
        }
    }

    /// Counts a run that is over.
    pub(super) fn finished(&mut self) {
        (self.done, self.left) = (self.done + 1, self.left.saturating_sub(1));
    }

    /// The time so far and what is left at the same pace; nothing before the first run is over.
    pub(super) fn so_far(&self) -> String {
        if self.done == 0 {
            return String::new();
        }
        let seconds = self.start.elapsed().as_secs_f64();
        let left = seconds / self.done as f64 * self.left as f64;
        format!(
            "; {} so far, about {} left",
            show_duration(seconds),
            show_duration(left)
        )
    }
}
