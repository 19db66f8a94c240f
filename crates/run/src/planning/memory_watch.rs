//! Watching the memory of a process that works on a run, beside what was planned for it.

use super::account::Account;
use lessen_base::allocated;
use lessen_train::Peak;
use lessen_train::memory::ResidentGrowth;

/// The memory of a process that works on a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryWatch {
    /// Bytes that were allocated at the start of the run; none where no allocator counts.
    start: Option<usize>,
    /// The account of the training phase that takes most, once it is planned.
    pub account: Account,
    /// Most bytes that the plans of a training phase announce.
    pub plans: usize,
    resident: Option<ResidentGrowth>,
}

impl MemoryWatch {
    /// Begins to watch, at the start of a run.
    pub(crate) fn begin() -> MemoryWatch {
        allocated::reset_peak();
        MemoryWatch {
            start: allocated::current(),
            account: Account::default(),
            plans: 0,
            resident: ResidentGrowth::watch(),
        }
    }

    /// Bytes that were allocated at the start of the run; none where no allocator counts.
    pub(crate) fn start(&self) -> Option<usize> {
        self.start
    }

    /// Adds the account of a training phase; the largest one counts.
    pub(crate) fn add(&mut self, phase: Account) {
        self.plans = self.plans.max(phase.plans());
        if phase.total() > self.account.total() {
            self.account = phase;
        }
    }

    /// The peak of the process, planned and measured, given the trainer's own figures for states, constants and arena.
    /// These are all that is known where no allocator counts.
    pub(crate) fn peak(&self, trainer: Peak) -> Peak {
        Peak {
            planned: self.account.total().max(trainer.planned),
            measured: allocated::peak().unwrap_or(trainer.measured),
        }
    }

    /// Greatest growth of the process's resident memory, in bytes.
    pub(crate) fn resident(&self) -> Option<usize> {
        self.resident.and_then(|resident| resident.peak())
    }
}
