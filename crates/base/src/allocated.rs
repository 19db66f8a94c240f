//! Bytes that the process has allocated, as its counting allocator reports them. A process without one counts nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static IN_LARGE: AtomicUsize = AtomicUsize::new(0);

/// Allocations of at least this number of bytes are large: an allocator maps them one by one, so that they leave no
/// gaps.
pub const LARGE: usize = 128 << 10;

/// Counts an allocation.
pub fn add(bytes: usize) {
    let now = CURRENT.fetch_add(bytes, Ordering::Relaxed) + bytes;
    // A read is cheaper than an atomic maximum, and most allocations are below the peak.
    if now > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
    if bytes >= LARGE {
        IN_LARGE.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts that an allocation was freed.
pub fn subtract(bytes: usize) {
    CURRENT.fetch_sub(bytes, Ordering::Relaxed);
    if bytes >= LARGE {
        IN_LARGE.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Counts that the size of an allocation was changed.
pub fn change(from: usize, to: usize) {
    if from < LARGE && to < LARGE {
        // The least that is to be counted: the size of small allocations changes most often.
        if to > from {
            add(to - from);
        } else {
            subtract(from - to);
        }
    } else {
        subtract(from);
        add(to);
    }
}

/// Bytes in large allocations.
pub fn in_large() -> usize {
    IN_LARGE.load(Ordering::Relaxed)
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

/// Runs a function whose allocations leave no trace in the peak, once they are freed.
pub fn apart<R>(run: impl FnOnce() -> R) -> R {
    let past = PEAK.load(Ordering::Relaxed);
    reset_peak();
    let result = run();
    PEAK.store(past.max(CURRENT.load(Ordering::Relaxed)), Ordering::Relaxed);
    result
}

/// A process that counts has always allocated something.
fn counted(bytes: usize) -> Option<usize> {
    (bytes > 0).then_some(bytes)
}
