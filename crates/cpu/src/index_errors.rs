//! Index errors: kernels find wrong indices among the indices that a step computes. The first error is kept and ends
//! the run; kernels go on without touching memory out of bounds.

use std::sync::atomic::{AtomicU64, Ordering};

use lessen_base::Error;
use lessen_compile::Plan;
use lessen_device::computed_index_error;

/// Collects the first index error of a run.
#[derive(Debug, Default)]
pub(crate) struct IndexErrors {
    /// 0: none. Else the bits of the index found in the low half and of one more than the limit in the high half.
    first: AtomicU64,
}

impl IndexErrors {
    /// Notes an index that is not below its limit.
    #[cold]
    pub(crate) fn note(&self, index: i32, limit: usize) {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX - 1).saturating_add(1);
        let code = (u64::from(limit) << 32) | u64::from(index as u32);
        // Which of several errors is kept does not matter; each names a true one.
        let _ = self
            .first
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether every index is below `limit`; notes the first that is not.
    pub(crate) fn check(&self, indices: &[i32], limit: usize) -> bool {
        // Negative indices become large.
        match indices.iter().find(|&&i| i as u32 as usize >= limit) {
            Some(&i) => {
                self.note(i, limit);
                false
            }
            None => true,
        }
    }

    /// Whether an error has been noted.
    pub(crate) fn any(&self) -> bool {
        self.first.load(Ordering::Relaxed) != 0
    }

    /// The first error, which is then forgotten, in this step of a plan.
    pub(crate) fn take(&self, plan: &Plan, step: usize) -> Option<Error> {
        if !self.any() {
            return None;
        }
        let code = self.first.swap(0, Ordering::Relaxed);
        let (index, limit) = (code as u32 as i32, (code >> 32) as u32 - 1);
        Some(computed_index_error(plan, step, index.into(), limit as usize))
    }
}
