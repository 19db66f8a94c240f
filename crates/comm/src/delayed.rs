//! A wire that is slowed down to the latency and the rate of a network, for simulations.

use std::collections::{HashMap, VecDeque};
use std::str::FromStr;
use std::time::{Duration, Instant};

use lessen_base::{Error, Result};

use crate::wire::{Message, Progress, Request, Wire, unknown};

/// Latency and rate of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Time from one rank to another.
    pub latency: Duration,
    /// Bytes per second that a rank sends, to all others together.
    pub rate: f64,
}

impl FromStr for Network {
    type Err = Error;

    /// A rate in bits per second and a latency, such as `1Gbit,10ms`.
    fn from_str(text: &str) -> Result<Network> {
        let wrong = || {
            Error::user(format!(
                "'{text}' is no network; write its rate and its latency, such as 1Gbit,10ms or 100Mbit,200us"
            ))
        };
        let (rate, latency) = text.split_once(',').ok_or_else(wrong)?;
        let rate = scaled(rate, &[("Kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)]).ok_or_else(wrong)?;
        let latency = scaled(latency, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]).ok_or_else(wrong)?;
        if rate == 0.0 {
            return Err(wrong());
        }
        Ok(Network {
            latency: Duration::try_from_secs_f64(latency).map_err(|_| wrong())?,
            rate: rate / 8.0,
        })
    }
}

/// A number from 0 with one of these units.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let (number, unit) = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * unit)
}

impl Network {
    /// When a message that is given to a rank's network at `now`, which is sending until `busy`, has left it. The
    /// message arrives after the latency more.
    pub fn leaves(&self, busy: Duration, now: Duration, bytes: usize) -> Duration {
        let seconds = bytes as f64 / self.rate;
        busy.max(now) + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4)
    }
}

/// A send that the network holds until its time.
#[derive(Debug)]
struct Held {
    request: Request,
    due: Duration,
    to: usize,
    tag: u32,
    message: Message,
}

/// A wire over which each message takes the time that it would take in a [`Network`], without chance.
#[derive(Debug)]
pub struct Delayed<W> {
    wire: W,
    network: Network,
    start: Instant,
    busy: Duration,
    held: VecDeque<Held>,
    /// Requests of the wire below.
    begun: HashMap<Request, Request>,
    next: u64,
}

impl<W: Wire> Delayed<W> {
    /// A wire over another one.
    pub fn new(wire: W, network: Network) -> Delayed<W> {
        Delayed {
            wire,
            network,
            start: Instant::now(),
            busy: Duration::ZERO,
            held: VecDeque::new(),
            begun: HashMap::new(),
            next: 0,
        }
    }

    fn next(&mut self) -> Request {
        self.next += 1;
        Request(self.next)
    }

    /// Gives the wire below all messages whose time has come.
    fn release(&mut self) -> Result<()> {
        let now = self.start.elapsed();
        while self.held.front().is_some_and(|held| held.due <= now)
            && let Some(held) = self.held.pop_front()
        {
            let below = self.wire.send(held.to, held.tag, held.message)?;
            self.begun.insert(held.request, below);
        }
        Ok(())
    }
}

impl<W: Wire> Wire for Delayed<W> {
    fn rank(&self) -> usize {
        self.wire.rank()
    }

    fn size(&self) -> usize {
        self.wire.size()
    }

    fn send(&mut self, to: usize, tag: u32, message: Message) -> Result<Request> {
        let bytes = message.bytes().len();
        self.busy = self.network.leaves(self.busy, self.start.elapsed(), bytes);
        let request = self.next();
        self.held.push_back(Held {
            request,
            due: self.busy + self.network.latency,
            to,
            tag,
            message,
        });
        Ok(request)
    }

    fn receive(&mut self, from: usize, tag: u32, length: usize) -> Result<Request> {
        let below = self.wire.receive(from, tag, length)?;
        let request = self.next();
        self.begun.insert(request, below);
        Ok(request)
    }

    fn test(&mut self, request: Request) -> Result<Progress> {
        self.release()?;
        let progress = match self.begun.get(&request) {
            Some(below) => self.wire.test(*below)?,
            None if self.held.iter().any(|held| held.request == request) => Progress::Pending,
            None => return Err(unknown(request)),
        };
        if progress != Progress::Pending {
            self.begun.remove(&request);
        }
        Ok(progress)
    }

    fn progress(&mut self) {
        self.wire.progress();
    }

    fn abort(&mut self, error: &Error) {
        self.wire.abort(error);
    }

    fn finish(&mut self) -> Result<()> {
        self.wire.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_a_rate_and_a_latency() {
        let network: Network = "1Gbit,10ms".parse().unwrap();
        assert_eq!(
            network,
            Network {
                latency: Duration::from_millis(10),
                rate: 125e6
            }
        );
        let network: Network = "2.5 Mbit, 200 us".parse().unwrap();
        assert_eq!(
            network,
            Network {
                latency: Duration::from_micros(200),
                rate: 312_500.0
            }
        );
        for wrong in [
            "",
            "1Gbit",
            "1,10ms",
            "-1Gbit,10ms",
            "0Gbit,1ms",
            "1Gbit,1e400s",
            "nanGbit,1ms",
        ] {
            let error = wrong.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains("1Gbit,10ms"), "{error}");
        }
    }
}
