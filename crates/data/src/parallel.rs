//! Work on all cores.

use std::thread;

use lessen_base::Result;

/// Applies a function to all items on all cores; returns the results in order.
///
/// # Errors
/// The first error by the order of shares.
///
/// # Panics
/// If the function does.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let share = items.len().div_ceil(threads).max(1);
    if items.len() <= 1 {
        return items.iter().map(each).collect();
    }
    let shares: Result<Vec<Vec<R>>> = thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = items
            .chunks(share)
            .map(|items| scope.spawn(move || items.iter().map(each).collect()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Ok(shares?.into_iter().flatten().collect())
}
