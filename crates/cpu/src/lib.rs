//! How does a plan run on a CPU? Kernels, a pool of threads, and the executor that runs a plan step after step in one
//! arena.
//!
//! [`CpuBackend`] is the entry point: the CPU as a [`Backend`](lessen_device::Backend), with its threads,
//! its arena, loaded plans and named states. Results do not depend on the number of threads, and a run that fails
//! changes no state.
//!
//! ```
//! use lessen_compile::Options;
//! use lessen_device::{Backend, Host};
//! use lessen_cpu::CpuBackend;
//! use lessen_graph::{DType, Trace, Type};
//!
//! // y = x w, and w becomes w + 1 after every run.
//! let trace = Trace::new();
//! let x = trace.input("x", DType::F32, &[1, 2]);
//! let w = trace.state("w", DType::F32, &[2, 1]);
//! trace.output("y", x.matmul(w));
//! trace.assign(w, w + 1.0);
//! let graph = trace.finish();
//!
//! let mut cpu = CpuBackend::new(2)?;
//! let plan = lessen_compile::compile(&graph, &Options::default(), cpu.target())?;
//! println!("a run takes {} bytes", plan.peak_bytes());
//! let model = cpu.add_model();
//! let program = cpu.load(model, plan)?;
//! cpu.allocate(model, "w", &Type::f32(&[2, 1]))?;
//! cpu.upload(model, "w", Host::F32(&[3.0, 4.0]))?;
//! for expected in [11.0, 14.0] {
//!     cpu.run(program, &[("x", Host::F32(&[1.0, 2.0]))])?;
//!     assert_eq!(cpu.output(program, "y").unwrap().as_f32(), Some(&[expected][..]));
//! }
//! # Ok::<(), lessen_base::Error>(())
//! ```
//!
//! # Modules
//!
//! - `kernels`: one file for each family of operations, with the loops and, below them, the entries by which
//!   `kernels/table.rs` finds them. A new operation's kernel is a function there and a line of the table.
//! - `target` tells the compiler how operations are lowered, from that table.
//! - `bind` turns the steps of a plan into kernels with operands; `group` runs row-wise operations block by block.
//! - `freeze` packs states that never change, for the kernels of one executable.
//! - `exec` has a run's arrays checked, uploads them, runs the steps and downloads the results.
//! - `times` measures the times of operations and keeps them for the next process: plans may go by the times of a
//!   machine.
//! - [`arena`], [`pool`] and [`simd`] are the base of the other modules.
//!
//! # Memory safety
//!
//! This is the only crate of Lessen with `unsafe` code. Kernels work on raw pointers into the arena, states, constants
//! and results. That is sound for these reasons:
//!
//! - Only the compiler makes plans, so values that live at the same time lie apart.
//! - Kernels run for the exact Rust types of standard operations only.
//! - `bind` makes each kernel once more and refuses a plan whose layouts, scratch or tiles differ from the kernel's.
//! - Sizes of states, constants and results are counted without overflow before anything is allocated, and a plan that
//!   reaches beyond its arena is refused.
//! - `lessen-device` checks dtype, length and truth values of every array that is given to a run or a state, and all
//!   indices that are there before the run; kernels check computed indices themselves.
//!
//! An operation or a target from outside can cause an error, a panic or wrong numbers.
//!
//! # Environment
//!
//! `LESSEN_THREADS`: the number of threads of [`CpuBackend::from_env`]; by default as many as the machine has cores.
//! `LESSEN_CPU`: the instructions that kernels use, names of sets joined by `+`: `baseline`, `avx2`, `avxvnni`,
//! `avx512`, `vnni`, `bf16`, `avx512bf16` or `amx`, see [`simd::CpuSet`]; by default all of the machine. Sets with a
//! fused multiply-add give the same bits but in products and convolutions: `faer`, the tiles of AMX and the vectors of
//! AVX-512 add up in orders of their own.

pub mod arena;
mod backend;
mod bind;
mod clock;
mod constants;
mod counting;
mod cpu_set;
mod device;
mod exec;
mod freeze;
mod group;
mod host_arrays;
mod index_errors;
pub mod kernels;
pub mod math;
mod operand;
pub mod pool;
mod probe;
mod results;
mod scan;
pub mod simd;
mod slices;
mod store;
mod target;
#[doc(hidden)]
pub mod test_entries;
mod tile_counts;
mod tiles;
mod times;

pub use backend::CpuBackend;
pub use clock::Profile;
pub use counting::CountingAllocator;
pub use device::{CpuTarget, Device};
pub use exec::Executable;
pub use lessen_device::Host;
pub use probe::peak_flops;
pub use store::Store;
pub use tile_counts::TileCounts;
