//! Memory that this process takes.

use lessen_base::process::{peak_resident, reset_peak_resident, status_bytes};

/// Growth of the resident memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct ResidentGrowth {
    start: usize,
}

impl ResidentGrowth {
    /// Begins to watch. None where the system does not tell.
    pub fn watch() -> Option<ResidentGrowth> {
        reset_peak_resident();
        let start = status_bytes("VmRSS")?;
        Some(ResidentGrowth { start })
    }

    /// The highest resident size since then, over the size then, in bytes.
    pub fn peak(&self) -> Option<usize> {
        Some(peak_resident()?.saturating_sub(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_was_touched_and_given_back_counts_as_growth() {
        let growth = ResidentGrowth::watch().unwrap();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        drop(touched);
        assert!(growth.peak().unwrap() >= 60 << 20);
    }
}
