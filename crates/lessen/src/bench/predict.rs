//! How long a model takes to answer: percentiles of single requests, and answers in a second.

use lessen_base::Result;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Requests before the measured ones: the first compiles and allocates.
const WARM_UP: usize = 3;

/// The times of requests that followed each other.
pub struct Latencies {
    /// Milliseconds of each, ascending.
    sorted_ms: Vec<f64>,
    /// Examples of a request.
    batch: usize,
}

/// The percentiles that are shown.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Measures requests of `batch` examples, each made by `ask`.
///
/// # Errors
/// The error of a request.
pub fn measure(requests: usize, batch: usize, mut ask: impl FnMut() -> Result<()>) -> Result<Latencies> {
    (0..WARM_UP).try_for_each(|_| ask())?;
    let mut times = Vec::with_capacity(requests);
    for _ in 0..requests {
        let begun = Instant::now();
        ask()?;
        times.push(begun.elapsed());
    }
    Ok(Latencies::new(&times, batch))
}

impl Latencies {
    fn new(times: &[Duration], batch: usize) -> Latencies {
        let mut sorted_ms: Vec<f64> = times.iter().map(|time| 1e3 * time.as_secs_f64()).collect();
        sorted_ms.sort_by(f64::total_cmp);
        Latencies { sorted_ms, batch }
    }

    /// The time that this share of the requests, in percent, took at most.
    pub fn percentile(&self, percent: f64) -> f64 {
        let count = self.sorted_ms.len();
        let rank = (percent / 100.0 * count as f64).ceil() as usize;
        let place = rank.clamp(1, count.max(1)) - 1;
        self.sorted_ms.get(place).copied().unwrap_or_default()
    }

    /// The mean of all times.
    pub fn mean(&self) -> f64 {
        self.sorted_ms.iter().sum::<f64>() / self.sorted_ms.len().max(1) as f64
    }

    /// Examples in a second.
    pub fn per_second(&self) -> f64 {
        1e3 * self.batch as f64 / self.mean()
    }

    /// Times in milliseconds and examples in a second.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("requests".into(), json!(self.sorted_ms.len()));
        object.insert("batch".into(), json!(self.batch));
        for percent in PERCENTILES {
            object.insert(format!("p{percent}_ms"), json!(self.percentile(percent)));
        }
        object.insert("mean_ms".into(), json!(self.mean()));
        object.insert("max_ms".into(), json!(self.percentile(100.0)));
        object.insert("per_second".into(), json!(self.per_second()));
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        let latencies = Latencies::new(&times, 8);
        let found = PERCENTILES.map(|percent| latencies.percentile(percent).round());
        assert_eq!(found, [100.0, 180.0, 190.0, 198.0]);
        assert_eq!(latencies.percentile(100.0).round(), 200.0);
        assert!((latencies.per_second() - 8.0 / 0.1005).abs() < 1e-6);
        let one = Latencies::new(&times[..1], 1);
        assert_eq!(PERCENTILES.map(|percent| one.percentile(percent).round()), [200.0; 4]);
    }
}
