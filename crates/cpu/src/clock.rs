//! Profiling: the time of a run, split into products and all kernels.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The profile of a run, in seconds summed over all threads.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Profile {
    /// In matrix products, attention's included.
    pub products: f64,
    /// In all kernels.
    pub kernels: f64,
}

/// Nanoseconds that all threads spent, collected while profiling.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) on: bool,
    pub(crate) products: AtomicU64,
    pub(crate) kernels: AtomicU64,
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

    /// Returns the profile so far.
    pub(crate) fn profile(&self) -> Profile {
        let seconds = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) as f64 * 1e-9;
        Profile {
            products: seconds(&self.products),
            kernels: seconds(&self.kernels),
        }
    }
}
