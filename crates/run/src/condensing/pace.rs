//! The number of iterations that fill a time, by the time that those before take.

use std::time::Duration;

/// The share of the time after which the number is settled: the speed of a shared machine varies within a minute.
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

/// How many iterations are still to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    /// About so many.
    About(usize),
    /// So many, which later iterations do not change.
    Exactly(usize),
}

impl Pace {
    /// So many seconds to fill.
    pub(super) fn new(seconds: f64) -> Pace {
        Pace {
            time: seconds.max(0.0),
            first: 0.0,
            later: (0.0, 0),
        }
    }

    /// Counts an iteration; the number of further iterations that fill the time.
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

    /// What iterations that take `seconds` leave of the time `fill`, after each of them.
    fn left(fill: f64, seconds: &[f64]) -> Vec<Left> {
        let mut pace = Pace::new(fill);
        let add = |time: &f64| pace.add(Duration::from_secs_f64(*time));
        seconds.iter().map(add).collect()
    }

    #[test]
    fn half_of_the_time_settles_how_many_iterations_fill_it() {
        use Left::{About, Exactly};
        // The first one takes longer than the others and does not count for them.
        assert_eq!(left(50.0, &[5.0, 4.0, 4.0]), [About(9), About(10), About(9)]);
        assert_eq!(left(50.0, &[5.0, 10.0, 10.0]), [About(9), About(3), Exactly(2)]);
        // A slow beginning: 250 s at 2 s, 151 s at (24 * 2 + 99) / 123 s, 150 s at (24 * 2 + 100) / 124 s.
        let slow_then_fast = [vec![2.0; 25], vec![1.0; 100]].concat();
        let found = left(300.0, &slow_then_fast);
        assert_eq!(
            (found[24], found[123], found[124]),
            (About(125), About(126), Exactly(125))
        );
        assert_eq!(left(300.0, &[90.0, 90.0]), [About(2), Exactly(1)]);
        assert_eq!(left(300.0, &[400.0]), [Exactly(0)]);
        // No time, or none that sessions before left.
        assert_eq!(left(0.0, &[1.0]), [Exactly(0)]);
        assert_eq!(left(-20.0, &[1.0]), [Exactly(0)]);
    }
}
