//! What a search says at its end.

use super::folder::REPORT;
use lessen_base::{Error, Result};
use lessen_task::folder::spent::Spent;
use lessen_task::wording::show_duration;
use lessen_train::show_size;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// What a search says at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its folder.
    pub out: PathBuf,
    /// After what Ctrl-C stopped it, such as `epoch 3`, if it did.
    pub interrupted: Option<String>,
    /// The numbers of its `report.json`.
    pub numbers: Value,
    /// Seconds of all sessions.
    pub seconds: f64,
    /// The most bytes that were planned to be resident.
    pub planned: usize,
    /// The most bytes that were allocated at once.
    pub measured: usize,
}

impl Report {
    pub(super) fn new(out: &Path, numbers: Value, spent: &Spent) -> Report {
        Report {
            out: out.to_path_buf(),
            interrupted: None,
            numbers,
            seconds: spent.seconds,
            planned: spent.planned,
            measured: spent.measured,
        }
    }

    /// The report of a search that was stopped after `reached`.
    pub(super) fn interrupted(out: &Path, reached: String, spent: &Spent) -> Report {
        let numbers = json!({ "reached": reached });
        Report {
            interrupted: Some(reached),
            ..Report::new(out, numbers, spent)
        }
    }

    /// The report in the folder of a search that has ended.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn of_folder(out: &Path, spent: &Spent) -> Result<Report> {
        let path = out.join(REPORT);
        let text = fs::read_to_string(&path).map_err(|error| error.to_string());
        let numbers = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        let numbers = numbers.map_err(|error| {
            Error::user(format!(
                "{} cannot be read ({error}); restore the file, or search anew",
                path.display()
            ))
        })?;
        Ok(Report::new(out, numbers, spent))
    }

    /// One JSON object.
    pub fn to_json(&self) -> Value {
        let mut all = json!({
            "folder": self.out.display().to_string(),
            "interrupted": self.interrupted.is_some(),
            "seconds": self.seconds,
            "peak_bytes": { "planned": self.planned, "measured": self.measured },
        });
        if let (Some(all), Some(numbers)) = (all.as_object_mut(), self.numbers.as_object()) {
            all.extend(numbers.clone());
        }
        all
    }

    /// Some lines of text.
    pub fn to_text(&self) -> String {
        if let Some(reached) = &self.interrupted {
            return format!("{reached} in {}\n", show_duration(self.seconds));
        }
        let (out, number) = (self.out.display(), |key: &str| self.numbers[key].as_f64());
        let figure = |key: &str| number(key).map_or("–".to_string(), |number| format!("{number:.4}"));
        let unit = self.numbers["unit"].as_str().unwrap_or("");
        format!(
            "a network of {} {unit} in {}: {} mJ, {} ms and {} MB on {}, of whose units {} are used\npeak memory {} planned, {} allocated\n{out}/report.md \
             shows its blocks; `lessen train {out}/recipe.toml --data DIR` trains it\n",
            figure("value"),
            show_duration(self.seconds),
            figure("energy_mj"),
            figure("latency_ms"),
            figure("size_mb"),
            self.numbers["accelerator"].as_str().unwrap_or("?"),
            number("utilisation").map_or("–".to_string(), |share| format!("{:.1} %", 100.0 * share)),
            show_size(self.planned),
            show_size(self.measured),
        )
    }
}
