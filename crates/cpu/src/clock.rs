//! Profiling: the time of a run, split into products and all kernels, and what ReLU attention leaves out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::kernels::attention::TileCounts;

/// The profile of a run; times are in seconds, summed over all threads.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Profile {
    /// In matrix products, attention's included.
    pub products: f64,
    /// In all kernels.
    pub kernels: f64,
    /// Of all forward passes of ReLU attention.
    pub tiles: TileCounts,
}

/// Nanoseconds that all threads spent, collected while profiling.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) on: bool,
    pub(crate) products: AtomicU64,
    pub(crate) kernels: AtomicU64,
    pub(crate) tiles: Mutex<TileCounts>,
    /// Seconds of each step, in order, all runs together.
    pub(crate) steps: Mutex<Vec<f64>>,
}

impl Clock {
    /// Runs `f` and adds its time to the profile.
    #[inline]
    pub(crate) fn time(&self, product: bool, f: impl FnOnce()) {
        if !self.on {
            return f();
        }
        let start = Instant::now();
        f();
        let nanos = start.elapsed().as_nanos() as u64;
        self.kernels.fetch_add(nanos, Ordering::Relaxed);
        if product {
            self.products.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Runs step number `step` and adds the time from its begin to its end.
    #[inline]
    pub(crate) fn time_step(&self, step: usize, f: impl FnOnce()) {
        if !self.on {
            return f();
        }
        let start = Instant::now();
        f();
        let seconds = start.elapsed().as_secs_f64();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() <= step {
            steps.resize(step + 1, 0.0);
        }
        steps[step] += seconds;
    }

    /// Adds what a task of ReLU attention has counted.
    pub(crate) fn count(&self, tiles: &TileCounts) {
        if self.on {
            let mut all = self.tiles.lock().unwrap_or_else(PoisonError::into_inner);
            *all = all.plus(tiles);
        }
    }

    /// Returns the profile so far.
    pub(crate) fn profile(&self) -> Profile {
        let seconds = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) as f64 * 1e-9;
        Profile {
            products: seconds(&self.products),
            kernels: seconds(&self.kernels),
            tiles: *self.tiles.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}
