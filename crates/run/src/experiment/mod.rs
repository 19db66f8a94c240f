//! Experiments as files: the runs of a grid, one after another, and a page with the results. `docs/experiments.md`
//! describes the keys.
//!
//! ```text
//! file ──▶ Experiment ──▶ check of every run ──▶ runs: new, resumed or skipped ──▶ records ──▶ table, claims, plots
//! ```

mod check;
mod claim;
mod clock;
mod digits;
mod grid;
mod machine;
mod measure;
mod page;
mod paper;
mod plot;
mod reader;
mod results;
mod summary;

use self::check::check;
use self::claim::{Claim, check_name, find};
use self::clock::Clock;
use self::grid::{Grid, GridRun};
use self::measure::Measure;
use self::page::{About, check_place};
use self::paper::Paper;
use self::plot::Plot;
use self::reader::Reader;
use self::results::{Record, State};
use crate::device::NewBackend;
use crate::recipe::document::Document;
use crate::recipe::settings::Settings;
use crate::recipe::{self, BUILT_IN};
use crate::training::{Request, interrupt, train};
use crate::wording::{counted, report, show_duration, tell};
use lessen_base::{Error, Result};
use serde_json::{Map, Value, json};
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
            recipe::load(&recipe)?
        } else {
            recipe::load(&folder.join(&recipe).display().to_string())?
        };
        let recipe_alone = base.clone();
        base.merge(document, &reader.table("set")?)?;
        let grid = Grid::read(document, &mut reader, &base)?;
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

    /// Trains the runs that are left, one after another, and writes the page.
    ///
    /// # Errors
    /// A mistake in any run, before the first of them; a run that fails for another reason than a loss that is no
    /// number; a page that cannot be written.
    pub fn run(&self, options: &Options<'_>, new_backend: NewBackend<'_>) -> Result<Finished> {
        let runs = self.grid.runs(options.change)?;
        let mut backend = new_backend()?;
        let machine = machine::describe(backend.target().limits().workers);
        let (states, scores) = check(&self.grid, &runs, &self.measures, &options.out, backend.as_mut())?;
        drop(backend);
        if let Some(page) = self.page_of(options) {
            check_place(page, !self.plots.is_empty())?;
        }
        if self.measures.is_empty() {
            let measures = Measure::defaults(&scores);
            let experiment = Experiment {
                measures,
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
        new_backend: NewBackend<'_>,
    ) -> Result<Finished> {
        let left = states.iter().filter(|state| !state.is_over()).count();
        report(&format!(
            "{}: {} in {}, {left} left to do",
            self.title,
            counted(runs.len() as u64, "run"),
            options.out.display()
        ));
        let mut clock = Clock::new(left);
        for (number, (run, state)) in runs.iter().zip(states).enumerate() {
            if state.is_over() {
                continue;
            }
            let title = self.grid.title(run.point, run.seed);
            if interrupt::asked() {
                return Ok(self.stopped(&title));
            }
            report(&format!(
                "run {} of {}: {title}{}",
                number + 1,
                runs.len(),
                clock.so_far()
            ));
            if self
                .train(run, state, options, new_backend)
                .map_err(|error| error.at(format!("the run {title}")))?
            {
                return Ok(self.stopped(&title));
            }
            clock.finished();
        }
        self.finish(runs, options, machine, new_backend)
    }

    /// The file of the page, if there is to be one.
    fn page_of<'p>(&'p self, options: &'p Options<'_>) -> Option<&'p Path> {
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

    /// Trains a run; whether it was interrupted.
    fn train(&self, run: &GridRun, state: State, options: &Options<'_>, new_backend: NewBackend<'_>) -> Result<bool> {
        let root = options.out.join(&run.folder);
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

    /// Collects the records of all runs and writes the page.
    fn finish(
        &self,
        runs: &[GridRun],
        options: &Options<'_>,
        machine: &str,
        new_backend: NewBackend<'_>,
    ) -> Result<Finished> {
        let wants_course = |measure: &Measure| self.plots.iter().any(|plot| plot.is_course_of(measure));
        let mut records = Vec::with_capacity(runs.len());
        let mut seconds = 0.0;
        for run in runs {
            let root = options.out.join(&run.folder);
            let own = (run.point, run.seed);
            records.push(Record::of(&root, own, &self.measures, &wants_course, new_backend)?);
            seconds += results::step_seconds(&root)?;
        }
        let (recipe, mut all) = self.base.clone();
        (options.change)(&mut all)?;
        let about = About {
            command: &options.command,
            fixed: &all.beyond(&recipe),
            machine,
            time: &format!("{} of training steps", show_duration(seconds)),
        };
        let page = self.page_of(options);
        if let Some(page) = page {
            self.write_page(page, &records, &about)?;
        }
        let judged = self.judged(&records);
        let mut text = self.table(&records);
        for (claim, found) in &judged {
            text += &format!("{}: {} ({})\n", found.verdict.word(), claim.text, found.measured);
        }
        match page {
            Some(page) => text += &format!("written to {}\n", page.display()),
            None => text += "no page is written; name its file with page in the experiment, or with --page\n",
        }
        let claims: Vec<Value> = judged.iter().map(|(claim, found)| found.to_json(&claim.text)).collect();
        let json = json!({
            "title": self.title,
            "interrupted": false,
            "page": page.map(|page| page.display().to_string()),
            "runs": runs.iter().zip(&records).map(|(run, record)| self.record_json(run, record)).collect::<Vec<_>>(),
            "table": self.table_json(&records),
            "claims": claims,
        });
        Ok(Finished {
            interrupted: false,
            json,
            text,
        })
    }

    fn record_json(&self, run: &GridRun, record: &Record) -> Value {
        let measures = self.measures.iter().zip(&record.numbers);
        let numbers: Map<String, Value> = measures
            .map(|(measure, number)| (measure.name.clone(), json!(number)))
            .collect();
        json!({
            "point": self.grid.points[record.point].name,
            "seed": record.seed,
            "folder": run.folder,
            "diverged": record.diverged,
            "measures": numbers,
        })
    }

    fn table_json(&self, records: &[Record]) -> Value {
        let row = |(index, point): (usize, &grid::Point)| {
            let cells = self.measures.iter().enumerate().map(|(number, measure)| {
                let found = results::summary(records, index, number);
                let found = found.map(|s| json!({ "mean": s.mean, "deviation": s.deviation, "runs": s.count }));
                (measure.name.clone(), json!(found))
            });
            json!({ "point": point.name, "measures": cells.collect::<Map<_, _>>() })
        };
        self.grid.points.iter().enumerate().map(row).collect()
    }
}
