//! Experiments as files: the runs of a grid, one after another, and a page with the results. A run is a training, a
//! condensation or a search. `docs/experiments.md` describes the keys.
//!
//! ```text
//! file ──▶ Experiment ──▶ check of every run ──▶ runs: new, resumed or skipped ──▶ records ──▶ table, claims, plots
//! ```

mod check;
mod claim;
mod clock;
mod condensations;
mod condensed_records;
mod digits;
mod evaluation;
mod finish;
mod follows;
mod grid;
mod judgements;
mod kept;
mod machine;
mod measure;
mod page;
mod pairs;
mod paper;
mod plot;
mod reader;
mod results;
mod runs;
mod searches;
mod significance;
#[cfg(test)]
mod simulation;
mod states;
mod summary;
mod trainings;

use self::claim::{Claim, check_name, find};
use self::clock::Clock;
use self::evaluation::Evaluation;
pub(crate) use self::grid::of_seed;
use self::grid::{Grid, GridRun, OfRuns};
use self::kept::Kept;
use self::measure::Measure;
use self::page::check_place;
use self::paper::Paper;
use self::plot::Plot;
use self::reader::Reader;
use self::results::State;
use self::runs::{Place, Runs, changed};
use self::searches::Searches;
use self::trainings::Trainings;
use crate::schema::SCHEMA;
use lessen_base::{Error, Result, watcher};
use lessen_task::device::NewBackend;
use lessen_task::recipe::BUILT_IN;
use lessen_task::recipe::document::Document;
use lessen_task::recipe::settings::Settings;
use lessen_task::wording::{counted, report};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An experiment as its file describes it.
#[derive(Clone, Debug)]
pub struct Experiment {
    title: String,
    text: Vec<String>,
    recipe: String,
    /// The settings of the recipe alone, and the settings of all runs.
    base: (Settings, Settings),
    /// The page of results, if the file names one.
    page: Option<PathBuf>,
    /// Whether the numbers of finished runs are kept beside the page.
    keeps: bool,
    grid: Grid,
    /// What the runs do.
    kind: Arc<dyn Runs>,
    measures: Vec<Measure>,
    papers: Vec<Paper>,
    claims: Vec<Claim>,
    plots: Vec<Plot>,
}

/// How to run an experiment.
pub struct Options<'a> {
    /// The folder of the experiment's runs. Runs that it already has are skipped, or go on.
    pub out: PathBuf,
    /// Another page than the file's.
    pub page: Option<PathBuf>,
    /// The points whose runs are to be done, by name; all if there are none. The page has what the others have left.
    pub only: Vec<String>,
    /// Puts flags over the settings of every run.
    pub change: &'a dyn Fn(&mut Settings) -> Result<()>,
    /// The command as it was given but for the points; the page adds those that its table has.
    pub command: String,
}

/// The outcome of an experiment.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Whether it was stopped before its end; then there is no page.
    pub interrupted: bool,
    json: Value,
    text: String,
}

impl Finished {
    /// One JSON object.
    pub fn to_json(&self) -> &Value {
        &self.json
    }

    /// For people.
    pub fn to_text(&self) -> &str {
        &self.text
    }
}

impl Experiment {
    /// Reads the file of an experiment. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// A file that cannot be read, a key that is unknown, missing or has a wrong value, an empty grid.
    pub fn load(file: &Path) -> Result<Experiment> {
        let shown = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|error| {
            Error::user(format!(
                "the experiment {shown} cannot be read ({error}); check the path"
            ))
        })?;
        Experiment::read(&Document::parse(&text, &shown, file.parent())?)
    }

    fn read(document: &Document<'_>) -> Result<Experiment> {
        let mut reader = Reader::new(document);
        let folder = document.folder().unwrap_or(Path::new(""));
        let title = reader.required("title", "title = \"Warm-up\"")?;
        let text = reader.texts("text")?;
        let recipe = reader.required("recipe", "recipe = \"adder\"")?;
        let page = reader.text("page")?.map(|page| folder.join(page));
        let mut base = if BUILT_IN.iter().any(|built_in| built_in.name == recipe) {
            SCHEMA.load(&recipe)?
        } else {
            SCHEMA.load(&folder.join(&recipe).display().to_string())?
        };
        let recipe_alone = base.clone();
        base.merge(document, &reader.table("set")?)?;
        let keeps = reader.switch("keep")?.unwrap_or(false);
        let kind = kind(&mut reader)?;
        let of_runs = OfRuns {
            seed_key: kind.seed_key(),
            follows: &|variant| kind.follows(variant),
        };
        let grid = Grid::read(&mut reader, &base, &of_runs)?;
        let measures = reader.tables("measure")?.into_iter().map(Measure::read);
        let measures: Vec<Measure> = measures.collect::<Result<_>>()?;
        for (index, measure) in measures.iter().enumerate() {
            if measures[..index].iter().any(|other| other.name == measure.name) {
                let name = &measure.name;
                return Err(reader.error(&format!(
                    "two measures are called '{name}'; give them names of their own"
                )));
            }
        }
        if keeps && measures.is_empty() {
            return Err(
                reader.error("keep = true keeps the numbers of measures, and there is no [[measure]]; write some")
            );
        }
        let papers = reader
            .tables("paper")?
            .into_iter()
            .map(Paper::read)
            .collect::<Result<_>>()?;
        let claims = reader
            .tables("claim")?
            .into_iter()
            .map(Claim::read)
            .collect::<Result<_>>()?;
        let plots = reader
            .tables("plot")?
            .into_iter()
            .map(|table| Plot::read(table, &grid.axes, &measures));
        let experiment = Experiment {
            title,
            text,
            recipe,
            base: (recipe_alone, base),
            page,
            keeps,
            plots: plots.collect::<Result<_>>()?,
            grid,
            kind,
            measures,
            papers,
            claims,
        };
        reader.finish()?;
        // Without measures of its own, the experiment has those that its runs have.
        if !experiment.measures.is_empty() {
            experiment.check_names()?;
        }
        Ok(experiment)
    }

    /// Refuses names of points and measures that there are not.
    fn check_names(&self) -> Result<()> {
        let points: Vec<&str> = self.grid.points.iter().map(|point| point.name.as_str()).collect();
        for (index, paper) in self.papers.iter().enumerate() {
            let same = |other: &Paper| (&other.point, &other.measure) == (&paper.point, &paper.measure);
            if self.papers[..index].iter().any(same) {
                return Err(Error::user(format!(
                    "{}: there is another number of the paper for {} at '{}'; keep one",
                    paper.place, paper.measure, paper.point
                )));
            }
            check_name(&paper.place, "point", &paper.point, &points)?;
            find(&paper.place, &paper.measure, &self.measures)?;
        }
        self.claims
            .iter()
            .try_for_each(|claim| claim.check(&points, &self.measures))?;
        self.plots
            .iter()
            .try_for_each(|plot| plot.check(&self.grid.points, &self.measures))
    }

    /// Takes `TABLE.KEY=VALUE` for the table `[evaluation]` or `[training]`; whether the assignment is one.
    ///
    /// # Errors
    /// An experiment without that table, an unknown key, a wrong value.
    pub fn set_table(&mut self, assignment: &str) -> Result<bool> {
        let rest = |table: &str| assignment.trim_start().strip_prefix(table);
        let is_named = |table: &&str| rest(table).is_some_and(|rest| rest.starts_with('.'));
        let Some(table) = sorts().iter().filter_map(|sort| sort.table()).find(is_named) else {
            return Ok(false);
        };
        if self.kind.table() != Some(table) {
            return Err(Error::user(format!(
                "--set {assignment}: the runs of {} are {}; leave it out",
                self.title,
                self.kind.noun()
            )));
        }
        self.kind = changed(self.kind.as_ref(), table, assignment)?;
        Ok(true)
    }

    /// All runs with their settings.
    fn runs(&self, options: &Options<'_>) -> Result<Vec<GridRun>> {
        let names: Vec<&str> = self.grid.points.iter().map(|point| point.name.as_str()).collect();
        for name in &options.only {
            check_name("--only", "point", name, &names)?;
        }
        let change = |settings: &mut Settings| {
            (options.change)(settings)?;
            self.kind.check_flags(settings)
        };
        let runs = self.grid.runs(&change)?;
        let (recipe, mut all) = self.base.clone();
        change(&mut all)?;
        let common: Vec<(String, String, String)> = recipe.changes(&all);
        let is_common = |name: &str| common.iter().any(|(own, ..)| own == name);
        let own = |run: GridRun| {
            Ok(GridRun {
                settings: self.kind.without_unread(run.settings, &is_common)?,
                ..run
            })
        };
        runs.into_iter().map(own).collect()
    }

    /// Does the runs that are left, one after another, and writes the page.
    ///
    /// # Errors
    /// A mistake in any run, before the first of them; a run that fails for another reason than a loss that is no
    /// number; a page that cannot be written.
    pub fn run(&self, options: &Options<'_>, new_backend: &NewBackend) -> Result<Finished> {
        let runs = self.runs(options)?;
        let kept = self.kept(options)?;
        let mut backend = new_backend.open()?;
        let machine = machine::describe(backend.as_ref());
        let (states, defaults) = self.states(&runs, (kept.as_ref(), &options.out), backend.as_mut())?;
        drop(backend);
        if let Some(page) = self.page_of(options) {
            check_place(page, self.keeps || !self.plots.is_empty())?;
        }
        if self.measures.is_empty() {
            let experiment = Experiment {
                measures: defaults,
                ..self.clone()
            };
            experiment.check_names()?;
            return experiment.run_checked((&runs, &states), (options, &machine), kept, new_backend);
        }
        self.run_checked((&runs, &states), (options, &machine), kept, new_backend)
    }

    /// The kept numbers, if there are to be any.
    fn kept(&self, options: &Options<'_>) -> Result<Option<Kept>> {
        match self.page_of(options) {
            Some(page) if self.keeps => Kept::of_page(page).map(Some),
            None if self.keeps => Err(Error::user(
                "keep = true keeps numbers beside the page, and there is none; name its file with page in the experiment, or \
                 with --page",
            )),
            _ => Ok(None),
        }
    }

    /// Does the runs that are left, of those with these states.
    fn run_checked(
        &self,
        (runs, states): (&[GridRun], &[State]),
        (options, machine): (&Options<'_>, &str),
        kept: Option<Kept>,
        new_backend: &NewBackend,
    ) -> Result<Finished> {
        let asked = self.grid.asked(&options.only);
        let is_left = |(run, state): &(&GridRun, &State)| asked[run.point] && !state.is_over();
        let left: Vec<&GridRun> = runs.iter().zip(states).filter(is_left).map(|(run, _)| run).collect();
        left.iter()
            .try_for_each(|run| self.check_followed(run, (runs, states), (kept.as_ref(), &options.out)))?;
        report(&format!(
            "{}: {} in {}, {} left to do",
            self.title,
            counted(runs.len() as u64, "run"),
            options.out.display(),
            left.len()
        ));
        let place = Place {
            grid: &self.grid,
            out: &options.out,
            new_backend,
        };
        let mut clock = Clock::new(left.len());
        for (number, (run, state)) in runs.iter().zip(states).enumerate() {
            if !is_left(&(run, state)) {
                continue;
            }
            let title = self.grid.title(run.point, run.seed);
            if watcher::current().stops() {
                return Ok(self.stopped(&title));
            }
            report(&format!(
                "run {} of {}: {title}{}",
                number + 1,
                runs.len(),
                clock.so_far()
            ));
            let done = self.kind.run(run, &place);
            if done.map_err(|error| error.at(format!("the run {title}")))? {
                return Ok(self.stopped(&title));
            }
            clock.finished();
        }
        let is_over = |(run, state): &(&GridRun, &State)| asked[run.point] || state.is_over();
        let over: Vec<(&GridRun, &State)> = runs.iter().zip(states).filter(is_over).collect();
        self.finish(&over, &place, (options, machine), kept)
    }

    /// The file of the page, if there is to be one.
    pub(super) fn page_of<'p>(&'p self, options: &'p Options<'_>) -> Option<&'p Path> {
        options.page.as_deref().or(self.page.as_deref())
    }

    /// The outcome where the run with this title was stopped.
    fn stopped(&self, title: &str) -> Finished {
        Finished {
            interrupted: true,
            json: json!({ "title": self.title, "interrupted": true }),
            text: format!("{title} was stopped; the same command goes on with it\n"),
        }
    }
}

/// The sorts of runs that a table of the file names.
fn sorts() -> [Arc<dyn Runs>; 2] {
    [Arc::new(Evaluation::default()), Arc::new(Searches::default())]
}

/// What the runs of a file do: what its table says, or training.
///
/// # Errors
/// Several tables, a key in one that is unknown or has a wrong value.
fn kind(reader: &mut Reader<'_, '_>) -> Result<Arc<dyn Runs>> {
    let mut kind: Arc<dyn Runs> = Arc::new(Trainings);
    for sort in sorts() {
        let Some(name) = sort.table() else { continue };
        let Some(table) = reader.section(name)? else { continue };
        if let Some(other) = kind.table() {
            return Err(table.error(&format!(
                "there are tables [{other}] and [{name}], for {} and for {}; keep one",
                kind.noun(),
                sort.noun()
            )));
        }
        kind = sort.with(table)?;
    }
    Ok(kind)
}
