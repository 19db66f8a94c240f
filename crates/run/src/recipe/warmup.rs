//! How long the learning rate rises.

/// The warm-up of a training phase.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Warmup {
    /// A number of steps.
    Steps(u64),
    /// This share of all steps.
    Share(f64),
}

impl Warmup {
    /// The steps of a warm-up in a run of `total` steps; a share is rounded up.
    pub fn steps(self, total: u64) -> u64 {
        match self {
            Warmup::Steps(steps) => steps,
            Warmup::Share(share) => (share * total as f64).ceil() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_all_steps() {
        assert_eq!(Warmup::Steps(7).steps(3), 7);
        for (share, steps) in [(0.0, 0), (0.06, 6), (0.061, 7), (1.0, 100)] {
            assert_eq!(Warmup::Share(share).steps(100), steps, "{share}");
        }
    }
}
