//! The account of a process that runs the functions of a session.

use super::account::{Account, DeviceAccount, HostAccount};
use super::process_baseline::ProcessBaseline;
use lessen_base::allocated::{self, Growth};
use lessen_device::MemoryUse;

/// Bytes for messages, lines of metrics and buffers of files.
const MARGIN: usize = 192 << 10;

/// What a process allocates beside a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BesideSession {
    /// Bytes of the arrays that are made for runs.
    pub batches: usize,
    /// Bytes that are taken for a moment, such as while results are saved.
    pub momentary: usize,
}

impl Account {
    /// The account of a process that has allocated `baseline`, and then a session: `planned` bytes on the device, of
    /// which the arena may be allocated later, in a growth of `growth`.
    pub(crate) fn of_session(
        baseline: &ProcessBaseline,
        planned: MemoryUse,
        growth: Growth,
        beside: BesideSession,
    ) -> Account {
        let device = DeviceAccount {
            states: planned.states,
            constants: planned.constants + planned.results,
            arena: planned.arena,
            workspace: baseline.workspace,
        };
        let mut account = Account {
            device,
            host: HostAccount {
                data: Some(baseline.data),
                ..HostAccount::default()
            },
        };
        if allocated::current().is_none() {
            account.device.workspace = 0;
            return account;
        }
        let warming = baseline.workspace_transient.saturating_sub(planned.arena);
        let host = &mut account.host;
        host.process = baseline.process;
        host.programs = growth.lasting.saturating_sub(planned.lasting());
        host.batches = beside.batches;
        host.transient = beside.momentary.max(warming) + MARGIN;
        // The process may have taken more already.
        let past = allocated::peak().unwrap_or(0).saturating_sub(baseline.others);
        account.host.transient += past.saturating_sub(account.allocated());
        account.with_unallocated(baseline.code, baseline.small, baseline.held)
    }
}
