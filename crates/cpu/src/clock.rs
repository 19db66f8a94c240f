//! Where the time of a run goes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Where the time of a run went, as seconds of all threads together.
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
    /// Runs `f` and counts its time.
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

    /// What was collected.
    pub(crate) fn profile(&self) -> Profile {
        let seconds = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) as f64 * 1e-9;
        Profile {
            products: seconds(&self.products),
            kernels: seconds(&self.kernels),
        }
    }
}
