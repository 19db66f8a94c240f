//! The allocations of a process before it plans its steps.

use lessen_base::{Result, allocated};
use lessen_device::Backend;

/// Bytes that a process has allocated before it plans its steps; zeros where no allocator counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessBaseline {
    /// Before it read its data.
    pub(super) process: usize,
    /// Data, tokenizer and threads.
    pub(super) data: usize,
    /// The device's workspace.
    pub(super) workspace: usize,
    /// Bytes beside it while the workspace is made.
    pub(super) workspace_transient: usize,
}

impl ProcessBaseline {
    /// Measures a process that had allocated `start` bytes at its start, none where no allocator counts, and has read
    /// its data. Makes the device's workspace.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub(crate) fn measure(start: Option<usize>, backend: &mut dyn Backend) -> Result<ProcessBaseline> {
        let now = allocated::current();
        let (made, growth) = allocated::growth(|| backend.reserve(0));
        made?;
        let Some((process, now)) = start.zip(now) else {
            return Ok(ProcessBaseline::default());
        };
        Ok(ProcessBaseline {
            process,
            data: now.saturating_sub(process),
            workspace: growth.lasting,
            workspace_transient: growth.transient,
        })
    }
}
