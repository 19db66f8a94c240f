//! The numbers of finished runs in a file beside the page, from which they are read where the folder of a run is gone.

use super::grid::GridRun;
use super::measure::Measure;
use super::results::Record;
use super::runs::Left;
use crate::schema::SCHEMA;
use lessen_base::atomic::{unwritable, write_file};
use lessen_base::{Error, Result};
use lessen_task::recipe::value::ValueKind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the file, in the folder of the page's plots.
const FILE: &str = "runs.json";

/// Settings that change no number.
const FREE: [&str; 3] = ["run.budget", "condense.checkpoint_minutes", "search.checkpoint_minutes"];

/// Settings that decide the numbers of a point's runs, by the names of keys.
pub(super) type Deciding = BTreeMap<String, String>;

/// The numbers that a file has.
pub(super) struct Kept {
    path: PathBuf,
    points: BTreeMap<String, KeptPoint>,
}

/// The runs of a point.
#[derive(Serialize, Deserialize)]
struct KeptPoint {
    settings: Deciding,
    seeds: BTreeMap<u64, KeptRun>,
}

/// A run.
#[derive(Serialize, Deserialize)]
struct KeptRun {
    /// None where nobody has noted the time.
    seconds: Option<[f64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<(String, String)>,
    records: Vec<KeptRecord>,
}

/// The numbers of a record, by the keys of measures.
#[derive(Serialize, Deserialize)]
struct KeptRecord {
    numbers: BTreeMap<String, Option<f64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    diverged: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    courses: BTreeMap<String, Vec<(u64, f64)>>,
}

impl Kept {
    /// Reads the file of a page; nothing where there is none.
    ///
    /// # Errors
    /// A file that is no such file.
    pub(super) fn of_page(page: &Path) -> Result<Kept> {
        let path = page.with_extension("").join(FILE);
        let wrong = |error: &dyn std::fmt::Display| {
            let shown = path.display();
            Error::user(format!(
                "{shown} is no file of an experiment's runs ({error}); restore it, or remove it, so that all are run again"
            ))
        };
        let points = match path.is_file() {
            true => {
                let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
                serde_json::from_str(&text).map_err(|error| wrong(&error))?
            }
            false => BTreeMap::new(),
        };
        Ok(Kept { path, points })
    }

    /// The file, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has a run.
    pub(super) fn has(&self, point: &str, seed: u64) -> bool {
        self.points.get(point).is_some_and(|own| own.seeds.contains_key(&seed))
    }

    /// Refuses a point that it has with other settings than these.
    ///
    /// # Errors
    /// The first setting that differs.
    pub(super) fn check(&self, point: &str, wanted: &Deciding) -> Result<()> {
        let Some(own) = self.points.get(point) else {
            return Ok(());
        };
        let mut names = own.settings.keys().chain(wanted.keys());
        let Some(name) = names.find(|name| own.settings.get(*name) != wanted.get(*name)) else {
            return Ok(());
        };
        let show = |settings: &Deciding| settings.get(name).cloned().unwrap_or("nothing".to_string());
        Err(Error::user(format!(
            "{} has runs of '{point}' with {name} = {}, and the experiment says {}; remove '{point}' from that file, or name \
             another page with --page",
            self.path.display(),
            show(&own.settings),
            show(wanted)
        )))
    }

    /// What a run has left.
    ///
    /// # Errors
    /// A run that it does not have, or without the number of a measure.
    pub(super) fn left(&self, point: &str, run: &GridRun, measures: &[Measure]) -> Result<Left> {
        let own = self.points.get(point).and_then(|own| own.seeds.get(&run.seed));
        let own = own.ok_or_else(|| Error::internal(format!("no run of {point} is kept")))?;
        let lacks = |measure: &&Measure| {
            let has = |record: &KeptRecord| record.numbers.contains_key(&measure.key());
            !measure.optional && !own.records.iter().all(has)
        };
        if let Some(measure) = measures.iter().find(lacks) {
            return Err(Error::user(format!(
                "{} has no number for the measure {} of '{point}', seed {}; remove that seed from the file, so that it is run \
                 again, or give the measure optional = true",
                self.path.display(),
                measure.name,
                run.seed
            )));
        }
        let record = |(network, record): (usize, &KeptRecord)| Record {
            point: run.point,
            seed: run.seed,
            network: network as u64,
            numbers: measures.iter().map(|own| *record.numbers.get(&own.key())?).collect(),
            courses: measures
                .iter()
                .map(|own| record.courses.get(&own.key()).cloned().unwrap_or_default())
                .collect(),
            diverged: measures
                .iter()
                .map(|own| record.diverged.contains(&own.key()))
                .collect(),
        };
        Ok(Left {
            records: own.records.iter().enumerate().map(record).collect(),
            seconds: own.seconds,
            note: own.note.clone(),
        })
    }

    /// Keeps what a run has left.
    pub(super) fn put(&mut self, point: &str, settings: &Deciding, (seed, left): (u64, &Left), measures: &[Measure]) {
        let record = |record: &Record| {
            let named = || measures.iter().map(Measure::key);
            let diverged = named().zip(&record.diverged).filter(|(_, diverged)| **diverged);
            let courses = named().zip(record.courses.iter().cloned());
            KeptRecord {
                numbers: named().zip(record.numbers.iter().copied()).collect(),
                diverged: diverged.map(|(name, _)| name).collect(),
                courses: courses.filter(|(_, course)| !course.is_empty()).collect(),
            }
        };
        let run = KeptRun {
            seconds: left.seconds,
            note: left.note.clone(),
            records: left.records.iter().map(record).collect(),
        };
        let own = self.points.entry(point.to_string()).or_insert_with(|| KeptPoint {
            settings: settings.clone(),
            seeds: BTreeMap::new(),
        });
        own.seeds.insert(seed, run);
    }

    /// Writes the file, a line for each point's settings and for each run.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write(&self) -> Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        let point = |(name, own): (&String, &KeptPoint)| {
            let seeds = own
                .seeds
                .iter()
                .map(|(seed, run)| format!("\"{seed}\": {}", json!(run)));
            let seeds = seeds.collect::<Vec<_>>().join(",\n  ");
            format!(
                "{}: {{\"settings\": {}, \"seeds\": {{\n  {seeds}}}}}",
                Value::from(name.as_str()),
                json!(own.settings)
            )
        };
        let points = self.points.iter().map(point).collect::<Vec<_>>().join(",\n ");
        write_file(&self.path, format!("{{\n {points}\n}}\n").as_bytes())
    }
}

/// The settings of a run that decide its numbers, beside its seed: those that differ from the defaults, paths by their
/// last part, and `more`.
///
/// # Errors
/// None, as long as the defaults are settings.
pub(super) fn deciding(run: &GridRun, seed_key: &str, more: Deciding) -> Result<Deciding> {
    let defaults = SCHEMA.parse("", "")?.entries();
    let own = run.settings.entries().into_iter();
    let own = own.filter(|own| !defaults.contains(own) && own.0 != seed_key && !FREE.contains(&&*own.0));
    let by_last_part = |(name, value): (String, String)| {
        let is_path = SCHEMA
            .find(&name)
            .is_ok_and(|key| matches!(key.kind, ValueKind::Path(_)));
        let last = value
            .trim_end_matches(['"', '/'])
            .rsplit('/')
            .next()
            .unwrap_or_default();
        match is_path {
            true => (name, last.trim_matches('"').to_string()),
            false => (name, value),
        }
    };
    Ok(own.map(by_last_part).chain(more).collect())
}
