//! How does a plan run on a CPU? Kernels, a pool of threads, and the executor that runs a plan step after step in one
//! arena. Results do not depend on the number of threads.

pub mod arena;
mod backend;
mod bind;
mod clock;
mod constants;
mod device;
mod exec;
mod group;
mod host_arrays;
mod index_checks;
mod index_errors;
pub mod kernels;
pub mod math;
mod operand;
pub mod pool;
mod probe;
mod results;
pub mod simd;
mod store;
mod target;

pub use backend::CpuBackend;
pub use clock::Profile;
pub use device::Device;
pub use exec::Executable;
pub use lessen_compile::Host;
pub use probe::peak_flops;
pub use store::Store;
pub use target::CpuTarget;
