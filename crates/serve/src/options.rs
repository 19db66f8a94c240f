//! The settings of a server.

use crate::access::Access;
use lessen_base::{Error, Result};
use std::net::IpAddr;
use std::time::Duration;

/// Where a server listens, and its bounds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on.
    pub host: IpAddr,
    /// Port to listen on; 0 takes one that is free.
    pub port: u16,
    /// Name of the model in requests and answers.
    pub name: String,
    /// Bounds of requests.
    pub limits: Limits,
    /// Who may ask.
    pub access: Access,
}

/// Bounds of requests. Together they bound the memory of the process.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the body of a request.
    pub body: usize,
    /// Texts of a request.
    pub texts: usize,
    /// Time from a request's last byte to its answer's last byte; also the time that a client may take to send one.
    pub time: Duration,
    /// Requests that wait.
    pub queue: usize,
    /// Requests that are answered at once, each on a connection of its own.
    pub connections: usize,
    /// Tokens of texts that are computed together.
    pub tokens: usize,
    /// Texts that are continued together.
    pub sequences: usize,
    /// Tokens of a text that is continued, its prompt among them; none takes as many as the model has positions, and
    /// 2048 at most.
    pub context: Option<usize>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 2 << 20,
            texts: 256,
            time: Duration::from_secs(60),
            queue: 512,
            connections: 256,
            tokens: 2048,
            sequences: 8,
            context: None,
        }
    }
}

/// The most bytes of a request's head, and of what is read and written ahead on a connection.
pub(crate) const BUFFER: usize = 16 << 10;

/// Connections beyond those whose requests are answered at once: so many clients can always come to ask for the
/// server's health, or to be refused.
pub(crate) const SPARE: usize = 32;

/// The most texts of a request that a server can be asked to take.
pub const MOST_TEXTS: usize = 4096;

/// How long a client may send or take fewer bytes than the pace that is asked of it.
const PATIENCE: Duration = Duration::from_secs(10);

impl Limits {
    /// How long a client may send or take fewer bytes than the pace that is asked of it.
    pub(crate) fn patience(&self) -> Duration {
        self.time.min(PATIENCE)
    }

    /// Checks the ranges of numbers.
    ///
    /// # Errors
    /// A bound of 0, or one that is too large; the sentence begins with the flag.
    pub fn check(&self) -> Result<()> {
        let ranges = [
            ("--max-body", self.body, 1 << 30),
            ("--max-texts", self.texts, MOST_TEXTS),
            ("--queue", self.queue, 1 << 16),
            ("--connections", self.connections, 1 << 14),
            ("--batch-tokens", self.tokens, 1 << 20),
            ("--sequences", self.sequences, 256),
            ("--context", self.context.unwrap_or(1), 1 << 20),
        ];
        for (flag, value, most) in ranges {
            if !(1..=most).contains(&value) {
                return Err(Error::user(format!(
                    "{flag} {value} cannot be; choose a number from 1 to {most}"
                )));
            }
        }
        if self.time.is_zero() || self.time > Duration::from_secs(86_400) {
            let seconds = self.time.as_secs_f64();
            return Err(Error::user(format!(
                "--timeout {seconds} cannot be; choose a number of seconds above 0 and at most 86400"
            )));
        }
        Ok(())
    }
}
