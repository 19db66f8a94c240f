//! The roofline of this machine: its measured peak in products, and its measured bandwidth of memory.

use std::time::Instant;

use lessen_base::Result;
use lessen_hardware::Roofline;

use crate::devices::cpu_with;

/// Bytes of the two arrays of each thread, beyond the caches.
const BYTES: usize = 64 << 20;

/// Copies, of which the fastest counts.
const TRIES: usize = 5;

/// Measures the CPU with a number of threads; none stands for `LESSEN_THREADS`, or as many as there are cores. It takes
/// about a second.
///
/// # Errors
/// A number of threads that cannot be.
pub fn measure(threads: Option<usize>) -> Result<Roofline> {
    let backend = cpu_with(threads)?;
    let threads = backend.threads();
    Roofline::new(
        format!("cpu with {threads} threads"),
        backend.peak_flops(),
        bandwidth(threads),
    )
}

/// Bytes per second that all threads together read and write when each copies an array of its own.
fn bandwidth(threads: usize) -> f64 {
    let words = BYTES / size_of::<u64>();
    let mut arrays: Vec<(Vec<u64>, Vec<u64>)> = (0..threads).map(|_| (vec![1; words], vec![2; words])).collect();
    let mut best = 0f64;
    for _ in 0..TRIES {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (from, to) in &mut arrays {
                scope.spawn(|| to.copy_from_slice(from));
            }
        });
        best = best.max((2 * BYTES * threads) as f64 / start.elapsed().as_secs_f64());
    }
    std::hint::black_box(&arrays);
    best
}
