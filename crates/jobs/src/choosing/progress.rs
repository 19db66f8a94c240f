//! The file of a choice that is under way: `choice.json` in the folder of its result.

use super::choice::{DataChoice, Plan};
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_task::folder::names::runs_of;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the file.
pub const CHOICE: &str = "choice.json";

/// How far a choice has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Candidates are trained.
    Training,
    /// The files of this candidate are moved to the folder of the result.
    Placing(String),
    /// All is done; the result is this candidate.
    Done(String),
}

/// The settings of a candidate that the clock has settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settled {
    /// The candidate.
    pub name: String,
    /// Its settings, as `config.toml` has them.
    pub settings: String,
}

/// A choice that is under way, or done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The version of this file's layout.
    format: u32,
    /// The minutes that it was asked for.
    pub minutes: f64,
    /// The look at the data.
    pub look: Value,
    /// What is tried.
    pub plan: Plan,
    /// The candidates that have begun.
    pub settled: Vec<Settled>,
    /// How far it has come.
    pub stage: Stage,
    /// Seconds that it has taken so far.
    pub seconds: f64,
    /// The scores of the candidates and of the simplest guess; null before they are known.
    pub result: Value,
}

const FORMAT: u32 = 1;

impl Progress {
    /// The beginning of a choice.
    pub(crate) fn new(minutes: f64, look: Value, plan: Plan) -> Progress {
        Progress {
            format: FORMAT,
            minutes,
            look,
            plan,
            settled: Vec::new(),
            stage: Stage::Training,
            seconds: 0.0,
            result: Value::Null,
        }
    }

    /// Reads the file in a folder; none where there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or is of another version.
    pub(crate) fn read(folder: &Path) -> Result<Option<Progress>> {
        let path = folder.join(CHOICE);
        if !path.is_file() {
            return Ok(None);
        }
        let shown = path.display();
        let wrong = |reason: String| Error::user(format!("{shown} cannot be read ({reason}); restore the file"));
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let progress: Progress = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if progress.format != FORMAT {
            return Err(Error::user(format!(
                "{shown} is of another version of Lessen (format {}, not {FORMAT}); train again in another folder",
                progress.format
            )));
        }
        Ok(Some(progress))
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::internal(format!("{CHOICE} cannot be written ({error})")))?;
        write_file(&folder.join(CHOICE), format!("{text}\n").as_bytes())
    }

    /// The choices.
    pub(crate) fn choices(&self) -> &[DataChoice] {
        &self.plan.choices
    }

    /// The settled settings of a candidate.
    pub(crate) fn settings_of(&self, name: &str) -> Option<&str> {
        let found = self.settled.iter().find(|settled| settled.name == name);
        found.map(|settled| settled.settings.as_str())
    }
}

/// The last folder `runs/NAME-N` with a choice that has not ended.
///
/// # Errors
/// A `choice.json` that cannot be read.
pub fn last_under_way(name: &str) -> Result<Option<PathBuf>> {
    for folder in runs_of(name).into_iter().rev() {
        if is_under_way(&folder)? {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

/// Whether a folder has a choice that has not ended.
///
/// # Errors
/// A `choice.json` that cannot be read.
pub fn is_under_way(folder: &Path) -> Result<bool> {
    let progress = Progress::read(folder)?;
    Ok(progress.is_some_and(|progress| !matches!(progress.stage, Stage::Done(_))))
}
