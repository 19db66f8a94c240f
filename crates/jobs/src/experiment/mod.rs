//! Experiments as files: the runs of a grid, one after another, and a page with the results. `docs/experiments.md`
//! describes the keys.
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
mod grid;
mod judgements;
mod machine;
mod measure;
mod page;
mod pairs;
mod paper;
mod plot;
mod reader;
mod results;
mod summary;

use self::check::check;
use self::claim::{Claim, check_name, find};
use self::clock::Clock;
use self::evaluation::Evaluation;
pub(crate) use self::grid::of_seed;
use self::grid::{Grid, GridRun};
use self::measure::Measure;
use self::page::check_place;
use self::paper::Paper;
use self::plot::Plot;
use self::reader::Reader;
use self::results::State;
use crate::condensing::without_unread;
use crate::schema::SCHEMA;
use crate::training::{Request, train};
use lessen_base::{Error, Result, watcher};
use lessen_task::device::NewBackend;
use lessen_task::recipe::BUILT_IN;
use lessen_task::recipe::document::Document;
use lessen_task::recipe::settings::Settings;
use lessen_task::wording::{counted, report, tell};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

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
    grid: Grid,
    /// How images are judged, if the runs are condensations.
    evaluation: Option<Evaluation>,
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
    /// The command as it was given, for the page.
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
        let evaluation = Evaluation::read(&mut reader)?;
        let grid = Grid::read(document, &mut reader, &base)?;
        let grid = match &evaluation {
            Some(_) => grid.of_condensations(),
            None => grid,
        };
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
            .map(|table| Plot::read(table, &grid.axes));
        let experiment = Experiment {
            title,
            text,
            recipe,
            base: (recipe_alone, base),
            page,
            plots: plots.collect::<Result<_>>()?,
            grid,
            evaluation,
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

    /// Refuses names that no point and no measure has.
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

    /// Whether its runs are condensations, and not trainings.
    pub fn condenses(&self) -> bool {
        self.evaluation.is_some()
    }

    /// Takes `evaluation.KEY=VALUE` for the table `[evaluation]`; whether the assignment is one.
    ///
    /// # Errors
    /// An experiment of trainings, an unknown key, a wrong value.
    pub fn set_evaluation(&mut self, assignment: &str) -> Result<bool> {
        if !assignment.trim_start().starts_with("evaluation.") {
            return Ok(false);
        }
        let evaluation = self.evaluation.take().ok_or_else(|| {
            Error::user(format!(
                "--set {assignment}: the runs of {} are trainings; leave it out",
                self.title
            ))
        })?;
        self.evaluation = Some(evaluation.changed(assignment)?);
        Ok(true)
    }

    /// All runs with their settings.
    fn runs(&self, options: &Options<'_>) -> Result<Vec<GridRun>> {
        let names: Vec<&str> = self.grid.points.iter().map(|point| point.name.as_str()).collect();
        for name in &options.only {
            check_name("--only", "point", name, &names)?;
        }
        let runs = self.grid.runs(options.change)?;
        if !self.condenses() {
            return Ok(runs);
        }
        // Settings of all runs are no mistake where a coreset does not read them.
        let (recipe, mut all) = self.base.clone();
        (options.change)(&mut all)?;
        let changed: Vec<(String, String, String)> = recipe.changes(&all);
        let is_common = |name: &str| changed.iter().any(|(own, ..)| own == name);
        let own = |run: GridRun| {
            Ok(GridRun {
                settings: without_unread(&run.settings, &is_common)?,
                ..run
            })
        };
        runs.into_iter().map(own).collect()
    }

    /// Trains the runs that are left, one after another, and writes the page.
    ///
    /// # Errors
    /// A mistake in any run, before the first of them; a run that fails for another reason than a loss that is no
    /// number; a page that cannot be written.
    pub fn run(&self, options: &Options<'_>, new_backend: &NewBackend) -> Result<Finished> {
        let runs = self.runs(options)?;
        let mut backend = new_backend.open()?;
        let machine = machine::describe(backend.as_ref());
        let (states, defaults) = match &self.evaluation {
            Some(own) => {
                let measures = (&self.measures[..], &self.base.0);
                let states = own.check(&self.grid, &runs, measures, &options.out)?;
                (states, Measure::of_condensations(own.accuracies()))
            }
            None => {
                let (states, scores) = check(&self.grid, &runs, &self.measures, &options.out, backend.as_mut())?;
                (states, Measure::defaults(&scores))
            }
        };
        drop(backend);
        if let Some(page) = self.page_of(options) {
            check_place(page, !self.plots.is_empty())?;
        }
        if self.measures.is_empty() {
            let experiment = Experiment {
                measures: defaults,
                ..self.clone()
            };
            experiment.check_names()?;
            return experiment.run_checked((&runs, states), options, &machine, new_backend);
        }
        self.run_checked((&runs, states), options, &machine, new_backend)
    }

    /// Trains the runs that are left, of those with these states.
    fn run_checked(
        &self,
        (runs, states): (&[GridRun], Vec<State>),
        options: &Options<'_>,
        machine: &str,
        new_backend: &NewBackend,
    ) -> Result<Finished> {
        let asked = |run: &GridRun| {
            let name = &self.grid.points[run.point].name;
            options.only.is_empty() || options.only.contains(name)
        };
        let is_left = |(run, state): &(&GridRun, &State)| asked(run) && !state.is_over();
        let left = runs.iter().zip(&states).filter(is_left).count();
        report(&format!(
            "{}: {} in {}, {left} left to do",
            self.title,
            counted(runs.len() as u64, "run"),
            options.out.display()
        ));
        let mut clock = Clock::new(left);
        for (number, (run, state)) in runs.iter().zip(&states).enumerate() {
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
            if self
                .train(run, *state, options, new_backend)
                .map_err(|error| error.at(format!("the run {title}")))?
            {
                return Ok(self.stopped(&title));
            }
            clock.finished();
        }
        let is_over = |(run, state): &(&GridRun, &State)| asked(run) || state.is_over();
        let over: Vec<&GridRun> = runs.iter().zip(&states).filter(is_over).map(|(run, _)| run).collect();
        self.finish(&over, options, machine, new_backend)
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

    /// Trains or condenses; whether it was interrupted.
    fn train(&self, run: &GridRun, state: State, options: &Options<'_>, new_backend: &NewBackend) -> Result<bool> {
        let root = options.out.join(&run.folder);
        if let Some(evaluation) = &self.evaluation {
            return evaluation.run(&run.settings, &root, new_backend);
        }
        let request = match state {
            State::Broken => Request::resume(root.clone(), None, |_| Ok(()))?,
            _ => Request::new(run.settings.clone(), root.clone()),
        };
        match train(&request, new_backend) {
            Ok(report) => Ok(report.interrupted),
            // A loss that is no number is a result, too.
            Err(error) if State::of(&root) == State::Diverged => {
                tell(&format!("warning: {error}"));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
