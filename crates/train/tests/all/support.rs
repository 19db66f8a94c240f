//! What the tests share: a device.

use lessen_compile::Backend;
use lessen_cpu::CpuBackend;

/// A CPU with this number of threads.
pub fn device(threads: usize) -> Box<dyn Backend> {
    Box::new(CpuBackend::new(threads).unwrap())
}
