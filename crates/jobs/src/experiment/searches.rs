//! Runs of an experiment that are searches: each finds a network, trains it from scratch, and judges it by its test
//! error.
//!
//! ```text
//! POINT/seed-N                      the folder of the search
//! POINT/seed-N/trained              the folder of the training
//! POINT/seed-N/trained/scores.json  the scores on the test split
//! ```

use super::check::state;
use super::follows::Follows;
use super::grid::{GridRun, folder};
use super::measure::{Measure, Moment, OF_SEARCHES, Outcome, PEAK, TEST_ERROR};
use super::reader::Reader;
use super::results::{Reading, Record, State, read_json};
use super::runs::{Left, Place, Plan, Runs, check_read, other_setting};
use super::trainings::{SEED as TRAINING_SEED, train_in};
use crate::condensing::ReadImages;
use crate::job::{JobFolder, Request, SEARCH};
use crate::schema::{SCHEMA, is_read};
use crate::searching::{ARCHITECTURE, MAPPING, RECIPE, REPORT, SearchKeys, check, search, without_unread};
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::device::NewBackend;
use lessen_task::folder::spent::Spent;
use lessen_task::folder::{Folder, WhichModel, check_free};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::{Origin, SettingValue, Values};
use lessen_task::wording::show_duration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The name of the table.
const TABLE: &str = "training";

/// The keys that the table may have: those of these sections, but for the seed.
const SECTIONS: [&str; 4] = ["train.", "optimizer.", "image.", "record."];

/// The folder of the training in that of the search.
const TRAINED: &str = "trained";

/// The file of the scores in the folder of the training.
const SCORES: &str = "scores.json";

/// The split by which networks are judged.
const SPLIT: &str = "test";

/// The key that takes the seeds.
const SEED: &str = "search.seed";

/// The keys of what a point may take from others.
const NETWORK: &str = "search.architecture";
const LIMIT: &str = "search.limit";

/// A cost that every network keeps to, in any unit.
const NO_LIMIT: f64 = 1e9;

/// Settings in which a folder may differ from the experiment.
const FREE: [&str; 3] = ["data.held_out", "run.budget", "search.checkpoint_minutes"];

/// Searches, and the keys of the trainings of what they find.
#[derive(Clone, Debug, Default)]
pub(super) struct Searches {
    training: Values,
}

impl Runs for Searches {
    fn noun(&self) -> &'static str {
        "searches"
    }

    fn seed_key(&self) -> &'static str {
        SEED
    }

    fn table(&self) -> Option<&'static str> {
        Some(TABLE)
    }

    fn with(&self, table: Reader<'_, '_>) -> Result<Arc<dyn Runs>> {
        let mut settings = SCHEMA.parse("", "")?;
        table.merge_into(&mut settings)?;
        let is_own = |name: &str| SECTIONS.iter().any(|section| name.starts_with(section)) && name != TRAINING_SEED;
        let given = settings
            .values
            .iter()
            .filter(|(_, (_, origin))| *origin != Origin::Default);
        let names = given.map(|(name, _)| name.clone());
        let phases = settings.entries().into_iter().map(|(name, _)| name);
        let mut names = names.chain(phases.filter(|name| name.starts_with("phase.")));
        if let Some(name) = names.find(|name| !is_own(name)) {
            return Err(Error::user(format!(
                "{} is of no training of a network that a search found; leave it out of [{TABLE}]",
                settings.place(&name)
            )));
        }
        let given = settings
            .values
            .into_iter()
            .filter(|(_, (_, origin))| *origin != Origin::Default);
        let training = self.training.clone().into_iter().chain(given).collect();
        Ok(Arc::new(Searches { training }))
    }

    fn follows(&self, variant: &mut Reader<'_, '_>) -> Result<Follows> {
        Follows::read(variant)
    }

    fn without_unread(&self, settings: Settings, is_common: &dyn Fn(&str) -> bool) -> Result<Settings> {
        without_unread(settings, is_common)
    }

    fn more_settings(&self, follows: &Follows) -> BTreeMap<String, String> {
        let training = self.training.iter();
        let training = training.map(|(name, (value, _))| (format!("{TABLE}.{name}"), value.to_string()));
        let taken = [
            ("architecture_of", follows.architecture.clone()),
            ("limit_of", follows.limit.clone()),
            ("share", follows.share.map(|share| share.to_string())),
        ];
        let taken = taken.into_iter();
        let taken = taken.filter_map(|(name, value)| Some((name.to_string(), value?)));
        training.chain(taken).collect()
    }

    fn check(&self, plan: &Plan<'_>, _: &mut dyn Backend) -> Result<(Vec<State>, Vec<Measure>)> {
        let (mut read, mut points, mut states) = (None, BTreeSet::new(), Vec::new());
        for run in plan.runs {
            let (in_run, follows) = (plan.in_run(run), &plan.grid.points[run.point].follows);
            let whole = taken(run, follows, plan.out, &mut read).map_err(in_run)?;
            // Seeds change no check.
            if points.insert(run.point) {
                let is_own = |name: &str| is_read("search", name);
                check_read((plan.recipe, &run.settings), &is_own, "search").map_err(in_run)?;
                check_given_once(run, follows).map_err(in_run)?;
                let settings = whole.clone().map_or_else(|| without_limit(run, follows), Ok)?;
                check(&settings, &mut read).map_err(in_run)?;
            }
            let wanted = whole.as_ref().unwrap_or(&run.settings);
            let root = plan.out.join(&run.folder);
            states.push(self.state(&root, (run, wanted), (follows, whole.is_some()))?);
        }
        plan.measures.iter().try_for_each(check_measure)?;
        Ok((states, Measure::of_searches()))
    }

    /// Searches, trains and tests. A training whose loss is no number is a result.
    fn run(&self, run: &GridRun, place: &Place<'_>) -> Result<bool> {
        let root = place.out.join(&run.folder);
        let follows = &place.grid.points[run.point].follows;
        if !has_ended(&root) {
            let request = match JobFolder::is_at(SEARCH, &root) {
                true => Request::resume_job(SEARCH, root.clone(), None, |_| Ok(()))?,
                false => {
                    let settings = taken(run, follows, place.out, &mut None)?;
                    let settings = settings.ok_or_else(|| Error::internal("a run before those that it follows"))?;
                    Request::new(settings, root.clone())
                }
            };
            if search(&request, place.new_backend)?.interrupted.is_some() {
                return Ok(true);
            }
        }
        if follows.is_untrained {
            return Ok(false);
        }
        let trained = root.join(TRAINED);
        if train_in(&trained, &self.training_in(&root, run.seed)?, place.new_backend)? {
            return Ok(true);
        }
        if !State::has_diverged(&trained) {
            score(&trained, place.new_backend)?;
        }
        Ok(false)
    }

    fn left(&self, run: &GridRun, place: &Place<'_>, reading: &Reading<'_>) -> Result<Left> {
        let root = place.out.join(&run.folder);
        let trained = root.join(TRAINED);
        let mut report = read_json(&root.join(REPORT))?;
        let found = Spent::read(&JobFolder::open(SEARCH, &root)?.sessions());
        let learned = Spent::read(&Folder::open(&trained)?.sessions());
        let bits = ["depthwise", "pointwise"].map(|layers| report[format!("mean_bits_{layers}")].as_f64());
        report["bits_ratio"] = json!(bits[0].zip(bits[1]).map(|(depthwise, pointwise)| depthwise / pointwise));
        report["search_seconds"] = json!(found.seconds);
        report["training_seconds"] = json!(learned.seconds);
        report[PEAK] = json!(found.planned.max(learned.planned));
        let has_diverged = State::has_diverged(&trained);
        if !has_diverged {
            let scores = read_json(&trained.join(SCORES))?;
            for (name, score) in scores.as_object().into_iter().flatten() {
                report[name] = score.clone();
            }
            report[TEST_ERROR] = json!(scores["test_accuracy"].as_f64().map(|accuracy| 1.0 - accuracy));
        }
        let outcome = Outcome {
            metrics: Vec::new(),
            report,
            lengths: Value::Null,
        };
        let mut record = Record::read(&outcome, (run.point, run.seed, 0), reading);
        for (measure, diverged) in reading.measures.iter().zip(&mut record.diverged) {
            *diverged = has_diverged && measure.value.starts_with(SPLIT);
        }
        Ok(Left {
            records: vec![record],
            seconds: Some([found.seconds, learned.seconds]),
            note: None,
        })
    }

    fn told_time(&self, [searched, trained]: [f64; 2]) -> String {
        let [searched, trained] = [searched, trained].map(show_duration);
        format!("{searched}, and {trained} of trainings")
    }

    fn told(&self) -> Option<String> {
        let keys = self
            .training
            .iter()
            .map(|(name, (value, _))| format!("`{name} = {value}`"));
        let keys = match &keys.collect::<Vec<_>>()[..] {
            [] => "the settings of the recipe".to_string(),
            keys => keys.join(", "),
        };
        Some(format!("Training of each network from scratch: {keys}"))
    }
}

impl Searches {
    /// The settings of the training of the network that the search in a folder found.
    fn training_in(&self, root: &Path, seed: u64) -> Result<Settings> {
        let mut settings = SCHEMA.load(&root.join(RECIPE).display().to_string())?;
        // `optimizer.kind` removes keys of the optimizer before, so it comes first.
        let (kind, rest): (Vec<_>, Vec<_>) = self.training.iter().partition(|(name, _)| *name == "optimizer.kind");
        for (name, (value, origin)) in kind.into_iter().chain(rest) {
            settings.set_at(name, value.clone(), origin.clone())?;
        }
        let origin = Origin::Flag("the seeds".to_string());
        settings.set_at(TRAINING_SEED, SettingValue::Count(seed), origin)?;
        Ok(settings)
    }

    /// How far the run in a folder has got; where it does not have yet what it takes from others, that is not compared.
    fn state(
        &self,
        root: &Path,
        (run, wanted): (&GridRun, &Settings),
        (follows, is_whole): (&Follows, bool),
    ) -> Result<State> {
        if !JobFolder::is_at(SEARCH, root) {
            check_free(root)?;
            return Ok(State::New);
        }
        let mut free = FREE.to_vec();
        free.extend((!is_whole).then_some([NETWORK, LIMIT]).into_iter().flatten());
        free.extend(wanted.get(MAPPING).is_none().then_some(MAPPING));
        let found = JobFolder::open(SEARCH, root)?.settings()?;
        let wanted = Config::new(wanted.clone().with_absolute_paths())?;
        if let Some(change) = found.difference(&wanted.settings, &free) {
            let subject = format!("the search in {} has", root.display());
            return Err(other_setting(&subject, &change));
        }
        if !has_ended(root) || follows.is_untrained {
            return Ok(match has_ended(root) {
                true => State::Finished,
                false => State::Broken,
            });
        }
        let trained = root.join(TRAINED);
        Ok(match state(&trained, &self.training_in(root, run.seed)?)? {
            State::Diverged => State::Diverged,
            State::Finished if trained.join(SCORES).is_file() => State::Finished,
            _ => State::Broken,
        })
    }
}

/// Whether the search in a folder has its network.
fn has_ended(root: &Path) -> bool {
    root.join(REPORT).is_file()
}

/// Writes the scores of a trained network, once.
fn score(trained: &Path, new_backend: &NewBackend) -> Result<()> {
    let path = trained.join(SCORES);
    if path.is_file() {
        return Ok(());
    }
    let network = SavedRun::open(trained, WhichModel::Last, AdapterOptions::default(), new_backend)?;
    let scores = network.evaluate(None, Some(SPLIT))?.scores.to_json(SPLIT);
    write_file(&path, format!("{}\n", json!(scores)).as_bytes())
}

/// The settings of a run with what it takes from others with its seed; none where that is not there yet.
fn taken(run: &GridRun, follows: &Follows, out: &Path, read: &mut ReadImages) -> Result<Option<Settings>> {
    let mut settings = run.settings.clone();
    if let Some(name) = &follows.architecture {
        let root = out.join(folder(name, run.seed));
        if !has_ended(&root) {
            return Ok(None);
        }
        let file = SettingValue::of_path(&root.join(ARCHITECTURE))?;
        settings.set_at(NETWORK, file, Origin::Flag(format!("the network of '{name}'")))?;
    }
    if let Some(name) = &follows.limit {
        let report = out.join(folder(name, run.seed)).join(REPORT);
        if !report.is_file() {
            return Ok(None);
        }
        let numbers = read_json(&report)?;
        let (Some(wish), Some(unit)) = (numbers["value"].as_f64(), numbers["unit"].as_str()) else {
            return Err(Error::user(format!(
                "{} has no cost of a network; remove the folder of that run, so that it is run again",
                report.display()
            )));
        };
        let mut limited = |limit: f64| {
            let limit = SettingValue::Text(format!("{limit}{unit}"));
            settings.set_at(LIMIT, limit, Origin::Flag(format!("the cost of '{name}'")))?;
            Ok::<_, Error>(settings.clone())
        };
        let limit = match follows.share {
            None => wish,
            Some(share) => {
                let [least, most] = check(&limited(NO_LIMIT)?, read)?;
                match (least..=most).contains(&wish) {
                    true => wish,
                    false => least + share * (most - least),
                }
            }
        };
        limited(limit)?;
    }
    Ok(Some(settings))
}

/// The settings of a run with a limit that every network keeps to, where its limit is still to be found.
fn without_limit(run: &GridRun, follows: &Follows) -> Result<Settings> {
    let mut settings = run.settings.clone();
    if follows.limit.is_some() {
        let cost = settings.section::<SearchKeys>()?.cost;
        let unit = cost.unwrap_or(lessen_search::Settings::default().cost).unit();
        let limit = SettingValue::Text(format!("{NO_LIMIT}{unit}"));
        settings.set_at(LIMIT, limit, Origin::Flag("the cost of another point".to_string()))?;
    }
    Ok(settings)
}

/// Refuses settings in the place of what a point takes from others.
fn check_given_once(run: &GridRun, follows: &Follows) -> Result<()> {
    let taken = [(&follows.architecture, NETWORK), (&follows.limit, LIMIT)];
    let is_twice = |(name, key): &(&Option<String>, &str)| name.is_some() && run.settings.get(key).is_some();
    match taken.into_iter().find(is_twice) {
        None => Ok(()),
        Some((_, key)) => Err(Error::user(format!(
            "{} stands beside what the point takes from another one; leave one of them out",
            run.settings.place(key)
        ))),
    }
}

/// Refuses a measure that searches do not have.
fn check_measure(measure: &Measure) -> Result<()> {
    let name = &measure.name;
    if measure.phase.is_some() || measure.length.is_some() || measure.at != Moment::End {
        return Err(Error::user(format!(
            "the measure {name} has a step, a phase or a length, which numbers of searches do not have; leave them out"
        )));
    }
    let known = [&OF_SEARCHES[..], &[PEAK]].concat();
    match known.contains(&&*measure.value) {
        true => Ok(()),
        false => Err(Error::user(format!(
            "the measure {name} has the value '{}', which searches do not record; there are {}",
            measure.value,
            known.join(", ")
        ))),
    }
}
