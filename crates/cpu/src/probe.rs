//! The machine's peak in matrix products, to compare steps with.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::device::Device;
use crate::kernels::products::gemm;

/// Rows and columns of each thread's product, and its inner extent: the factors fit the second-level cache.
const SIZE: (usize, usize, usize) = (256, 384, 384);

/// The most floating-point operations per second that products of `f32` matrices reach when all threads of the device
/// compute their own: the best of several tries of about 50 ms.
pub fn peak_flops(device: &Device) -> f64 {
    let (m, k, n) = SIZE;
    let threads = device.threads();
    let a = vec![1f32; m * k];
    let b = vec![1f32; k * n];
    let results: Vec<Mutex<Vec<f32>>> = (0..threads).map(|_| Mutex::new(vec![0f32; m * n])).collect();
    let flops = 2.0 * (m * k * n) as f64;
    let repeat = (2.5e9 / flops) as usize * 4;
    let mut best = 0f64;
    for _ in 0..8 {
        let done = AtomicUsize::new(0);
        let start = Instant::now();
        device.pool.run(threads, &|task, _| {
            let mut result = results[task].lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..repeat {
                let c = result.as_mut_ptr();
                // SAFETY: factors and result have the extents given; the result is this task's alone.
                unsafe {
                    gemm::gemm(
                        m,
                        k,
                        n,
                        (a.as_ptr(), k as isize, 1),
                        (b.as_ptr(), n as isize, 1),
                        (c, n as isize, 1),
                        false,
                    );
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        best = best.max(done.load(Ordering::Relaxed) as f64 * flops / start.elapsed().as_secs_f64());
    }
    best
}
