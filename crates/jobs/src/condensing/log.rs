//! What the log of a condensation says: distances as JSON lines and TensorBoard events, progress.

use crate::job::Log;
use lessen_base::Result;
use lessen_condense::{ImageUpdate, Preparation};
use lessen_task::wording::{report, show_duration};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Time between two parts of a preparation that are shown.
const PAUSE: Duration = Duration::from_secs(10);

/// Most layers whose distances are shown beside their sum.
const SHOWN: usize = 5;

/// The distances of an iteration: means over its updates.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Distances {
    sums: Vec<f64>,
    updates: usize,
    /// Epochs of the network in all.
    epochs: usize,
}

impl Distances {
    /// Counts an update.
    pub(super) fn add(&mut self, update: &ImageUpdate) {
        self.sums.resize(update.distances.len(), 0.0);
        for (sum, distance) in self.sums.iter_mut().zip(&update.distances) {
            *sum += f64::from(*distance);
        }
        self.updates += 1;
        self.epochs += update.epochs;
    }

    /// The mean distance of each layer.
    fn means(&self) -> impl Iterator<Item = f64> {
        let updates = self.updates.max(1) as f64;
        self.sums.iter().map(move |sum| sum / updates)
    }

    /// The mean of the sum over all layers.
    pub(super) fn total(&self) -> f64 {
        self.means().sum()
    }
}

/// Writes lines about a condensation.
pub(super) struct Lines {
    layers: Vec<String>,
    /// Updates of the images in an iteration.
    updates: usize,
    /// Iterations in all, once they are known.
    iterations: Option<usize>,
    /// What precedes the first iteration, once it has begun.
    preparing: Option<Preparing>,
}

/// What precedes the first iteration.
struct Preparing {
    /// When the first part was done.
    begun: Instant,
    /// The number of that part.
    first: usize,
    /// When a part was shown last.
    shown: Option<Instant>,
}

impl Lines {
    /// A writer of lines about a condensation with these layers, updates in an iteration, and iterations in all.
    pub(super) fn new(layers: &[String], updates: usize, iterations: Option<usize>) -> Lines {
        Lines {
            layers: layers.iter().map(|layer| short(layer).to_string()).collect(),
            updates,
            iterations,
            preparing: None,
        }
    }

    /// The word for what is counted, its number in all, and its number after `done` iterations.
    pub(super) fn count(&self, done: usize) -> (&'static str, u64, u64) {
        let unit = if self.updates == 1 { "iteration" } else { "update" };
        let total = self.iterations.unwrap_or(0) * self.updates;
        (unit, total as u64, (done * self.updates) as u64)
    }

    /// Sets the number of iterations.
    pub(super) fn expect(&mut self, iterations: usize, log: &mut Log) {
        self.iterations = Some(iterations);
        log.progress.expect(iterations.saturating_mul(self.updates) as u64);
    }

    /// Sets an estimate of the number of iterations.
    pub(super) fn expect_about(&mut self, iterations: usize, log: &mut Log) {
        log.progress
            .expect_about(iterations.saturating_mul(self.updates) as u64);
    }

    /// Shows a part of what precedes the first iteration, if the last one was not shown a moment ago.
    pub(super) fn preparation(&mut self, part: &Preparation) {
        let now = Instant::now();
        let shown = self.preparing.get_or_insert(Preparing {
            begun: now,
            first: part.done,
            shown: None,
        });
        let is_due = shown.shown.is_none_or(|shown| now - shown >= PAUSE);
        if !is_due && part.done < part.parts {
            return;
        }
        shown.shown = Some(now);
        let made = part.done.saturating_sub(shown.first);
        let left = match made {
            0 => String::new(),
            _ => {
                let each = (now - shown.begun).as_secs_f64() / made as f64;
                let left = each * part.parts.saturating_sub(part.done) as f64;
                format!("  {} left", show_duration(left))
            }
        };
        report(&format!(
            "preparation {}/{}  loss {:.4}{left}",
            part.done, part.parts, part.loss
        ));
    }

    /// Shows an update of the images.
    pub(super) fn update(&self, update: &ImageUpdate, log: &mut Log) {
        let total: f32 = update.distances.iter().sum();
        let named = self.layers.iter().zip(&update.distances);
        let layers: Vec<String> = named
            .take(SHOWN)
            .map(|(layer, distance)| format!("{layer} {}", figure(f64::from(*distance))))
            .collect();
        let more = if self.layers.len() > SHOWN { ", …" } else { "" };
        let of = self.iterations.map_or(String::new(), |all| format!("/{all}"));
        let iteration = match self.updates {
            1 => String::new(),
            _ => format!("iteration {}{of}  ", update.iteration + 1),
        };
        let done = update.iteration * self.updates + update.update + 1;
        log.progress.step(
            done as u64,
            format!(
                "{iteration}distance {} ({}{more})",
                figure(f64::from(total)),
                layers.join(", ")
            ),
        );
    }

    /// Logs an iteration: `done` are done with it.
    ///
    /// # Errors
    /// Files that cannot be written to.
    pub(super) fn iteration(
        &self,
        done: usize,
        (distances, time): &(Distances, Duration),
        log: &mut Log,
    ) -> Result<()> {
        let layers: Map<String, Value> = self
            .layers
            .iter()
            .zip(distances.means())
            .map(|(layer, distance)| (layer.clone(), json!(distance)))
            .collect();
        log.metrics.write(&json!({
            "step": done,
            "distance": distances.total(),
            "distances": layers,
            "epochs": distances.epochs,
            "iteration_ms": time.as_secs_f64() * 1e3,
        }))?;
        let tags: Vec<String> = self.layers.iter().map(|layer| format!("distance/{layer}")).collect();
        let mut scalars = vec![("distance/all", distances.total())];
        scalars.extend(tags.iter().map(String::as_str).zip(distances.means()));
        log.events.scalars(done as u64, &scalars)
    }
}

/// The name of a layer from that of its parameter.
fn short(parameter: &str) -> &str {
    parameter.strip_suffix(".weight").unwrap_or(parameter)
}

/// A number with three digits.
fn figure(number: f64) -> String {
    let digits = match number.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_means_over_updates() {
        let mut distances = Distances::default();
        for (update, values) in [[1.0, 10.0], [3.0, 30.0]].into_iter().enumerate() {
            distances.add(&ImageUpdate {
                iteration: 4,
                update,
                distances: values.to_vec(),
                epochs: 5,
            });
        }
        assert_eq!(distances.means().collect::<Vec<_>>(), [2.0, 20.0]);
        assert_eq!((distances.total(), distances.epochs), (22.0, 10));
    }

    #[test]
    fn figures_and_names_are_short() {
        let shown = [0.01234, 1.234, 12.34, 1234.5].map(figure);
        assert_eq!(shown, ["0.012", "1.23", "12.3", "1234"]);
        assert_eq!((short("features.0.weight"), short("w")), ("features.0", "w"));
    }
}
