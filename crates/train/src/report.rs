//! What came out of a run: for people, as JSON and as Markdown.

use crate::corpus::Goal;
use crate::evaluate::Scores;
use crate::folder::Folder;
use crate::metrics;
use crate::prepared::Prepared;
use crate::progress::{counted, show_duration};
use crate::saved::Best;
use crate::size::show_size;
use crate::trainer::Peak;
use lessen_base::Result;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long steps take, and how much goes through them.
#[derive(Clone, Debug)]
pub struct Timing {
    compile: Duration,
    begun: Instant,
    steps: Vec<f64>,
    examples: usize,
    tokens: usize,
}

impl Timing {
    /// Begins now, after compiling took this long.
    pub fn new(compile: Duration) -> Timing {
        Timing {
            compile,
            begun: Instant::now(),
            steps: Vec::new(),
            examples: 0,
            tokens: 0,
        }
    }

    /// Counts a step.
    pub fn step(&mut self, time: Duration, examples: usize, tokens: usize) {
        self.steps.push(time.as_secs_f64());
        self.examples += examples;
        self.tokens += tokens;
    }

    /// The median time of a step in milliseconds; 0 without steps.
    pub fn median_ms(&self) -> f64 {
        let mut sorted = self.steps.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[n / 2] * 1e3,
            n => (sorted[n / 2 - 1] + sorted[n / 2]) * 500.0,
        }
    }

    /// Tokens (for language models) or examples in a second of training, and which of both.
    pub fn rate(&self, goal: &Goal) -> (&'static str, f64) {
        let seconds = self.steps.iter().sum::<f64>().max(1e-9);
        match goal {
            Goal::NextToken => ("tokens_per_s", self.tokens as f64 / seconds),
            _ => ("samples_per_s", self.examples as f64 / seconds),
        }
    }

    /// The rate in words.
    pub fn speed(&self, goal: &Goal) -> String {
        let (unit, rate) = self.rate(goal);
        format!(
            "{rate:.0} {}",
            unit.replace("_per_", "/").replace("samples", "examples")
        )
    }
}

/// What is known of a run at its end.
pub(crate) struct Facts<'a> {
    pub prepared: &'a Prepared,
    pub folder: &'a Folder,
    pub steps: u64,
    pub scores: Option<&'a Scores>,
    pub best: Option<Best>,
    pub timing: &'a Timing,
    pub peak: Peak,
    pub interrupted: bool,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The run's folder.
    pub out: PathBuf,
    /// Steps done.
    pub steps: u64,
    lines: Vec<String>,
    json: Map<String, Value>,
    showcase: Vec<String>,
}

impl Report {
    pub(crate) fn new(facts: &Facts<'_>) -> Result<Report> {
        let Facts {
            prepared,
            folder,
            steps,
            scores,
            best,
            timing,
            peak,
            interrupted,
        } = *facts;
        let history: Vec<Value> = metrics::lines(&folder.metrics())?
            .into_iter()
            .filter_map(|mut line| line.get_mut("loss").map(Value::take))
            .collect();
        let loss = history.last().cloned().unwrap_or_default();
        let config = &prepared.config;
        let mut json = Map::new();
        let mut put = |key: &str, value: Value| json.insert(key.to_string(), value);
        let shown_loss = loss
            .as_f64()
            .map_or(String::new(), |loss| format!(", loss {loss:.4}"));
        let mut lines = vec![format!(
            "{}: {steps} of {} in {}{shown_loss}",
            config.recipe,
            counted(prepared.total, "step"),
            show_duration(timing.begun.elapsed().as_secs_f64())
        )];
        put("recipe", json!(config.recipe));
        put("steps", json!(steps));
        put("loss", loss);
        put("loss_history", Value::Array(history));
        if let Some(scores) = scores {
            lines.push(format!("dev {}", scores.show()));
            scores
                .to_json("dev")
                .into_iter()
                .for_each(|(key, value)| drop(put(&key, value)));
        }
        if let Some(best) = best {
            lines.push(format!("best after step {}", best.step));
            put("best_step", json!(best.step));
        }
        let compile_ms = timing.compile.as_secs_f64() * 1e3;
        let (rate_name, rate) = timing.rate(&prepared.goal);
        put("compile_ms", json!(compile_ms));
        put("step_ms", json!(timing.median_ms()));
        put(rate_name, json!(rate));
        put(
            "peak_bytes",
            json!({ "planned": peak.planned, "measured": peak.measured }),
        );
        put("interrupted", json!(interrupted));
        put("out", json!(folder.root().display().to_string()));
        lines.push(format!(
            "compiled in {compile_ms:.0} ms, {:.1} ms per step, {}",
            timing.median_ms(),
            timing.speed(&prepared.goal)
        ));
        lines.push(format!(
            "peak memory {} planned, {} measured",
            show_size(peak.planned),
            show_size(peak.measured)
        ));
        lines.push(format!("saved in {}", folder.root().display()));
        let (out, showcase) = (folder.root().to_path_buf(), Vec::new());
        Ok(Report {
            interrupted,
            out,
            steps,
            lines,
            json,
            showcase,
        })
    }

    /// Adds what the model can do now.
    pub(crate) fn show(&mut self, showcase: Vec<String>) {
        self.json.insert("showcase".to_string(), json!(showcase));
        self.showcase = showcase;
    }

    /// One JSON object.
    pub fn to_json(&self) -> Value {
        Value::Object(self.json.clone())
    }

    /// Lines for people.
    pub fn to_text(&self) -> String {
        let lines = self.lines.iter().chain(&self.showcase);
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Writes `report.json` and `report.md`.
    pub(crate) fn write(&self, folder: &Folder) -> Result<()> {
        let json = serde_json::to_string_pretty(&self.json).unwrap_or_default();
        folder.write("report.json", &format!("{json}\n"))?;
        let mut text = format!("# {}\n\n", self.lines[0]);
        self.lines[1..]
            .iter()
            .for_each(|line| text.push_str(&format!("- {line}\n")));
        if !self.showcase.is_empty() {
            text.push_str(&format!("\n```text\n{}\n```\n", self.showcase.join("\n")));
        }
        folder.write("report.md", &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_step_and_the_rate_are_told() {
        let mut timing = Timing::new(Duration::ZERO);
        assert_eq!(timing.median_ms(), 0.0);
        for milliseconds in [10, 30, 20, 40] {
            timing.step(Duration::from_millis(milliseconds), 5, 50);
        }
        assert!((timing.median_ms() - 25.0).abs() < 1e-9);
        let (unit, rate) = timing.rate(&Goal::NextToken);
        assert!(unit == "tokens_per_s" && (rate - 2000.0).abs() < 1e-6);
        assert_eq!(timing.speed(&Goal::Sum), "200 examples/s");
    }
}
