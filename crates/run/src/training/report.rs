//! The report of a run: for people, as JSON and as Markdown.

use super::phase_result::PhaseResult;
use super::timing::Timing;
use crate::folder::Folder;
use crate::folder::manifest::Best;
use crate::folder::metrics;
use crate::recipe::phases::Recipe;
use crate::task::evaluation::Scores;
use crate::task::goal::Goal;
use crate::wording::{counted, show_duration};
use lessen_base::Result;
use lessen_train::{Peak, show_size};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// What a report is made from.
pub(crate) struct Outcome<'a> {
    pub recipe: &'a Recipe,
    pub goal: &'a Goal,
    pub folder: &'a Folder,
    /// Steps done.
    pub done: u64,
    /// Steps that the run was to have.
    pub total: u64,
    /// The last evaluation.
    pub scores: Option<&'a Scores>,
    pub best: Option<&'a Best>,
    pub timing: &'a Timing,
    pub peak: Peak,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
}

/// The report of a run.
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
    pub(crate) fn new(outcome: &Outcome<'_>) -> Result<Report> {
        let Outcome {
            recipe,
            goal,
            folder,
            done: steps,
            total,
            scores,
            best,
            timing,
            peak,
            interrupted,
        } = *outcome;
        let metrics = metrics::lines(&folder.metrics())?;
        let losses = metrics.iter().filter_map(|line| line.get("loss"));
        let history: Vec<Value> = losses.cloned().collect();
        let loss = history.last().cloned().unwrap_or_default();
        let mut json = Map::new();
        let mut put = |key: &str, value: Value| json.insert(key.to_string(), value);
        let shown_loss = loss.as_f64().map_or(String::new(), |loss| format!(", loss {loss:.4}"));
        let mut lines = vec![format!(
            "{}: {steps} of {} in {}{shown_loss}",
            recipe.name(),
            counted(total, "step"),
            show_duration(timing.elapsed().as_secs_f64())
        )];
        put("recipe", json!(recipe.name()));
        put("steps", json!(steps));
        put("loss", loss);
        put("loss_history", Value::Array(history));
        let phases: Vec<PhaseResult> = recipe
            .phases
            .iter()
            .filter_map(|config| PhaseResult::of(config.phase.as_deref()?, &metrics))
            .collect();
        if !phases.is_empty() {
            lines.extend(phases.iter().map(PhaseResult::to_text));
            put("phases", phases.iter().map(PhaseResult::to_json).collect());
        }
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
        let (rate_name, rate) = timing.rate(goal);
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
            timing.speed(goal)
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

    /// Adds a demonstration of the model.
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
