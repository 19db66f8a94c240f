//! What the runs of an experiment are: the trait of all sorts of them.

use super::follows::Follows;
use super::grid::{Grid, GridRun};
use super::measure::Measure;
use super::reader::Reader;
use super::results::{Reading, Record, State};
use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_task::device::NewBackend;
use lessen_task::recipe::document::Document;
use lessen_task::recipe::settings::Settings;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// The runs of an experiment that are to be checked.
pub(super) struct Plan<'a> {
    pub grid: &'a Grid,
    pub runs: &'a [&'a GridRun],
    pub measures: &'a [Measure],
    /// The settings of the recipe alone.
    pub recipe: &'a Settings,
    /// The folder of the experiment.
    pub out: &'a Path,
}

impl Plan<'_> {
    /// An error with the run's name before it.
    pub(super) fn in_run(&self, run: &GridRun) -> impl Fn(Error) -> Error + Copy {
        move |error| error.at(format!("the run {}", self.grid.title(run.point, run.seed)))
    }
}

/// Where a run is done.
pub(super) struct Place<'a> {
    pub grid: &'a Grid,
    /// The folder of the experiment.
    pub out: &'a Path,
    pub new_backend: &'a NewBackend,
}

/// What a run has left.
pub(super) struct Left {
    pub records: Vec<Record>,
    /// Seconds of its two parts, the second 0 where it has one; none where nobody has noted them.
    pub seconds: Option<[f64; 2]>,
    /// A line for the page, with what it is sorted by.
    pub note: Option<(String, String)>,
}

/// A sort of runs: trainings, condensations, or searches.
pub(super) trait Runs: Debug + Send + Sync {
    /// What they are, in the plural.
    fn noun(&self) -> &'static str;

    /// The key that takes the seeds.
    fn seed_key(&self) -> &'static str;

    /// The table of the file that an experiment of such runs has, if it has one.
    fn table(&self) -> Option<&'static str> {
        None
    }

    /// The same runs with the values of their table.
    ///
    /// # Errors
    /// A key that is unknown or has a wrong value.
    fn with(&self, table: Reader<'_, '_>) -> Result<Arc<dyn Runs>> {
        Err(table.error("these runs have no table"))
    }

    /// What a variant takes from other points.
    ///
    /// # Errors
    /// A key that has a wrong value.
    fn follows(&self, _variant: &mut Reader<'_, '_>) -> Result<Follows> {
        Ok(Follows::default())
    }

    /// Refuses a flag over a key that has no part in such a run.
    ///
    /// # Errors
    /// The flag.
    fn check_flags(&self, _settings: &Settings) -> Result<()> {
        Ok(())
    }

    /// Settings of a run without those of all runs that it does not read, which are no mistake.
    ///
    /// # Errors
    /// A value that a key does not take.
    fn without_unread(&self, settings: Settings, _is_common: &dyn Fn(&str) -> bool) -> Result<Settings> {
        Ok(settings)
    }

    /// What decides the numbers of a run beside its settings, by the names of keys.
    fn more_settings(&self, _follows: &Follows) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Checks runs; says how far each has got, and the measures of an experiment that names none.
    ///
    /// # Errors
    /// A mistake in the settings of a run, with its name; a measure that the runs do not have; a folder of other
    /// settings.
    fn check(&self, plan: &Plan<'_>, backend: &mut dyn Backend) -> Result<(Vec<State>, Vec<Measure>)>;

    /// Does a run that is new or was stopped; whether it was interrupted.
    ///
    /// # Errors
    /// A run that fails for another reason than a loss that is no number.
    fn run(&self, run: &GridRun, place: &Place<'_>) -> Result<bool>;

    /// Reads what a run that is over has left.
    ///
    /// # Errors
    /// Files that cannot be read or written to.
    fn left(&self, run: &GridRun, place: &Place<'_>, reading: &Reading<'_>) -> Result<Left>;

    /// Whether several networks are records of a run.
    fn has_networks(&self) -> bool {
        false
    }

    /// What the runs are called where they are counted on the page.
    fn counted(&self) -> &'static str {
        "runs"
    }

    /// The seconds of both parts of all runs, in words.
    fn told_time(&self, seconds: [f64; 2]) -> String;

    /// What the table of the file says, in words.
    fn told(&self) -> Option<String> {
        None
    }

    /// What a cell of the results is, where it is not a mean over runs.
    fn about_cells(&self, _seeds: &str) -> Option<String> {
        None
    }
}

/// The runs with another value for a key of their table, as `TABLE.KEY=VALUE` says.
///
/// # Errors
/// A key that is unknown or a wrong value.
pub(super) fn changed(runs: &dyn Runs, table: &'static str, assignment: &str) -> Result<Arc<dyn Runs>> {
    let shown = format!("--set {assignment}");
    let quoted = assignment
        .split_once('=')
        .map(|(key, value)| format!("{key} = {value:?}"));
    let document = Document::parse(assignment, &shown, None)
        .or_else(|error| Document::parse(quoted.as_deref().unwrap_or_default(), &shown, None).map_err(|_| error))?;
    match Reader::new(&document).section(table)? {
        Some(table) => runs.with(table),
        None => Err(Error::internal(format!("{shown} has no table {table}"))),
    }
}

/// The error of a folder whose setting is another one; `subject` is what has it, with its verb.
pub(super) fn other_setting(subject: &str, (key, old, new): &(String, String, String)) -> Error {
    Error::user(format!(
        "{subject} {key} = {old}, and the experiment says {new}; remove that folder, or name another for the experiment \
         with --out"
    ))
}

/// Refuses a key of an experiment that its jobs on images, with this section of keys, do not read.
pub(super) fn check_read(
    (recipe, own): (&Settings, &Settings),
    is_read: &dyn Fn(&str) -> bool,
    job: &str,
) -> Result<()> {
    match recipe.changes(own).iter().find(|(name, ..)| !is_read(name)) {
        None => Ok(()),
        Some((name, ..)) => Err(Error::user(format!(
            "{} has no part in a {job}; leave it out",
            own.place(name)
        ))),
    }
}
