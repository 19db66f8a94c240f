//! What a choice tells at its end: scores beside the simplest guess, the worst errors, what would help.

use super::choice;
use super::progress::{Progress, Stage};
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_task::wording::show_duration;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The report of a choice.
#[derive(Clone, Debug)]
pub struct ChoiceReport {
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The folder of the result.
    pub out: PathBuf,
    lines: Vec<String>,
    json: Map<String, Value>,
    choices: String,
    /// The folder that the result was trained in, which it has left.
    trained_in: String,
}

impl ChoiceReport {
    pub(super) fn interrupted(out: &Path) -> ChoiceReport {
        let json = [("interrupted", json!(true)), ("out", json!(out.display().to_string()))];
        ChoiceReport {
            interrupted: true,
            out: out.to_path_buf(),
            lines: Vec::new(),
            json: json.map(|(key, value)| (key.to_string(), value)).into_iter().collect(),
            choices: String::new(),
            trained_in: String::new(),
        }
    }

    pub(super) fn of(out: &Path, progress: &Progress) -> Result<ChoiceReport> {
        let Stage::Done(winner) = &progress.stage else {
            return Err(Error::internal("a choice without a result"));
        };
        let shown = out.display();
        let model = progress.plan.candidates.iter().find(|own| own.name == *winner);
        let model = model.map_or(winner.as_str(), |own| own.model.as_str());
        let mut lines = vec![format!(
            "result: the {winner} model ({model}), in {}",
            show_duration(progress.seconds)
        )];
        let texts = |key: &str| {
            let list = progress.result.get(key).and_then(Value::as_array);
            let texts = list.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_string).collect::<Vec<String>>()
        };
        for key in ["table", "verdict", "errors", "doubtful", "advice"] {
            lines.extend(texts(key));
        }
        lines.push(format!("saved in {shown}; go on with"));
        lines.extend(
            texts("commands")
                .iter()
                .map(|command| format!("  {}", command.replace("RUN", &shown.to_string()))),
        );
        let mut json = Map::new();
        json.insert("interrupted".into(), json!(false));
        json.insert("out".into(), json!(shown.to_string()));
        json.insert("seconds".into(), json!(progress.seconds));
        json.insert("chosen".into(), json!(winner));
        json.insert("choices".into(), json!(progress.choices()));
        json.insert("look".into(), progress.look.clone());
        json.insert("result".into(), progress.result.clone());
        Ok(ChoiceReport {
            interrupted: false,
            out: out.to_path_buf(),
            lines,
            json,
            choices: choice::to_text(progress.choices()),
            trained_in: out.join(winner).display().to_string(),
        })
    }

    /// One JSON object.
    pub fn to_json(&self) -> Value {
        Value::Object(self.json.clone())
    }

    /// Lines of plain text.
    pub fn to_text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Adds the choice to `report.json` and `report.md` of the run that it resulted in.
    pub(super) fn write(&self, out: &Path) -> Result<()> {
        let path = out.join("report.json");
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::user(format!("{} cannot be read ({error}); restore it", path.display())))?;
        let mut report: Map<String, Value> = serde_json::from_str(&text)
            .map_err(|error| Error::user(format!("{} is damaged ({error}); restore it", path.display())))?;
        if report.insert("choice".into(), self.to_json()).is_none() {
            let path = out.join("report.md");
            let page = fs::read_to_string(&path).unwrap_or_default();
            let mut page = page.replace(&self.trained_in, &out.display().to_string());
            page.push_str(&format!(
                "\n## What was chosen, and how it compares\n\n```text\n{}{}```\n",
                self.choices,
                self.to_text()
            ));
            write_file(&path, page.as_bytes())?;
        }
        report.insert("out".into(), json!(out.display().to_string()));
        let text = serde_json::to_string_pretty(&report).unwrap_or_default();
        write_file(&path, format!("{text}\n").as_bytes())
    }
}
