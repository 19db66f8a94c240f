//! The device: threads and the arena that all executables of a process share.

use std::sync::Barrier;

use lessen_base::{Error, Result, machine, show_size};
use lessen_compile::{Options, Plan, compile};
use lessen_graph::Graph;

use crate::arena::Arena;
use crate::kernels::products::gemm::gemm;
use crate::pool::Pool;
use crate::simd::CpuSet;

/// The property of a CPU on which plans depend: its number of threads. It answers as a
/// [`Target`](lessen_compile::Target).
#[derive(Clone, Copy, Debug)]
pub struct CpuTarget {
    /// Threads.
    pub threads: usize,
}

/// A CPU: a pool of threads and one arena.
pub struct Device {
    pub(crate) pool: Pool,
    pub(crate) arena: Arena,
    /// Whether threads have their workspace of products.
    has_workspace: bool,
}

impl Device {
    /// A device with this number of threads.
    ///
    /// # Errors
    /// A sentence when the system gives no more threads, or when `LESSEN_CPU` has a value that it cannot have.
    pub fn new(threads: usize) -> Result<Device> {
        CpuSet::check_env()?;
        let pool = Pool::new(threads).map_err(|e| Error::user(format!("{threads} threads cannot be started: {e}")))?;
        Ok(Device {
            pool,
            arena: Arena::new(0)?,
            has_workspace: false,
        })
    }

    /// A device with `LESSEN_THREADS` threads, or as many as there are cores, with the instructions of `LESSEN_CPU`
    /// or all of the machine.
    ///
    /// # Errors
    /// A sentence when a variable has another value than it can have.
    pub fn from_env() -> Result<Device> {
        CpuSet::check_env()?;
        Ok(Device {
            pool: Pool::from_env()?,
            arena: Arena::new(0)?,
            has_workspace: false,
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

    /// Allocates an arena of at least `arena` bytes, and each thread's workspace of products.
    pub(crate) fn reserve(&mut self, arena: usize) -> Result<()> {
        /// Rows and columns of a product that takes as much workspace as any.
        const SIDE: usize = 384;
        /// Bytes of a thread's workspace of products.
        const WORKSPACE: usize = 4 << 20;
        let threads = self.threads();
        let needed = threads * WORKSPACE + (threads + 1) * size_of::<f32>() * SIDE * SIDE;
        if let Some(available) = machine::available_bytes().filter(|left| *left < needed && !self.has_workspace) {
            return Err(Error::user(format!(
                "products of matrices on {threads} threads need {} of memory, but only {} are available to this process; \
                 give it more, or set LESSEN_THREADS lower",
                show_size(needed),
                show_size(available)
            )));
        }
        let factor = vec![0.0f32; SIDE * SIDE];
        let all_here = Barrier::new(threads);
        self.pool.run(threads, &|_, _| {
            // Nobody takes a second task before every thread has its first.
            all_here.wait();
            let mut result = vec![0.0f32; SIDE * SIDE];
            let (x, y) = (factor.as_ptr(), result.as_mut_ptr());
            let at = (SIDE as isize, 1);
            // SAFETY: the matrices have these rows and columns, and the result overlaps nothing.
            unsafe {
                gemm(
                    SIDE,
                    SIDE,
                    SIDE,
                    (x, at.0, at.1),
                    (x, at.0, at.1),
                    (y, at.0, at.1),
                    false,
                )
            };
        });
        drop(factor);
        self.has_workspace = true;
        // Not sooner, so that the arena and these matrices are not in memory together.
        self.arena.grow(arena)
    }

    /// Frees the arena; the next run makes another one.
    pub(crate) fn free_arena(&mut self) {
        if let Ok(empty) = Arena::new(0) {
            self.arena = empty;
        }
    }

    /// The properties of this device that the planner must know.
    pub fn target(&self) -> CpuTarget {
        CpuTarget {
            threads: self.threads(),
        }
    }

    /// Compiles a graph for this device.
    ///
    /// # Errors
    /// As [`lessen_compile::compile`].
    pub fn compile(&self, graph: &Graph, options: &Options) -> Result<Plan> {
        compile(graph, options, &self.target())
    }
}
