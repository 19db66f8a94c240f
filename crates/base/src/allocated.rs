//! Bytes that the process has allocated, as its counting allocator reports them. A process without one counts nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts an allocation.
pub fn add(bytes: usize) {
    let now = CURRENT.fetch_add(bytes, Ordering::Relaxed) + bytes;
    // A read is cheaper than an atomic maximum, and most allocations are below the peak.
    if now > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
}

/// Counts that an allocation was freed.
pub fn subtract(bytes: usize) {
    CURRENT.fetch_sub(bytes, Ordering::Relaxed);
}

/// Bytes that are allocated now; none where nobody counts.
pub fn current() -> Option<usize> {
    counted(CURRENT.load(Ordering::Relaxed))
}

/// The most bytes that were allocated at once since the start of the process or [`reset_peak`]; none where nobody
/// counts.
pub fn peak() -> Option<usize> {
    counted(PEAK.load(Ordering::Relaxed))
}

/// Forgets the peak of the past.
pub fn reset_peak() {
    PEAK.store(CURRENT.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// What gives freed memory back to the system, if the allocator can.
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Sets the function by which the allocator gives freed memory back to the system; the first one stays.
pub fn set_give_back(function: fn()) {
    let _ = GIVE_BACK.set(function);
}

/// Gives freed memory that the allocator still holds back to the system, where the allocator can.
pub fn give_back() {
    if let Some(function) = GIVE_BACK.get() {
        function();
    }
}

/// What running something allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Bytes that are allocated when it is over, more than before.
    pub lasting: usize,
    /// The most bytes beside these while it ran.
    pub transient: usize,
}

/// Runs a function; returns its result and the bytes that it and other threads allocated meanwhile, none where the
/// process does not count them.
pub fn growth<R>(run: impl FnOnce() -> R) -> (R, Growth) {
    let (before, past) = (CURRENT.load(Ordering::Relaxed), PEAK.load(Ordering::Relaxed));
    reset_peak();
    let result = run();
    let (after, most) = (CURRENT.load(Ordering::Relaxed), PEAK.load(Ordering::Relaxed));
    PEAK.fetch_max(past, Ordering::Relaxed);
    let growth = Growth {
        lasting: after.saturating_sub(before),
        transient: most.saturating_sub(after.max(before)),
    };
    (result, growth)
}

/// A process that counts has always allocated something.
fn counted(bytes: usize) -> Option<usize> {
    (bytes > 0).then_some(bytes)
}
