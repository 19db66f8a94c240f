//! The results of an experiment's runs, read from their folders.

use super::measure::{Measure, Outcome};
use super::summary::{BySeed, Summary};
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_saved::lengths::Length;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_task::folder::{DIVERGED, Folder, metrics};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// The losses at other lengths, beside the run's own files.
const LENGTHS: &str = "lengths.json";

/// The measured numbers of a run.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The number of its point.
    pub point: usize,
    pub seed: u64,
    /// The number of the network that learned from condensed images; 0 of a training.
    pub network: u64,
    /// The number of every measure, if there is one; none of a run that diverged.
    pub numbers: Vec<Option<f64>>,
    /// The course of every measure over the steps; empty where no plot shows it.
    pub courses: Vec<Vec<(u64, f64)>>,
    /// For every measure, whether its number is missing because a loss was infinite or NaN.
    pub diverged: Vec<bool>,
}

/// How far a run has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    New,
    /// It was killed or interrupted.
    Broken,
    Finished,
    /// Its loss was no number at some step.
    Diverged,
}

impl State {
    /// How far the run in a folder has got; the folder may not exist.
    pub(super) fn of(root: &Path) -> State {
        let has = |name: &str| root.join(name).is_file();
        match () {
            () if !has("config.toml") => State::New,
            () if State::has_diverged(root) => State::Diverged,
            () if has("report.json") && root.join("model").is_dir() => State::Finished,
            () => State::Broken,
        }
    }

    /// Whether a run or a condensation has left word that a loss or a distance was no number.
    pub(super) fn has_diverged(root: &Path) -> bool {
        root.join(DIVERGED).is_file()
    }

    /// Whether there is nothing left to do.
    pub(super) fn is_over(self) -> bool {
        matches!(self, State::Finished | State::Diverged)
    }
}

impl Record {
    /// Reads what a run that is over has left; evaluates it at the lengths that the measures ask for, once.
    ///
    /// # Errors
    /// Files that cannot be read or written to.
    pub(super) fn of(
        root: &Path,
        (point, seed): (usize, u64),
        measures: &[Measure],
        wants_course: &dyn Fn(&Measure) -> bool,
        new_backend: &NewBackend,
    ) -> Result<Record> {
        let diverged = State::of(root) == State::Diverged;
        let folder = Folder::open(root)?;
        let lengths = measures.iter().filter_map(|measure| measure.length);
        let outcome = Outcome {
            metrics: metrics::lines(&folder.metrics())?,
            report: if diverged {
                Value::Null
            } else {
                read_json(&root.join("report.json"))?
            },
            lengths: if diverged {
                Value::Null
            } else {
                at_lengths(root, lengths, new_backend)?
            },
        };
        let mut record = Record::read(&outcome, (point, seed, 0), measures, wants_course);
        if diverged {
            record.numbers.fill(None);
            record.diverged.fill(true);
        }
        Ok(record)
    }

    /// The numbers of an outcome, with its point, seed and network.
    pub(super) fn read(
        outcome: &Outcome,
        (point, seed, network): (usize, u64, u64),
        measures: &[Measure],
        wants_course: &dyn Fn(&Measure) -> bool,
    ) -> Record {
        let course = |measure: &Measure| match wants_course(measure) {
            true => measure.course(outcome),
            false => Vec::new(),
        };
        Record {
            point,
            seed,
            network,
            numbers: measures.iter().map(|measure| measure.of(outcome)).collect(),
            courses: measures.iter().map(course).collect(),
            diverged: vec![false; measures.len()],
        }
    }

    /// A run that diverged, without a course.
    pub(super) fn diverged((point, seed): (usize, u64), measures: usize) -> Record {
        Record {
            point,
            seed,
            network: 0,
            numbers: vec![None; measures],
            courses: vec![Vec::new(); measures],
            diverged: vec![true; measures],
        }
    }
}

/// How long the steps of a run took, in seconds.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn step_seconds(root: &Path) -> Result<f64> {
    let lines = metrics::lines(&Folder::open(root)?.metrics())?;
    Ok(lines.iter().filter_map(|line| line["step_ms"].as_f64()).sum::<f64>() / 1e3)
}

/// The numbers of a measure at a point, with their seeds and networks.
pub(super) fn by_seed(records: &[Record], point: usize, measure: usize) -> BySeed {
    let own = records.iter().filter(|record| record.point == point);
    own.filter_map(|record| Some(((record.seed, record.network), record.numbers[measure]?)))
        .collect()
}

/// Mean and spread of a measure at a point.
pub(super) fn summary(records: &[Record], point: usize, measure: usize) -> Option<Summary> {
    let numbers = by_seed(records, point, measure).into_iter();
    Summary::of(&numbers.map(|(_, number)| number).collect::<Vec<f64>>())
}

/// The losses of a finished run at these lengths.
fn at_lengths(root: &Path, lengths: impl Iterator<Item = Length>, new_backend: &NewBackend) -> Result<Value> {
    let path = root.join(LENGTHS);
    let mut known: Map<String, Value> = if path.is_file() {
        read_json(&path)?.as_object().cloned().unwrap_or_default()
    } else {
        Map::new()
    };
    let missing: Vec<Length> = lengths
        .filter(|length| !known.contains_key(&length.to_string()))
        .collect();
    if !missing.is_empty() {
        let run = SavedRun::open(root, WhichModel::Last, AdapterOptions::default(), new_backend)?;
        for length in missing.into_iter().filter(|length| run.reaches(*length)) {
            let (_, evaluation) = run.evaluate_at(None, None, length)?;
            known.insert(length.to_string(), json!(evaluation.scores.loss));
        }
        write_file(&path, format!("{}\n", json!(known)).as_bytes())?;
    }
    Ok(Value::Object(known))
}

pub(super) fn read_json(path: &Path) -> Result<Value> {
    let unreadable = |error: &dyn std::fmt::Display| {
        let shown = path.display();
        Error::user(format!(
            "{shown} cannot be read ({error}); remove the folder of the run, so that it is run again"
        ))
    };
    let text = fs::read_to_string(path).map_err(|error| unreadable(&error))?;
    serde_json::from_str(&text).map_err(|error| unreadable(&error))
}
