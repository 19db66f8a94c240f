//! The rate and the latency of the network between processes, as all of them measure it together.

use std::time::{Duration, Instant};

use lessen_base::Result;

use crate::delayed::Network;
use crate::group::Group;

/// Messages that measure the latency; the fastest one counts.
const ROUNDS: usize = 8;

/// Bytes that each process sends to every other one to measure the rate.
const BYTES: usize = 1 << 20;

impl Group {
    /// Measures the network: the slowest process tells. Both numbers are rounded to powers of two, so that plans by
    /// them are the same at each start on one network; none of a process alone.
    ///
    /// # Errors
    /// A process that does not answer.
    pub(crate) fn measure(&self) -> Result<Option<Network>> {
        let others = self.size() - 1;
        let Some(exchange) = self.exchange().filter(|_| others > 0) else {
            return Ok(None);
        };
        let timed = |bytes: usize| {
            let begun = Instant::now();
            exchange.gather("the network", vec![0; bytes]).end()?;
            Ok(begun.elapsed().as_secs_f64())
        };
        let mut latency = f64::INFINITY;
        for _ in 0..ROUNDS {
            latency = latency.min(timed(1)?);
        }
        let seconds = (timed(BYTES)?.min(timed(BYTES)?) - latency).max(1e-9);
        let own = vec![latency, (others * BYTES) as f64 / seconds];
        let all = self.agree_numbers("the network", Ok(own))?;
        let slowest = |at: usize, worse: fn(f64, f64) -> f64| all.iter().map(|own| own[at]).reduce(worse);
        let network = slowest(0, f64::max).zip(slowest(1, f64::min));
        Ok(network.map(|(latency, rate)| Network {
            latency: Duration::try_from_secs_f64(rounded(latency)).unwrap_or_default(),
            rate: rounded(rate),
        }))
    }
}

/// The nearest power of two.
fn rounded(x: f64) -> f64 {
    x.log2().round().exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delayed::Delayed;
    use crate::exchange::Exchange;
    use crate::threads::ThreadWire;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn all_processes_measure_one_network() {
        let network = Network {
            latency: Duration::from_millis(8),
            rate: f64::from(1 << 25),
        };
        let ranks = ThreadWire::connected(3).into_iter().map(|wire| {
            thread::spawn(move || {
                let open = move || Ok(Box::new(Delayed::new(wire, network)) as _);
                let exchange = Exchange::start(Duration::from_secs(60), open).unwrap();
                Group::of(Arc::new(exchange)).measured().unwrap().network().unwrap()
            })
        });
        let ranks: Vec<_> = ranks.collect();
        let all: Vec<Network> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        assert!(all.iter().all(|own| *own == all[0]), "{all:?}");
        // A wire may be slower than what it stands for, and the rate of two messages of 1 MiB is that of their sum.
        assert!(all[0].latency >= Duration::from_millis(5), "{all:?}");
        assert!((1e6..=f64::from(1 << 26)).contains(&all[0].rate), "{all:?}");
    }
}
