//! Bytes of programs beside states and arena, measured by loading them once and unloading them again.

use lessen_base::Result;
use lessen_base::allocated::{self, Growth};
use lessen_compile::Plan;
use lessen_device::Backend;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether no program was loaded to measure it. The first one of a process makes tables of kernels that stay, which are
/// no part of its size, so it is loaded once before it is measured.
static IS_FIRST: AtomicBool = AtomicBool::new(true);

/// Programs with more bytes of constants and results than this are not loaded to measure them.
const LARGE: usize = 64 << 20;

/// Programs with a larger arena than this are not loaded to measure them: no machine runs them, and their kernels have
/// so many slices that loading takes minutes.
const LARGE_ARENA: usize = 1 << 40;

/// The size of a program, in bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct ProgramSize {
    /// Bytes of constants and results.
    pub constants: usize,
    /// Bytes of the arena that the program runs in.
    pub arena: usize,
    /// Allocations of compiling and loading the program.
    pub growth: Growth,
}

/// The programs of a training phase for the layouts beside the largest, in bytes.
#[derive(Default)]
pub(super) struct OtherPrograms {
    /// Bytes of all programs, their constants included.
    pub programs: usize,
    /// Bytes of the programs' constants.
    pub constants: usize,
    /// Bytes that compiling one of them takes for a moment beside all others.
    pub compiling: usize,
}

impl ProgramSize {
    /// Compiles plans, loads them and unloads them again. Large constants and results are not allocated for that.
    ///
    /// # Errors
    /// Steps that cannot be compiled, and memory that the device does not have.
    pub(super) fn measure(
        backend: &mut dyn Backend,
        compile: impl FnOnce(&dyn Backend) -> Result<Vec<Plan>>,
    ) -> Result<ProgramSize> {
        let (plans, compiling) = allocated::growth(|| compile(backend));
        let plans = plans?;
        let constants: usize = plans
            .iter()
            .map(|plan| plan.constant_bytes() + plan.result_bytes())
            .sum();
        let arena = plans.iter().map(Plan::arena_bytes).fold(0, usize::max);
        let growth = if constants > LARGE || arena > LARGE_ARENA {
            Growth {
                lasting: compiling.lasting + constants,
                ..compiling
            }
        } else {
            let model = backend.add_model();
            let mut warm_up = |plan: &Plan| {
                let program = backend.load(model, plan.clone())?;
                backend.unload(program);
                Ok(())
            };
            let warmed = match IS_FIRST.swap(false, Ordering::Relaxed) {
                true => plans.iter().try_for_each(&mut warm_up),
                false => Ok(()),
            };
            let load = |plan| backend.load(model, plan);
            let (programs, loading) = allocated::growth(|| plans.into_iter().map(load).collect::<Result<Vec<_>>>());
            backend.remove_model(model);
            warmed?;
            programs?;
            let transient = compiling.transient.saturating_sub(loading.lasting);
            Growth {
                lasting: compiling.lasting + loading.lasting,
                transient: transient.max(loading.transient),
            }
        };
        Ok(ProgramSize {
            constants,
            arena,
            growth,
        })
    }

    /// The greater of two sizes, part by part.
    pub(super) fn max(self, other: ProgramSize) -> ProgramSize {
        ProgramSize {
            constants: self.constants.max(other.constants),
            arena: self.arena.max(other.arena),
            growth: Growth {
                lasting: self.growth.lasting.max(other.growth.lasting),
                transient: self.growth.transient.max(other.growth.transient),
            },
        }
    }
}
