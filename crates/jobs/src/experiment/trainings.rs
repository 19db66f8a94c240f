//! Runs of an experiment that are trainings.

use super::check::check;
use super::grid::GridRun;
use super::measure::{Measure, Outcome};
use super::results::{Reading, Record, State, read_json};
use super::runs::{Left, Place, Plan, Runs};
use crate::schema::check_trains;
use crate::training::{Request, train};
use lessen_base::Result;
use lessen_base::atomic::write_file;
use lessen_device::Backend;
use lessen_saved::lengths::Length;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::device::NewBackend;
use lessen_task::folder::{Folder, WhichModel, metrics};
use lessen_task::recipe::settings::Settings;
use lessen_task::wording::{show_duration, tell};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The losses at other lengths, beside the run's own files.
const LENGTHS: &str = "lengths.json";

/// The key that takes the seeds.
pub(super) const SEED: &str = "train.seed";

/// Trainings.
#[derive(Debug)]
pub(super) struct Trainings;

impl Runs for Trainings {
    fn noun(&self) -> &'static str {
        "trainings"
    }

    fn seed_key(&self) -> &'static str {
        SEED
    }

    fn check_flags(&self, settings: &Settings) -> Result<()> {
        check_trains(settings)
    }

    fn check(&self, plan: &Plan<'_>, backend: &mut dyn Backend) -> Result<(Vec<State>, Vec<Measure>)> {
        let (states, scores) = check(plan, backend)?;
        Ok((states, Measure::defaults(&scores)))
    }

    fn run(&self, run: &GridRun, place: &Place<'_>) -> Result<bool> {
        train_in(&place.out.join(&run.folder), &run.settings, place.new_backend)
    }

    /// Evaluates a run at the lengths that the measures ask for, once.
    fn left(&self, run: &GridRun, place: &Place<'_>, reading: &Reading<'_>) -> Result<Left> {
        let root = &place.out.join(&run.folder);
        let diverged = State::of(root) == State::Diverged;
        let lines = metrics::lines(&Folder::open(root)?.metrics())?;
        let seconds = lines.iter().filter_map(|line| line["step_ms"].as_f64()).sum::<f64>() / 1e3;
        let lengths = reading.measures.iter().filter_map(|measure| measure.length);
        let (report, lengths) = match diverged {
            true => (Value::Null, Value::Null),
            false => (
                read_json(&root.join("report.json"))?,
                at_lengths(root, lengths, place.new_backend)?,
            ),
        };
        let outcome = Outcome {
            metrics: lines,
            report,
            lengths,
        };
        let mut record = Record::read(&outcome, (run.point, run.seed, 0), reading);
        if diverged {
            record.numbers.fill(None);
            record.diverged.fill(true);
        }
        Ok(Left {
            records: vec![record],
            seconds: Some([seconds, 0.0]),
            note: None,
        })
    }

    fn told_time(&self, [seconds, _]: [f64; 2]) -> String {
        format!("{} of training steps", show_duration(seconds))
    }
}

/// Trains in a folder what is left to do; whether it was interrupted. A loss that is no number is a result, too.
///
/// # Errors
/// A training that fails for another reason.
pub(super) fn train_in(root: &Path, settings: &Settings, new_backend: &NewBackend) -> Result<bool> {
    let request = match State::of(root) {
        State::Broken => Request::resume(root.to_path_buf(), None, |_| Ok(()))?,
        State::New => Request::new(settings.clone(), root.to_path_buf()),
        _ => return Ok(false),
    };
    match train(&request, new_backend) {
        Ok(report) => Ok(report.interrupted),
        Err(error) if State::of(root) == State::Diverged => {
            tell(&format!("warning: {error}"));
            Ok(false)
        }
        Err(error) => Err(error),
    }
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
