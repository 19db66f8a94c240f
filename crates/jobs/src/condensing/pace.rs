//! The number of iterations that fill a time, from the mean time of the iterations that are done.

use std::time::Duration;

/// The share of the time after which the number of iterations is settled: the speed of a shared machine varies within
/// a minute.
const MEASURED: f64 = 0.5;

/// The time to fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    time: f64,
    /// Seconds of the first iteration, which also touches all memory for the first time.
    first: f64,
    /// Seconds and number of the later ones.
    later: (f64, usize),
}

/// The number of iterations that are still to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    /// An estimate, which later iterations may change.
    About(usize),
    /// The settled number.
    Exactly(usize),
}

impl Pace {
    /// A time of `seconds`; a negative one is 0.
    pub(super) fn new(seconds: f64) -> Pace {
        Pace {
            time: seconds.max(0.0),
            first: 0.0,
            later: (0.0, 0),
        }
    }

    /// Counts an iteration of the duration `time`, and returns the number of further iterations that fill the time.
    pub(super) fn add(&mut self, time: Duration) -> Left {
        let time = time.as_secs_f64();
        if self.first == 0.0 {
            self.first = time.max(f64::MIN_POSITIVE);
        } else {
            self.later = (self.later.0 + time, self.later.1 + 1);
        }
        let taken = self.first + self.later.0;
        let each = match self.later {
            (_, 0) => self.first,
            (later, count) => later / count as f64,
        };
        let more = ((self.time - taken).max(0.0) / each.max(1e-9)) as usize;
        if taken < MEASURED * self.time {
            Left::About(more)
        } else {
            Left::Exactly(more)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of further iterations after each iteration of `seconds`, where the time is `fill` seconds.
    fn left(fill: f64, seconds: &[f64]) -> Vec<Left> {
        let mut pace = Pace::new(fill);
        let add = |time: &f64| pace.add(Duration::from_secs_f64(*time));
        seconds.iter().map(add).collect()
    }

    #[test]
    fn half_of_the_time_settles_how_many_iterations_fill_it() {
        use Left::{About, Exactly};
        // The first iteration takes longer than the others, so the mean leaves it out.
        assert_eq!(left(50.0, &[5.0, 4.0, 4.0]), [About(9), About(10), About(9)]);
        assert_eq!(left(50.0, &[5.0, 10.0, 10.0]), [About(9), About(3), Exactly(2)]);
        // After a slow beginning 250, 151 and 150 s are left, at means of 2, 147 / 123 and 148 / 124 s.
        let slow_then_fast = [vec![2.0; 25], vec![1.0; 100]].concat();
        let found = left(300.0, &slow_then_fast);
        assert_eq!(
            (found[24], found[123], found[124]),
            (About(125), About(126), Exactly(125))
        );
        assert_eq!(left(300.0, &[90.0, 90.0]), [About(2), Exactly(1)]);
        assert_eq!(left(300.0, &[400.0]), [Exactly(0)]);
        // No time is given, or earlier sessions took all of it.
        assert_eq!(left(0.0, &[1.0]), [Exactly(0)]);
        assert_eq!(left(-20.0, &[1.0]), [Exactly(0)]);
    }
}
