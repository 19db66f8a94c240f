//! Checkpoints by time.

use std::time::{Duration, Instant};

/// Time to the first checkpoint of a run.
const EARLY: Duration = Duration::from_secs(30);

/// Least time between checkpoints, in multiples of the time of saving one: saving takes at most a twentieth of a run.
const TIMES: u32 = 20;

/// Tells when a checkpoint is due by time.
pub(crate) struct CheckpointClock {
    /// Time between checkpoints; none without checkpoints by time.
    every: Option<Duration>,
    /// Whether the run has a checkpoint.
    has_one: bool,
    last: Instant,
    took: Duration,
}

impl CheckpointClock {
    /// A clock for a checkpoint every `minutes`, none for 0. `has_one` says whether the run has a checkpoint already.
    pub(crate) fn new(minutes: f64, has_one: bool) -> CheckpointClock {
        let every = Duration::try_from_secs_f64(60.0 * minutes).unwrap_or(Duration::MAX);
        CheckpointClock {
            every: (minutes > 0.0).then_some(every),
            has_one,
            last: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Whether a checkpoint is due.
    pub(crate) fn is_due(&self) -> bool {
        self.wait().is_some_and(|wait| self.last.elapsed() >= wait)
    }

    /// Time from the last checkpoint, or the start, to the next one.
    fn wait(&self) -> Option<Duration> {
        let every = if self.has_one {
            self.every?
        } else {
            self.every?.min(EARLY)
        };
        Some(every.max(self.took.saturating_mul(TIMES)))
    }

    /// Notes that a checkpoint was tried, which took `time`.
    pub(crate) fn tried(&mut self, took: Duration) {
        (self.has_one, self.last, self.took) = (true, Instant::now(), took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_is_early_and_saving_takes_a_small_share() {
        let mut clock = CheckpointClock::new(10.0, false);
        assert_eq!(clock.wait(), Some(EARLY));
        assert!(!clock.is_due());
        clock.tried(Duration::from_secs(1));
        assert_eq!(clock.wait(), Some(Duration::from_secs(600)));
        clock.tried(Duration::from_secs(60));
        assert_eq!(clock.wait(), Some(Duration::from_secs(1200)));
        assert_eq!(
            CheckpointClock::new(0.01, false).wait(),
            Some(Duration::from_millis(600))
        );
        assert_eq!(CheckpointClock::new(10.0, true).wait(), Some(Duration::from_secs(600)));
        assert_eq!(CheckpointClock::new(0.0, false).wait(), None);
        assert_eq!(CheckpointClock::new(f64::MAX, true).wait(), Some(Duration::MAX));
    }
}
