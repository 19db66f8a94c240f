//! Counters for Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// Labels of an answered request.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    endpoint: &'static str,
    status: u16,
}

/// Labels of an endpoint.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Endpoint {
    endpoint: &'static str,
}

/// A connection that is open.
pub struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What a server counts.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Endpoint, Histogram>,
    waiting: Gauge,
    connections: Gauge,
    texts: Histogram,
    read: Counter,
    generated: Counter,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let seconds = || {
            Histogram::new([
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
            ])
        };
        let mut metrics = Metrics {
            registry: Registry::with_prefix("lessen"),
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            waiting: Gauge::default(),
            connections: Gauge::default(),
            texts: Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
            read: Counter::default(),
            generated: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("requests", "Answered requests", metrics.requests.clone());
        let help = "Seconds from a request's head to its answer, or to the beginning of a stream";
        registry.register("request_seconds", help, metrics.seconds.clone());
        registry.register("waiting_requests", "Requests that wait", metrics.waiting.clone());
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register("batch_texts", "Texts that are computed together", metrics.texts.clone());
        registry.register("read_tokens", "Tokens of texts and prompts", metrics.read.clone());
        registry.register(
            "generated_tokens",
            "Tokens that continue texts",
            metrics.generated.clone(),
        );
        metrics
    }
}

impl Metrics {
    /// Counts an answer.
    pub fn answered(&self, endpoint: &'static str, status: u16, time: Duration) {
        self.requests.get_or_create(&Answered { endpoint, status }).inc();
        self.seconds
            .get_or_create(&Endpoint { endpoint })
            .observe(time.as_secs_f64());
    }

    /// Counts a batch of texts.
    pub fn batch(&self, texts: usize, tokens: usize) {
        self.texts.observe(texts as f64);
        self.read.inc_by(tokens as u64);
    }

    /// Counts the tokens of a prompt.
    pub fn read(&self, tokens: usize) {
        self.read.inc_by(tokens as u64);
    }

    /// Counts new tokens of texts that are continued together.
    pub fn generated(&self, tokens: usize) {
        self.generated.inc_by(tokens as u64);
        self.texts.observe(tokens as f64);
    }

    /// Counts a connection, until the result is dropped.
    pub fn connection(&self) -> Open {
        self.connections.inc();
        Open(self.connections.clone())
    }

    /// All counters in Prometheus' text format.
    pub fn text(&self, waiting: usize) -> String {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
