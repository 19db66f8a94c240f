//! The device: threads and the arena that all executables of a process share.

use lessen_base::{Error, Result};
use lessen_compile::{Options, Plan, Target};
use lessen_graph::{Graph, Op, Type};

use crate::arena::Arena;
use crate::pool::Pool;
use crate::row_kernels::row_kernel;
use crate::single_kernels::scratch_bytes;

/// A CPU: a pool of threads and one arena.
pub struct Device {
    pub(crate) pool: Pool,
    pub(crate) arena: Arena,
}

impl Device {
    /// A device with this number of threads.
    ///
    /// # Errors
    /// A sentence when the system gives no more threads.
    pub fn new(threads: usize) -> Result<Device> {
        let pool = Pool::new(threads)
            .map_err(|e| Error::user(format!("{threads} threads cannot be started: {e}")))?;
        Ok(Device {
            pool,
            arena: Arena::new(0)?,
        })
    }

    /// A device with `LESSEN_THREADS` threads, or as many as there are cores.
    ///
    /// # Errors
    /// A sentence when the variable is set to something else than a positive number.
    pub fn from_env() -> Result<Device> {
        Ok(Device {
            pool: Pool::from_env()?,
            arena: Arena::new(0)?,
        })
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Bytes that the arena takes now.
    pub fn arena_bytes(&self) -> usize {
        self.arena.len()
    }

    /// Compiles a graph for this device; the options' number of threads is replaced by the device's.
    ///
    /// # Errors
    /// As [`lessen_compile::compile`].
    pub fn compile(&self, graph: &Graph, options: &Options) -> Result<Plan> {
        compile(
            graph,
            &Options {
                threads: self.threads(),
                ..options.clone()
            },
        )
    }
}

/// What the planner must know of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTarget {
    pub(crate) threads: usize,
}

impl Target for CpuTarget {
    fn threads(&self) -> usize {
        self.threads
    }

    fn cache_bytes(&self) -> usize {
        // The private second-level cache of present server cores; plans must not depend on the machine.
        1 << 20
    }

    fn runs_rows(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> bool {
        row_kernel(op, inputs, outputs).is_some()
    }

    fn scratch_bytes(&self, op: &dyn Op, inputs: &[Type]) -> usize {
        scratch_bytes(op, inputs)
    }
}

/// Compiles a graph for a CPU with `options.threads` threads.
///
/// # Errors
/// As [`lessen_compile::compile`].
pub fn compile(graph: &Graph, options: &Options) -> Result<Plan> {
    lessen_compile::compile(
        graph,
        options,
        &CpuTarget {
            threads: options.threads.max(1),
        },
    )
}

/// The least budget for a graph on a CPU.
///
/// # Errors
/// As [`lessen_compile::floor_bytes`].
pub fn floor_bytes(graph: &Graph, options: &Options) -> Result<usize> {
    lessen_compile::floor_bytes(
        graph,
        options,
        &CpuTarget {
            threads: options.threads.max(1),
        },
    )
}
