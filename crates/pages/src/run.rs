//! The folder of a run, read for a page. Missing and damaged files are left out and named in a sentence.

use crate::plot::Thinned;
use lessen_base::Result;
use lessen_task::folder::memory::{MEMORY, PhaseMemory, RunMemory};
use lessen_task::folder::metrics;
use lessen_task::folder::pictures::{PICTURES, Pictures};
use lessen_task::folder::{CONFUSION, DIVERGED, Folder, LABELS};
use lessen_task::init_sizes::follow_init;
use lessen_task::recipe::settings::Settings;
use lessen_task::wording::counted;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A run, as a page shows it.
pub struct Run {
    /// Its name on the page.
    pub name: String,
    /// Its folder.
    pub root: PathBuf,
    /// Its settings, if they can be read.
    pub settings: Option<Settings>,
    /// The courses of all numbers of the metrics, by their keys.
    pub curves: BTreeMap<String, Thinned>,
    /// The newest histograms, by their keys, each with the step that it was recorded before.
    pub histograms: BTreeMap<String, (u64, Vec<[f64; 3]>)>,
    /// Names of training phases and their first steps.
    pub phases: Vec<(String, u64)>,
    /// Steps done.
    pub steps: u64,
    /// The report of a run that has ended.
    pub outcome: Option<Outcome>,
    /// The memory of its training phases.
    pub memory: Vec<PhaseMemory>,
    /// The confusion matrix of the last evaluation.
    pub confusion: Option<ConfusionFile>,
    /// The scores of each label of the last evaluation.
    pub labels: Option<LabelsFile>,
    /// Images of the last evaluation with predictions.
    pub pictures: Option<Pictures>,
    /// Why its loss was no number, if it ended so.
    pub diverged: Option<String>,
    /// A sentence for everything that is missing or damaged.
    pub problems: Vec<String>,
}

/// The part of `report.json` that a page shows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Whether it ended before its last step.
    pub interrupted: bool,
    /// The step of the best evaluation.
    pub best_step: Option<u64>,
    /// Milliseconds of compilation.
    pub compile_ms: Option<f64>,
    /// Milliseconds of a step, the median.
    pub step_ms: Option<f64>,
    /// Examples in a second.
    pub samples_per_s: Option<f64>,
    /// Tokens in a second.
    pub tokens_per_s: Option<f64>,
    /// Bytes at the peak, by what they are.
    pub peak_bytes: Map<String, Value>,
    /// Examples of what the model answers.
    pub showcase: Vec<String>,
}

/// The confusion matrix of an evaluation.
#[derive(Clone, Debug, Deserialize)]
pub struct ConfusionFile {
    /// Steps done before the evaluation.
    pub step: u64,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// A row for each class that was right, with a count for each class that was predicted.
    pub counts: Vec<Vec<u64>>,
}

/// The scores of each label of an evaluation.
#[derive(Clone, Debug, Deserialize)]
pub struct LabelsFile {
    /// Steps done before the evaluation.
    pub step: u64,
    /// The labels, then means over them.
    pub labels: Vec<LabelRow>,
}

/// The scores of a label.
#[derive(Clone, Debug, Deserialize)]
pub struct LabelRow {
    /// The label.
    pub name: String,
    /// The share of predictions that are right.
    pub precision: f64,
    /// The share of examples that are found.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
    /// The number of examples.
    pub support: f64,
}

impl ConfusionFile {
    fn is_square(&self) -> bool {
        let classes = self.classes.len();
        self.counts.len() == classes && self.counts.iter().all(|row| row.len() == classes)
    }
}

impl Run {
    /// Reads the folder of a run.
    ///
    /// # Errors
    /// A folder without a run.
    pub fn read(root: &Path, name: String) -> Result<Run> {
        let folder = Folder::open(root)?;
        let mut run = Run {
            name,
            root: root.to_path_buf(),
            settings: None,
            curves: BTreeMap::new(),
            histograms: BTreeMap::new(),
            phases: Vec::new(),
            steps: 0,
            outcome: None,
            memory: Vec::new(),
            confusion: None,
            labels: None,
            pictures: None,
            diverged: fs::read_to_string(root.join(DIVERGED))
                .ok()
                .map(|text| text.trim().to_string()),
            problems: Vec::new(),
        };
        match folder.settings() {
            Ok(mut settings) => {
                follow_init(&mut settings, &folder);
                run.settings = Some(settings);
            }
            Err(error) => run.problems.push(format!("{error}.")),
        }
        run.read_metrics(&folder.metrics());
        run.outcome = run.read_json("report.json");
        if run.outcome.is_none() && run.diverged.is_none() && !root.join("report.json").exists() {
            let steps = counted(run.steps, "step");
            run.note(&format!(
                "has no report.json: after {steps} it has not ended yet, or was killed"
            ));
        }
        match RunMemory::read(root) {
            Ok(Some(memory)) => run.memory = memory.phases,
            Ok(None) => run.note(&format!("has no {MEMORY}, so its memory over a step is not shown")),
            Err(error) => run.problems.push(format!("{error}.")),
        }
        let confusion: Option<ConfusionFile> = run.read_json(CONFUSION);
        match confusion {
            Some(matrix) if !matrix.is_square() => {
                run.note(&format!("has a {CONFUSION} without a row and a column for each class"));
            }
            matrix => run.confusion = matrix,
        }
        run.labels = run.read_json(LABELS);
        let pictures: Option<Pictures> = run.read_json(PICTURES);
        match pictures {
            Some(found) if !found.pictures.iter().all(|picture| picture.is_sound()) => {
                run.note(&format!("has a {PICTURES} with something that is no picture"));
            }
            found => run.pictures = found,
        }
        Ok(run)
    }

    /// Notes something of the run's folder.
    fn note(&mut self, what: &str) {
        self.problems.push(format!("{} {what}.", self.root.display()));
    }

    /// Reads a file of JSON; none where it is missing, or damaged, which is noted.
    fn read_json<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let text = fs::read_to_string(self.root.join(name)).ok()?;
        match serde_json::from_str(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.note(&format!("has a damaged {name} ({error})"));
                None
            }
        }
    }

    fn read_metrics(&mut self, path: &Path) {
        let (curves, histograms) = (&mut self.curves, &mut self.histograms);
        let (phases, steps) = (&mut self.phases, &mut self.steps);
        let found = metrics::visit(path, |line| {
            let Value::Object(line) = line else { return };
            let Some(step) = line.get("step").and_then(Value::as_u64) else {
                return;
            };
            *steps = (*steps).max(step);
            for (key, value) in &line {
                match value {
                    Value::Number(number) if key != "step" => {
                        let number = number.as_f64().unwrap_or(f64::NAN);
                        match curves.get_mut(key) {
                            Some(curve) => curve.add(step, number),
                            None => curves.entry(key.clone()).or_default().add(step, number),
                        }
                    }
                    Value::String(phase) if key == "phase" && phases.last().is_none_or(|(last, _)| last != phase) => {
                        phases.push((phase.clone(), step));
                    }
                    Value::Array(_) => {
                        if let Ok(bins) = serde_json::from_value(value.clone()) {
                            histograms.insert(key.clone(), (step, bins));
                        }
                    }
                    _ => {}
                }
            }
        });
        match found {
            Err(error) => self.problems.push(format!("{error}.")),
            Ok(broken) => {
                if let Some(first) = broken.first() {
                    let count = counted(broken.len() as u64, "line");
                    self.note(&format!(
                        "has {count} in metrics.jsonl that cannot be read and left out, the first of them line {first}"
                    ));
                }
                if self.steps == 0 {
                    self.note("has no step in metrics.jsonl");
                }
            }
        }
    }

    /// How far the run has got, in words.
    pub fn state(&self) -> &'static str {
        match &self.outcome {
            _ if self.diverged.is_some() => "diverged",
            Some(outcome) if outcome.interrupted => "interrupted",
            Some(_) => "finished",
            None => "not finished",
        }
    }

    /// The last value of a number of the metrics.
    pub fn last(&self, key: &str) -> Option<f64> {
        Some(self.curves.get(key)?.extremes()?.last.1)
    }

    /// Keys of the scores of evaluations, such as `dev_accuracy`, the loss last.
    pub fn scores(&self) -> Vec<&str> {
        let is_score = |key: &&str| key.starts_with("dev_") && !key.contains('/');
        let mut scores: Vec<&str> = self.curves.keys().map(String::as_str).filter(is_score).collect();
        scores.sort_by_key(|key| *key == "dev_loss");
        scores
    }
}
