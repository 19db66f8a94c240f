//! Watching the memory of a process that works on a run, beside what was planned for it.

use super::account::Account;
use super::process_baseline::ProcessStart;
use lessen_base::allocated;
use lessen_base::process::{peak_resident, reset_peak_resident};
use lessen_train::Peak;

/// The memory of a process that works on a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryWatch {
    /// The process at the start of the run; none where no allocator counts.
    start: Option<ProcessStart>,
    /// The account of the training phase that takes most, once it is planned.
    pub account: Account,
    /// Most bytes that the plans of a training phase announce.
    pub plans: usize,
}

impl MemoryWatch {
    /// Begins to watch, at the start of a run.
    pub fn begin() -> MemoryWatch {
        let start = ProcessStart::measure();
        allocated::reset_peak();
        reset_peak_resident();
        MemoryWatch {
            start,
            account: Account::default(),
            plans: 0,
        }
    }

    /// The process at the start of the run; none where no allocator counts.
    pub fn start(&self) -> Option<ProcessStart> {
        self.start
    }

    /// Adds the account of a training phase; the largest one counts.
    pub fn add(&mut self, phase: Account) {
        self.plans = self.plans.max(phase.plans());
        if phase.total() > self.account.total() {
            self.account = phase;
        }
    }

    /// The peak of the process, planned as resident and measured as allocated, given the trainer's own figures for
    /// states, constants and arena. These are all that is known where no allocator counts.
    pub fn peak(&self, trainer: Peak) -> Peak {
        Peak {
            planned: self.account.total().max(trainer.planned),
            measured: allocated::peak().unwrap_or(trainer.measured),
        }
    }

    /// The highest resident size of the process, in bytes; none where the system does not tell.
    pub fn resident(&self) -> Option<usize> {
        peak_resident()
    }
}
