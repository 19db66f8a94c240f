//! Results of training phases. They are read from the metrics of their run, so results of earlier sessions are among
//! them.

use super::thinned::Thinned;
use super::timing::median;
use serde_json::{Map, Value, json};

/// The key of the metrics for an evaluation that ended its training phase early.
pub(super) const ENDED_EARLY: &str = "ended_early";

/// The result of a training phase.
pub(crate) struct PhaseResult {
    name: String,
    steps: usize,
    loss: f64,
    step_ms: Thinned<f64>,
    /// The scores of its last evaluation, by name.
    scores: Vec<(String, f64)>,
    ended_early: bool,
}

impl PhaseResult {
    /// The result of a training phase before its first step.
    pub(crate) fn new(name: &str) -> PhaseResult {
        PhaseResult {
            name: name.to_string(),
            steps: 0,
            loss: f64::NAN,
            step_ms: Thinned::default(),
            scores: Vec::new(),
            ended_early: false,
        }
    }

    /// Adds a line of the training phase's metrics.
    pub(crate) fn add(&mut self, line: &Value) {
        if let Some(loss) = line.get("loss") {
            self.steps += 1;
            self.loss = loss.as_f64().unwrap_or(f64::NAN);
            line["step_ms"]
                .as_f64()
                .into_iter()
                .for_each(|time| self.step_ms.push(time));
        }
        if line.get("dev_loss").is_some() {
            self.scores = scores_of(line);
            self.ended_early = line.get(ENDED_EARLY).is_some();
        }
    }

    /// The name of the training phase.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the training phase has a step.
    pub(crate) fn has_begun(&self) -> bool {
        self.steps > 0
    }

    fn median_ms(&self) -> f64 {
        median(self.step_ms.items().to_vec())
    }

    /// A line in words: `phase fire: 500 steps, loss 1.2345, dev_loss 1.5000, 12.3 ms per step`.
    pub(crate) fn to_text(&self) -> String {
        let scores: String = self
            .scores
            .iter()
            .map(|(name, score)| format!(", {name} {score:.4}"))
            .collect();
        let steps = lessen_task::wording::counted(self.steps as u64, "step");
        let early = if self.ended_early { ", ended early" } else { "" };
        format!(
            "phase {}: {steps}{early}, loss {:.4}{scores}, {:.1} ms per step",
            self.name,
            self.loss,
            self.median_ms()
        )
    }

    /// A JSON object.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("phase".into(), json!(self.name));
        object.insert("steps".into(), json!(self.steps));
        object.insert("loss".into(), json!(self.loss));
        if self.ended_early {
            object.insert(ENDED_EARLY.into(), json!(true));
        }
        object.insert("step_ms".into(), json!(self.median_ms()));
        object.extend(self.scores.iter().map(|(name, score)| (name.clone(), json!(score))));
        object.into()
    }
}

/// The scores of an evaluation in a line of the metrics.
pub(super) fn scores_of(line: &Value) -> Vec<(String, f64)> {
    let fields = line.as_object().into_iter().flatten();
    let scores = fields.filter(|(name, _)| name.starts_with("dev_") && !name.starts_with("dev_stat/"));
    scores
        .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_with_its_last_loss_and_evaluation() {
        let lines = [
            json!({ "step": 1, "loss": 4.0, "step_ms": 1.0, "phase": "a" }),
            json!({ "step": 1, "dev_loss": 5.0, "phase": "a" }),
            json!({ "step": 2, "loss": 2.0, "step_ms": 3.0, "phase": "a" }),
            json!({ "step": 2, "dev_loss": 2.5, "dev_accuracy": 0.5, "phase": "a" }),
            json!({ "step": 3, "loss": 1.0, "step_ms": 3.0, "phase": "b" }),
        ];
        let of = |name: &str| {
            let mut result = PhaseResult::new(name);
            lines
                .iter()
                .filter(|line| line["phase"] == name)
                .for_each(|line| result.add(line));
            result
        };
        let a = of("a");
        assert_eq!(
            a.to_json().to_string(),
            r#"{"phase":"a","steps":2,"loss":2.0,"step_ms":2.0,"dev_loss":2.5,"dev_accuracy":0.5}"#
        );
        assert_eq!(
            a.to_text(),
            "phase a: 2 steps, loss 2.0000, dev_loss 2.5000, dev_accuracy 0.5000, 2.0 ms per step"
        );
        let b = of("b");
        assert_eq!(b.to_text(), "phase b: 1 step, loss 1.0000, 3.0 ms per step");
        assert!(!of("c").has_begun());
    }
}
