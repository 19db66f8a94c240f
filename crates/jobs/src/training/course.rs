//! The course of a run: losses, evaluations and times of all of its sessions, read from its metrics. It is thinned
//! while it is read, so that a million steps take no more memory than some thousands.

use super::phase_result::{PhaseResult, scores_of};
use super::thinned::Thinned;
use super::timing::median;
use lessen_base::Result;
use lessen_task::folder::metrics;
use serde_json::Value;
use std::path::Path;

/// Most rows of the curve.
const ROWS: usize = 40;

/// Consecutive steps of a curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Stretch {
    /// Its last step.
    pub last: u64,
    /// Number of steps.
    steps: u64,
    losses: f64,
    /// The learning rate of its last step.
    pub lr: f64,
}

impl Stretch {
    /// The mean loss.
    pub(crate) fn loss(&self) -> f64 {
        self.losses / self.steps as f64
    }

    fn and(self, next: Stretch) -> Stretch {
        Stretch {
            last: next.last,
            steps: self.steps + next.steps,
            losses: self.losses + next.losses,
            lr: next.lr,
        }
    }
}

/// An evaluation of a run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Evaluation {
    /// Number of steps before it.
    pub step: u64,
    /// The scores by name, such as `dev_loss`.
    pub scores: Vec<(String, f64)>,
}

/// The course of a run.
#[derive(Default)]
pub(crate) struct Course {
    /// The losses of steps as the metrics have them, thinned.
    pub losses: Thinned<Value>,
    /// The loss of the last step.
    pub loss: Value,
    /// Mean loss and learning rate over at most [`ROWS`] stretches with equal numbers of steps.
    pub curve: Vec<Stretch>,
    /// Number of steps of a stretch.
    width: u64,
    /// Its evaluations, thinned.
    pub evaluations: Thinned<Evaluation>,
    /// The results of training phases, in the order of the recipe.
    pub phases: Vec<PhaseResult>,
    /// Milliseconds of steps, thinned.
    step_ms: Thinned<f64>,
    /// Seconds of the steps whose examples and tokens are counted.
    seconds: f64,
    examples: f64,
    tokens: f64,
}

impl Course {
    /// Reads the metrics of a run whose training phases have these names.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn read(path: &Path, phases: &[&str]) -> Result<Course> {
        let mut course = Course {
            width: 1,
            ..Course::default()
        };
        let mut all: Vec<PhaseResult> = phases.iter().map(|name| PhaseResult::new(name)).collect();
        metrics::visit(path, |line| {
            course.add(&line);
            if let Some(phase) = all.iter_mut().find(|phase| line["phase"] == phase.name()) {
                phase.add(&line);
            }
        })?;
        course.phases = all.into_iter().filter(PhaseResult::has_begun).collect();
        Ok(course)
    }

    fn add(&mut self, line: &Value) {
        let Some(step) = line["step"].as_u64() else { return };
        if let Some(loss) = line.get("loss") {
            self.loss = loss.clone();
            self.losses.push(loss.clone());
            self.extend_curve(Stretch {
                last: step,
                steps: 1,
                losses: loss.as_f64().unwrap_or(f64::NAN),
                lr: line["lr"].as_f64().unwrap_or(f64::NAN),
            });
            if let Some(time) = line["step_ms"].as_f64() {
                self.step_ms.push(time);
                if let (Some(examples), Some(tokens)) = (line["examples"].as_f64(), line["tokens"].as_f64()) {
                    self.seconds += time / 1e3;
                    self.examples += examples;
                    self.tokens += tokens;
                }
            }
        }
        if line.get("dev_loss").is_some() {
            let scores = scores_of(line);
            self.evaluations.push(Evaluation { step, scores });
        }
    }

    fn extend_curve(&mut self, step: Stretch) {
        match self.curve.last_mut() {
            Some(last) if last.steps < self.width => *last = last.and(step),
            _ => self.curve.push(step),
        }
        if self.curve.len() > ROWS {
            let pairs = self.curve.chunks(2).map(|pair| match *pair {
                [a, b] => a.and(b),
                _ => pair[0],
            });
            self.curve = pairs.collect();
            self.width *= 2;
        }
    }

    /// The median time of a step in milliseconds; 0 without steps.
    pub(crate) fn median_ms(&self) -> f64 {
        median(self.step_ms.items().to_vec())
    }

    /// Examples and tokens per second of training; none where no step has counts.
    pub(crate) fn rates(&self) -> Option<(f64, f64)> {
        (self.seconds > 0.0).then(|| (self.examples / self.seconds, self.tokens / self.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_curve_has_the_means_of_equal_stretches() {
        let mut course = Course {
            width: 1,
            ..Course::default()
        };
        for step in 1..=1000u64 {
            course.add(
                &json!({ "step": step, "loss": step as f64, "lr": 0.5, "step_ms": 2.0, "examples": 4, "tokens": 40 }),
            );
        }
        course.add(&json!({ "step": 1000, "dev_loss": 0.5, "dev_accuracy": 0.75 }));
        assert!(course.curve.len() <= ROWS && course.curve.len() > ROWS / 2);
        assert_eq!(course.curve.iter().map(|stretch| stretch.steps).sum::<u64>(), 1000);
        let first = course.curve[0];
        assert_eq!((first.last, first.loss()), (32, 16.5));
        assert_eq!(course.curve.last().unwrap().last, 1000);
        assert_eq!((course.loss.as_f64(), course.median_ms()), (Some(1000.0), 2.0));
        let (examples, tokens) = course.rates().unwrap();
        assert!((examples - 2000.0).abs() < 1e-6 && (tokens - 20000.0).abs() < 1e-6);
        assert_eq!(course.evaluations.items()[0].scores.len(), 2);
    }
}
