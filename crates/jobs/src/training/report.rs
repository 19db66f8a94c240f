//! The report of a run in words, as JSON and as Markdown. It covers all sessions of the run.

use super::course::Course;
use super::phase_result::PhaseResult;
use super::report_page;
use super::timing::{rate, show_rate};
use crate::planning::account::Account;
use lessen_base::{Error, Result};
use lessen_task::evaluation::Scores;
use lessen_task::folder::Folder;
use lessen_task::folder::history::{self, Change};
use lessen_task::folder::manifest::Best;
use lessen_task::folder::spent::Spent;
use lessen_task::goal::Goal;
use lessen_task::init_sizes::follow_init;
use lessen_task::recipe::phases::Recipe;
use lessen_task::wording::{counted, show_duration};
use lessen_train::{Peak, show_size};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::PathBuf;

/// The outcome of a run, which its report tells.
pub(crate) struct Outcome<'a> {
    pub recipe: &'a Recipe,
    pub goal: &'a dyn Goal,
    pub folder: &'a Folder,
    /// Number of steps that were done.
    pub done: u64,
    /// Number of steps that the run was planned to have.
    pub total: u64,
    /// The last evaluation.
    pub scores: Option<&'a Scores>,
    /// The shares of unknown tokens.
    pub unknown_tokens: Value,
    /// The numbers of texts that are cut.
    pub cut_texts: Value,
    pub best: Option<&'a Best>,
    /// Whether the run results in its best model rather than its last one.
    pub yields_best: bool,
    /// Time and memory of all sessions of the run.
    pub spent: Spent,
    /// Most bytes of states, constants and arena that the plans announce.
    pub plans: usize,
    /// The account of this process.
    pub account: Account,
    /// Bytes that were planned for this process, and that it has taken.
    pub session: Peak,
    /// The highest resident size of this process, in bytes.
    pub resident: Option<usize>,
    /// Bytes that this process has sent to others.
    pub sent: u64,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Whether it ended early, since evaluations stopped to improve.
    pub stopped: bool,
}

/// The report of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The run's folder.
    pub out: PathBuf,
    /// Number of steps that were done.
    pub steps: u64,
    lines: Vec<String>,
    json: Map<String, Value>,
    /// Tables of `report.md`.
    details: String,
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
            ref unknown_tokens,
            ref cut_texts,
            best,
            yields_best,
            spent,
            plans,
            account,
            session,
            resident,
            sent,
            interrupted,
            stopped,
        } = *outcome;
        let names: Vec<&str> = recipe
            .phases
            .iter()
            .filter_map(|config| config.phase.as_deref())
            .collect();
        let course = Course::read(&folder.metrics(), &names)?;
        let history = history::read(&folder.history())?;
        let mut json = Map::new();
        let mut put = |key: &str, value: Value| json.insert(key.to_string(), value);
        let shown_loss = course.loss.as_f64();
        let shown_loss = shown_loss.map_or(String::new(), |loss| format!(", loss {loss:.4}"));
        let sessions = match spent.sessions {
            0 | 1 => String::new(),
            several => format!(" in {several} sessions"),
        };
        let mut lines = vec![format!(
            "{}: {steps} of {} in {}{sessions}{shown_loss}",
            recipe.name(),
            counted(total, "step"),
            show_duration(spent.seconds)
        )];
        put("recipe", json!(recipe.name()));
        put("steps", json!(steps));
        put("loss", course.loss.clone());
        put("loss_history", Value::Array(course.losses.items().to_vec()));
        put("loss_history_every", json!(course.losses.every()));
        if !course.phases.is_empty() {
            lines.extend(course.phases.iter().map(PhaseResult::to_text));
            put("phases", course.phases.iter().map(PhaseResult::to_json).collect());
        }
        if stopped {
            let since = best.map_or(0, |best| best.step);
            lines.push(format!(
                "ended early: no evaluation was better than that after step {since}"
            ));
        }
        put("stopped_early", json!(stopped));
        if let Some(scores) = scores {
            lines.push(format!("dev {}", scores.show()));
            lines.extend(scores.nothing_learned());
            if let Some(majority) = scores.majority {
                put("dev_majority", json!(majority));
            }
            scores
                .to_json("dev")
                .into_iter()
                .for_each(|(key, value)| drop(put(&key, value)));
        }
        if let Some(best) = best {
            let which = if yields_best { ", which model/ is" } else { "" };
            lines.push(format!("best after step {}{which}", best.step));
            put("best_step", json!(best.step));
            put("best_score", json!(best.score));
        }
        put("unknown_tokens", unknown_tokens.clone());
        put("cut_texts", cut_texts.clone());
        put("model", json!(if yields_best { "best" } else { "last" }));
        lines.extend(history.iter().map(Change::to_text));
        if !history.is_empty() {
            put("settings_changes", history.iter().map(Change::to_json).collect());
        }
        let compile_ms = spent.compile_seconds * 1e3;
        put("sessions", json!(spent.sessions));
        put("seconds", json!(spent.seconds));
        put("compile_ms", json!(compile_ms));
        put("step_ms", json!(course.median_ms()));
        let rate = rate(goal, course.rates().unwrap_or_default());
        put(rate.0, json!(rate.1));
        put(
            "peak_bytes",
            json!({ "planned": spent.planned, "measured": spent.measured, "resident": spent.resident, "plans": plans }),
        );
        put(
            "session_bytes",
            json!({ "planned": session.planned, "measured": session.measured, "resident": resident }),
        );
        put("sent_bytes", json!(sent));
        put("account_bytes", account.to_json());
        put("split_bytes", account.split_to_json());
        put("interrupted", json!(interrupted));
        put("out", json!(folder.root().display().to_string()));
        lines.push(format!(
            "compiled in {compile_ms:.0} ms, {:.1} ms per step, {}",
            course.median_ms(),
            show_rate(rate)
        ));
        lines.push(format!(
            "peak memory {} planned, {}{} allocated",
            show_size(spent.planned),
            spent
                .resident
                .map_or(String::new(), |resident| format!("{} resident, ", show_size(resident))),
            show_size(spent.measured)
        ));
        if account.total() > account.plans() {
            lines.push(format!("planned for {}", account.show()));
        }
        lines.push(format!("saved in {}", folder.root().display()));
        let mut settings = recipe.settings.clone();
        follow_init(&mut settings, folder);
        Ok(Report {
            interrupted,
            out: folder.root().to_path_buf(),
            steps,
            lines,
            json,
            details: report_page::details(&course, &settings),
            showcase: Vec::new(),
        })
    }

    /// The report of a run that ended after `steps` steps, as it is in its folder.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn of_ended(folder: &Folder, steps: u64) -> Result<Report> {
        let path = folder.report();
        let unreadable = |reason: String| {
            let shown = path.display();
            Error::user(format!("{shown} cannot be read ({reason}); remove it and resume again"))
        };
        let text = fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
        let json: Map<String, Value> = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        let name = json.get("recipe").and_then(Value::as_str).unwrap_or_default();
        let shown = folder.root().display();
        Ok(Report {
            interrupted: false,
            out: folder.root().to_path_buf(),
            steps,
            lines: vec![
                format!(
                    "{name}: ended after {}; nothing is left to do, and nothing was changed",
                    counted(steps, "step")
                ),
                format!("saved in {shown}; to train it further, say so with --steps or --set train.epochs"),
            ],
            details: String::new(),
            showcase: Vec::new(),
            json,
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

    /// Lines of plain text.
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
        text.push_str(&self.details);
        if !self.showcase.is_empty() {
            text.push_str("\n## What it does\n");
            text.push_str(&format!("\n```text\n{}\n```\n", self.showcase.join("\n")));
        }
        folder.write("report.md", &text)
    }
}
