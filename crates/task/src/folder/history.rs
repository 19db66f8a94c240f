//! The history of a run's settings: which of them changed where the run went on. `settings.jsonl` has a line for each
//! time, `{"step": 500, "changes": {"train.lr": ["0.001", "0.0005"]}}`: from step 501 on, the learning rate is 0.0005.
//! `config.toml` has the settings as they are now.

use super::metrics;
use lessen_base::Result;
use lessen_base::atomic::write_file;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Changes of settings where a run was resumed.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The steps that were done with the settings before.
    pub step: u64,
    /// The keys, each with its value before and after as TOML.
    pub changes: Vec<(String, String, String)>,
}

/// Reads the history; it is empty where nothing has changed. A line that is damaged is left out.
///
/// # Errors
/// A file that cannot be read.
pub fn read(path: &Path) -> Result<Vec<Change>> {
    let mut history = Vec::new();
    if path.exists() {
        metrics::visit(path, |line| history.extend(change_of(&line)))?;
    }
    Ok(history)
}

fn change_of(line: &Value) -> Option<Change> {
    let change = |(key, values): (&String, &Value)| {
        let text = |index: usize| Some(values.get(index)?.as_str()?.to_string());
        Some((key.clone(), text(0)?, text(1)?))
    };
    Some(Change {
        step: line.get("step")?.as_u64()?,
        changes: line.get("changes")?.as_object()?.iter().filter_map(change).collect(),
    })
}

/// Adds the changes after `step` steps. Changes after later steps are moved there, since the run resumes before them.
///
/// # Errors
/// A file that cannot be read or written to.
pub fn add(path: &Path, step: u64, changes: &[(String, String, String)]) -> Result<()> {
    let before = read(path)?;
    let mut history: Vec<Change> = before.iter().cloned().map(|change| change.before(step)).collect();
    if !changes.is_empty() {
        let changes = changes.to_vec();
        history.push(Change { step, changes });
    }
    if history == before {
        return Ok(());
    }
    let text: String = history.iter().map(|change| format!("{}\n", change.to_json())).collect();
    write_file(path, text.as_bytes())
}

impl Change {
    fn before(self, step: u64) -> Change {
        let step = self.step.min(step);
        Change { step, ..self }
    }

    /// As a line of the file.
    pub fn to_json(&self) -> Value {
        let changes = self.changes.iter();
        let changes: Map<String, Value> = changes
            .map(|(key, old, new)| (key.clone(), json!([old, new])))
            .collect();
        json!({ "step": self.step, "changes": changes })
    }

    /// For people: `from step 501 on, train.lr = 0.0005 (0.001 before)`.
    pub fn to_text(&self) -> String {
        let change = |(key, old, new): &(String, String, String)| format!("{key} = {new} ({old} before)");
        let changes: Vec<String> = self.changes.iter().map(change).collect();
        format!("from step {} on, {}", self.step + 1, changes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(new: &str) -> Vec<(String, String, String)> {
        vec![("train.lr".to_string(), "0.1".to_string(), new.to_string())]
    }

    #[test]
    fn changes_are_kept_in_order_and_those_of_lost_steps_move_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.jsonl");
        add(&path, 3, &[]).unwrap();
        assert!(!path.exists() && read(&path).unwrap().is_empty());
        add(&path, 5, &change("0.2")).unwrap();
        add(&path, 9, &change("0.3")).unwrap();
        let steps = || -> Vec<u64> { read(&path).unwrap().iter().map(|change| change.step).collect() };
        assert_eq!(steps(), [5, 9]);
        // The run goes on from a checkpoint before the last change.
        add(&path, 7, &[]).unwrap();
        assert_eq!(steps(), [5, 7]);
        let last = read(&path).unwrap().pop().unwrap();
        assert_eq!(last.changes, change("0.3"));
        assert_eq!(last.to_text(), "from step 8 on, train.lr = 0.3 (0.1 before)");
    }
}
