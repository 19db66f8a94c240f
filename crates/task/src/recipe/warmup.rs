//! How long the learning rate rises.

/// The part of all steps that a warm-up has which is meant for a longer run.
const SHORTENED: u64 = 10;

/// The warm-up of a training phase.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Warmup {
    /// A number of steps.
    Steps(u64),
    /// This share of all steps.
    Share(f64),
}

impl Warmup {
    /// The steps of a warm-up in a run of `total` steps; a share is rounded up. A number of steps that is more than
    /// half of all is meant for a longer run: the warm-up is a tenth of the steps then.
    pub fn steps(self, total: u64) -> u64 {
        match self {
            Warmup::Steps(_) if self.is_shortened(total) => total.div_ceil(SHORTENED),
            Warmup::Steps(steps) => steps,
            Warmup::Share(share) => (share * total as f64).ceil() as u64,
        }
    }

    /// Whether the warm-up is a number of steps that is more than half of `total`.
    pub fn is_shortened(self, total: u64) -> bool {
        matches!(self, Warmup::Steps(steps) if steps > total / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_a_share_or_at_most_half_of_all_steps() {
        for (steps, total, own) in [(7, 14, 7), (7, 100, 7), (0, 3, 0), (1, 2, 1), (100, 200, 100)] {
            let warmup = Warmup::Steps(steps);
            assert!(
                warmup.steps(total) == own && !warmup.is_shortened(total),
                "{steps} of {total}"
            );
        }
        for (steps, total, own) in [(7, 13, 2), (100, 199, 20), (8, 4, 1), (3, 1, 1), (1, 1, 1)] {
            let warmup = Warmup::Steps(steps);
            assert!(
                warmup.steps(total) == own && warmup.is_shortened(total),
                "{steps} of {total}"
            );
        }
        // A share is what it says.
        assert!(!Warmup::Share(1.0).is_shortened(100) && !Warmup::Share(0.75).is_shortened(4));
        for (share, steps) in [(0.0, 0), (0.06, 6), (0.061, 7), (1.0, 100)] {
            assert_eq!(Warmup::Share(share).steps(100), steps, "{share}");
        }
    }
}
