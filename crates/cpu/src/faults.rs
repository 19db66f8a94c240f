//! Faults: what a kernel finds wrong in the data while it runs, such as an index out of range. The first one is kept
//! and reported after the run; kernels go on without touching memory out of bounds.

use std::sync::atomic::{AtomicU64, Ordering};

/// Collects the first fault of a run.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// 0: none. Else the bits of the index found in the low half and of one more than the limit in the high half.
    first: AtomicU64,
}

impl Faults {
    /// Notes an index that is not below its limit.
    #[cold]
    pub(crate) fn out_of_range(&self, index: i32, limit: usize) {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
        let code = (u64::from(limit) << 32) | u64::from(index as u32);
        // Which of several faults is kept does not matter; each names a true one.
        let _ = self
            .first
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether every index is below `limit`; notes the first that is not.
    pub(crate) fn check(&self, indices: &[i32], limit: usize) -> bool {
        // Negative indices become large.
        match indices.iter().find(|&&i| i as u32 as usize >= limit) {
            Some(&i) => {
                self.out_of_range(i, limit);
                false
            }
            None => true,
        }
    }

    /// The sentence for the first fault, which is then forgotten.
    pub(crate) fn take(&self) -> Option<String> {
        let code = self.first.swap(0, Ordering::Relaxed);
        if code == 0 {
            return None;
        }
        let (index, limit) = (code as u32 as i32, (code >> 32) as u32 - 1);
        Some(format!(
            "an index is {index}, but it must be at least 0 and below {limit}"
        ))
    }
}
