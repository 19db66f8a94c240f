//! The results of an experiment's runs: how far each has got, and its numbers.

use super::measure::{Measure, Outcome};
use super::summary::{BySeed, Summary};
use lessen_base::{Error, Result};
use lessen_task::folder::DIVERGED;
use serde_json::Value;
use std::fs;
use std::path::Path;

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

/// What is read of a run that is over.
pub(super) struct Reading<'a> {
    pub measures: &'a [Measure],
    /// Whether a plot has the course of a measure.
    pub wants_course: &'a dyn Fn(&Measure) -> bool,
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
    /// It has no folder, and its numbers are kept in the file of the experiment.
    Kept,
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
        matches!(self, State::Finished | State::Diverged | State::Kept)
    }
}

impl Record {
    /// The numbers of an outcome, with its point, seed and network.
    pub(super) fn read(outcome: &Outcome, (point, seed, network): (usize, u64, u64), reading: &Reading<'_>) -> Record {
        let measures = reading.measures;
        let course = |measure: &Measure| match (reading.wants_course)(measure) {
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

/// Reads a file of a run.
///
/// # Errors
/// A file that cannot be read, with the remedy.
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
