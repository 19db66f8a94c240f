//! How does a plan run on a CPU? Kernels and the executor.

mod math;
pub mod simd;

pub mod kernels;
