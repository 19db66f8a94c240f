//! Memory that a device has allocated and memory that it can still allocate.

use lessen_base::{Error, Result, show_size};

/// Memory of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceMemory {
    /// Bytes that are allocated.
    pub used: MemoryUse,
    /// Bytes that can still be allocated; none where the device does not tell.
    pub available: Option<usize>,
}

/// Bytes that a device has allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// States of all models.
    pub states: usize,
    /// Constants of all loaded plans.
    pub constants: usize,
    /// Arena that all plans share.
    pub arena: usize,
    /// Results of all loaded plans.
    pub results: usize,
}

impl MemoryUse {
    /// Bytes that stay allocated between runs of any plan: all but the arena.
    pub fn lasting(&self) -> usize {
        self.states + self.constants + self.results
    }

    /// All bytes.
    pub fn total(&self) -> usize {
        self.states + self.constants + self.arena + self.results
    }
}

impl DeviceMemory {
    /// Refuses a plan that needs more bytes than the device can still give.
    ///
    /// # Errors
    /// A sentence with both figures.
    pub fn check(&self, needed: usize) -> Result<()> {
        match self.available {
            Some(available) if needed > available => Err(Error::user(format!(
                "the plan needs {} of memory but only {} are available; take a smaller batch or model, or set a budget",
                show_size(needed),
                show_size(available)
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_beyond_what_is_available_is_refused_with_both_figures() {
        let memory = |available| DeviceMemory {
            available,
            ..DeviceMemory::default()
        };
        assert_eq!(memory(None).check(usize::MAX), Ok(()));
        assert_eq!(memory(Some(1 << 20)).check(1 << 20), Ok(()));
        let error = memory(Some(1 << 20)).check(3 << 20).unwrap_err();
        assert!(
            error.to_string().contains("3.0 MiB") && error.to_string().contains("1.0 MiB"),
            "{error}"
        );
        assert_eq!(error.exit_code(), 2);
    }
}
