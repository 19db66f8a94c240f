//! The number of iterations that fill a time, by the time that the first ones take.

use std::time::Duration;

/// The share of the time after which the number is decided, by two iterations at least.
const MEASURED: f64 = 0.02;

/// The share of the time after which one iteration must do.
const LONG: f64 = 0.1;

/// The time to fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    time: f64,
    /// Seconds of the first iteration, which also touches all memory for the first time.
    first: f64,
    /// Seconds and number of the later ones.
    later: (f64, usize),
}

impl Pace {
    /// So many minutes to fill.
    pub(super) fn new(minutes: f64) -> Pace {
        Pace {
            time: 60.0 * minutes,
            first: 0.0,
            later: (0.0, 0),
        }
    }

    /// Counts an iteration; the number of further iterations that fill the time, once that is known.
    pub(super) fn add(&mut self, time: Duration) -> Option<usize> {
        let time = time.as_secs_f64();
        if self.first == 0.0 {
            self.first = time.max(f64::MIN_POSITIVE);
        } else {
            self.later = (self.later.0 + time, self.later.1 + 1);
        }
        let taken = self.first + self.later.0;
        let each = match self.later {
            (_, 0) if taken < LONG * self.time => return None,
            (_, 0) => self.first,
            (later, count) => later / count as f64,
        };
        if taken < MEASURED * self.time {
            return None;
        }
        Some(((self.time - taken).max(0.0) / each.max(1e-9)) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(minutes: f64, seconds: &[f64]) -> Option<usize> {
        let mut pace = Pace::new(minutes);
        let mut found = None;
        for time in seconds {
            assert_eq!(found, None, "decided too early");
            found = pace.add(Duration::from_secs_f64(*time));
        }
        found
    }

    #[test]
    fn the_first_iterations_decide_how_many_fill_the_time() {
        // The first one takes longer than the others.
        assert_eq!(decided(5.0, &[5.0, 4.0]), Some(72));
        assert_eq!(decided(5.0, &[1.0, 1.0]), None);
        assert_eq!(decided(5.0, &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), Some(294));
        assert_eq!(decided(5.0, &[90.0]), Some(2));
        assert_eq!(decided(5.0, &[400.0]), Some(0));
        assert_eq!(decided(0.0, &[1.0]), Some(0));
    }
}
