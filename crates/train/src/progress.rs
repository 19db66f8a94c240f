//! Counts of steps, of which a watcher is told.

use lessen_base::watcher::{self, Event, Watcher};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next count of the process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The progress of a long computation: a count of its steps, which ends when this is dropped.
pub struct Progress {
    watcher: Arc<dyn Watcher>,
    count: u64,
    has_ended: Cell<bool>,
}

impl Progress {
    /// Begins to tell this thread's watcher of a computation after `done` of `total` steps, or whatever `unit` is
    /// called; 0 in all are not known yet.
    pub fn new(unit: &'static str, total: u64, done: u64) -> Progress {
        let progress = Progress {
            watcher: watcher::current(),
            count: NEXT.fetch_add(1, Ordering::Relaxed),
            has_ended: Cell::new(false),
        };
        let count = progress.count;
        progress.watcher.told(&Event::Begin {
            count,
            unit,
            done,
            total,
        });
        progress
    }

    /// Sets the number of steps.
    pub fn expect(&mut self, total: u64) {
        self.set(total, false);
    }

    /// Sets an estimate of the number of steps.
    pub fn expect_about(&mut self, total: u64) {
        self.set(total, true);
    }

    fn set(&mut self, total: u64, is_about: bool) {
        let count = self.count;
        self.watcher.told(&Event::Expect { count, total, is_about });
    }

    /// Tells of a step: the number of steps that are done, and what there is to say of it.
    pub fn step(&mut self, done: u64, message: String) {
        let (count, message) = (self.count, message.as_str());
        self.watcher.told(&Event::Step { count, done, message });
    }

    /// Tells a line about the course.
    pub fn report(&self, text: &str) {
        self.watcher.told(&Event::Report(text));
    }

    /// Ends the count.
    pub fn finish(&self) {
        if !self.has_ended.replace(true) {
            self.watcher.told(&Event::End { count: self.count });
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
