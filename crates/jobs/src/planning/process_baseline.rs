//! The memory of a process before it plans its steps.

use lessen_base::process::{mapped_file_bytes, status_bytes, threads};
use lessen_base::{Result, allocated};
use lessen_device::Backend;
use std::sync::OnceLock;

/// Bytes of the stack of a thread that are resident, and of the stacks of those that are still to come.
const STACK: usize = 64 << 10;
const STACKS: usize = 512 << 10;

/// The most of program and libraries that becomes resident, as a fraction: kernels for the instructions of other
/// processors never do, and a run uses no more than some of the commands.
const RESIDENT: (usize, usize) = (4, 5);

/// The allocations of a process before it reads anything, and of its data, are counted as multiples of this number of
/// bytes, since they depend on the lengths of flags and paths.
const ROUNDING: usize = 64 << 10;

/// Memory of a process before it plans its steps; zeros where no allocator counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessBaseline {
    /// Allocations before it read its data.
    pub(super) process: usize,
    /// Allocations of data, tokenizer and threads.
    pub(super) data: usize,
    /// The bytes of both that are in small allocations.
    pub(super) small: usize,
    /// The device's workspace.
    pub(super) workspace: usize,
    /// Bytes beside it while the workspace is made.
    pub(super) workspace_transient: usize,
    /// The program and its libraries, as far as they can be resident, and the stacks of threads.
    pub(super) code: usize,
    /// Bytes that the allocator holds beside what is allocated, from earlier work of the process.
    pub(super) held: usize,
    /// Allocations that are no part of the run that is planned.
    pub(super) others: usize,
}

/// What a process has resident beside its allocations and its program, at the start of its first run.
static AT_FIRST: OnceLock<usize> = OnceLock::new();

/// A process at its start, or between two runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessStart {
    /// Bytes that are allocated.
    allocated: usize,
    /// Bytes that the allocator holds beside, more than at the start of the first run of the process.
    held: usize,
    /// Allocations that are no part of the run that is planned.
    others: usize,
}

impl ProcessStart {
    /// Measures the process; none where no allocator counts. Freed memory is given back before.
    pub fn measure() -> Option<ProcessStart> {
        allocated::give_back();
        let allocated = allocated::current()?;
        let beside = status_bytes("RssAnon").unwrap_or(0).saturating_sub(allocated);
        Some(ProcessStart {
            allocated,
            held: beside.saturating_sub(*AT_FIRST.get_or_init(|| beside)),
            others: 0,
        })
    }

    /// The process without the bytes that were allocated since `before`.
    pub(crate) fn without_since(self, before: ProcessStart) -> ProcessStart {
        ProcessStart {
            others: self.allocated.saturating_sub(before.allocated),
            ..before
        }
    }
}

impl ProcessBaseline {
    /// Measures a process that began as `start`, none where no allocator counts, and has read its data. Makes the
    /// device's workspace.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn measure(start: Option<ProcessStart>, backend: &mut dyn Backend) -> Result<ProcessBaseline> {
        let (now, large) = (allocated::current(), allocated::in_large());
        let (made, growth) = allocated::growth(|| backend.reserve(0));
        made?;
        let Some((start, now)) = start.zip(now) else {
            return Ok(ProcessBaseline::default());
        };
        let process = start.allocated.next_multiple_of(ROUNDING);
        let data = now.saturating_sub(start.others + process).next_multiple_of(ROUNDING);
        Ok(ProcessBaseline {
            process,
            data,
            small: (process + data).saturating_sub(large),
            workspace: growth.lasting,
            workspace_transient: growth.transient,
            code: RESIDENT.0 * mapped_file_bytes().unwrap_or(0) / RESIDENT.1 + STACKS + STACK * threads().unwrap_or(0),
            held: start.held.next_multiple_of(ROUNDING),
            others: start.others,
        })
    }
}
