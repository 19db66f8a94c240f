//! The pace that is asked of clients: a number of bytes in each while, as long as the server waits for them.

use std::time::Duration;
use tokio::time::Instant;

/// Bytes that a client must send or take in each second.
const RATE: usize = 1 << 10;

/// The bytes of a client in the current while.
pub struct Pace {
    length: Duration,
    begun: Instant,
    bytes: usize,
}

impl Pace {
    /// Begins the first while, of this length.
    pub fn new(length: Duration) -> Pace {
        Pace {
            length,
            begun: Instant::now(),
            bytes: 0,
        }
    }

    /// The fewest bytes of a while of this length.
    pub fn least(length: Duration) -> usize {
        ((length.as_secs_f64() * RATE as f64) as usize).max(1)
    }

    /// Counts bytes.
    pub fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// When the while ends.
    pub fn end(&self) -> Instant {
        self.begun + self.length
    }

    /// Begins the next while, at the end of one; whether the bytes of the last one were enough.
    pub fn goes_on(&mut self) -> bool {
        let is_enough = self.bytes >= Pace::least(self.length);
        *self = Pace::new(self.length);
        is_enough
    }
}
