//! Bytes that the process has allocated, as its counting allocator reports them. A process without one counts nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts an allocation.
pub fn add(bytes: usize) {
    let now = CURRENT.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
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

/// A process that counts has always allocated something.
fn counted(bytes: usize) -> Option<usize> {
    (bytes > 0).then_some(bytes)
}
