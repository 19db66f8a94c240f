//! Runs of an experiment that are condensations: images are made, and judged by networks that learn from them.
//!
//! A folder of condensed images gets a file more, `evaluation.json`, with the accuracies after some of its iterations.

use super::evaluation::{Evaluation, TABLE};
use super::follows::Follows;
use super::grid::GridRun;
use super::judgements::{JUDGEMENTS, Judgements, Stage};
use super::measure::{ACCURACY, DISTANCE, ITERATION_TIME, Measure, Moment, PEAK, RELATIVE};
use super::reader::Reader;
use super::results::{Reading, State, read_json};
use super::runs::{Left, Place, Plan, Runs, check_read, other_setting};
use crate::condensing::{
    CondenseKeys, CondensedFolder, EvaluationRequest, check, condense, evaluate_condensed, evaluate_whole,
    without_unread,
};
use crate::job::{CONDENSATION, Request};
use crate::schema::is_read;
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result, watcher};
use lessen_condense::TrainingSettings;
use lessen_device::Backend;
use lessen_task::device::NewBackend;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::{Origin, SettingValue};
use lessen_task::wording::{show_duration, tell};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The key that takes the seeds.
const SEED: &str = "condense.seed";

/// The key of the number of outer iterations.
const ITERATIONS: &str = "condense.iterations";

/// Settings in which a folder may differ from the experiment: more iterations go on from the last ones.
const FREE: [&str; 3] = [ITERATIONS, "data.held_out", "condense.checkpoint_minutes"];

/// The file of the accuracies after whole training splits in the folder of an experiment.
const WHOLE: &str = "whole.json";

impl Runs for Evaluation {
    fn noun(&self) -> &'static str {
        "condensations"
    }

    fn seed_key(&self) -> &'static str {
        SEED
    }

    fn table(&self) -> Option<&'static str> {
        Some(TABLE)
    }

    fn with(&self, table: Reader<'_, '_>) -> Result<Arc<dyn Runs>> {
        Ok(Arc::new(self.clone().overlaid(table)?))
    }

    fn without_unread(&self, settings: Settings, is_common: &dyn Fn(&str) -> bool) -> Result<Settings> {
        without_unread(&settings, is_common)
    }

    fn more_settings(&self, _: &Follows) -> BTreeMap<String, String> {
        let own = self.resolved().into_iter();
        own.map(|(name, value)| (format!("{TABLE}.{name}"), value)).collect()
    }

    /// Refuses images that were judged in another way, too.
    fn check(&self, plan: &Plan<'_>, _: &mut dyn Backend) -> Result<(Vec<State>, Vec<Measure>)> {
        let mut read = None;
        let mut states = Vec::with_capacity(plan.runs.len());
        let mut last = 0;
        for run in plan.runs {
            let in_run = plan.in_run(run);
            let is_own = |name: &str| is_read("condense", name);
            check_read((plan.recipe, &run.settings), &is_own, "condensation").map_err(in_run)?;
            let (config, iterations) = check(&run.settings, &mut read).map_err(in_run)?;
            let iterations = iterations.ok_or_else(|| {
                in_run(Error::user(format!(
                    "the number of iterations is not said, and runs that fill a time are not to be compared; set \
                     {ITERATIONS}"
                )))
            })?;
            last = last.max(iterations);
            if let (Some(most), true) = (self.at.last(), iterations > 0)
                && *most > iterations
            {
                return Err(in_run(Error::user(format!(
                    "evaluation.at has {most}, and {}; leave it out",
                    config.place(ITERATIONS)
                ))));
            }
            states.push(self.state(&plan.out.join(&run.folder), (&config, iterations))?);
        }
        if let (Some(_), [_, ..]) = (self.whole, &self.targets[..]) {
            return Err(Error::user(
                "evaluation.whole is of the network that was matched, and evaluation.network names others; leave one of \
                 them out",
            ));
        }
        for measure in plan.measures {
            self.check_measure(measure, last)?;
        }
        Ok((states, Measure::of_condensations(self.accuracies())))
    }

    /// Makes the images of a run and judges them. A distance that is not finite is a result.
    fn run(&self, run: &GridRun, place: &Place<'_>) -> Result<bool> {
        self.condense_in(&place.out.join(&run.folder), &run.settings, place.new_backend)
    }

    /// Reads what a run has left; the accuracy after the whole training split is measured where it is asked for.
    fn left(&self, run: &GridRun, place: &Place<'_>, reading: &Reading<'_>) -> Result<Left> {
        let whole = self.whole(run, place)?;
        let root = place.out.join(&run.folder);
        let accuracy = whole.as_ref().map(|(_, accuracy)| *accuracy);
        Ok(Left {
            records: self.records((&root, run), accuracy, reading)?,
            seconds: Some(Evaluation::seconds(&root)?),
            note: whole.map(|(of, accuracy)| {
                let line = format!("Whole training split: {:.2} % by one network ({of})", 100.0 * accuracy);
                (of, line)
            }),
        })
    }

    fn has_networks(&self) -> bool {
        true
    }

    fn counted(&self) -> &'static str {
        "sets of images made"
    }

    fn told_time(&self, [made, judged]: [f64; 2]) -> String {
        format!("{}, judged in {}", show_duration(made), show_duration(judged))
    }

    fn told(&self) -> Option<String> {
        Some(format!("Evaluation: {}", self.in_words()))
    }

    fn about_cells(&self, seeds: &str) -> Option<String> {
        Some(format!(
            "A cell is the mean over sets of images (seeds {seeds}) and the networks that learned from each ± the standard \
             deviation of a network (n - 1), as tables of papers have it, and in brackets the number of networks; of \
             numbers of the images it is the number of sets. Networks of one set share its images, so they are not \
             independent. A deviation has two digits and its mean as many places, unless the file says `digits`."
        ))
    }
}

impl Evaluation {
    /// Refuses a measure that no run has; the longest one has `last` iterations.
    fn check_measure(&self, measure: &Measure, last: usize) -> Result<()> {
        let name = &measure.name;
        if measure.phase.is_some() || measure.length.is_some() {
            return Err(Error::user(format!(
                "the measure {name} has a phase or a length, which condensations do not have; leave them out"
            )));
        }
        let relative = self.whole.map(|_| RELATIVE.to_string());
        let own = [DISTANCE, ITERATION_TIME, PEAK].map(str::to_string);
        let known: Vec<String> = self.accuracies().into_iter().chain(relative).chain(own).collect();
        if !known.contains(&measure.value) {
            let known = known.join(", ");
            return Err(Error::user(format!(
                "the measure {name} has the value '{}', which condensations do not record; there are {known}",
                measure.value
            )));
        }
        match measure.at {
            Moment::Step(step) if measure.value.starts_with(ACCURACY) && !self.is_judged(step, last) => {
                Err(Error::user(format!(
                    "the measure {name} is after iteration {step}, when no image is judged; name it in evaluation.at"
                )))
            }
            _ => Ok(()),
        }
    }

    fn is_judged(&self, step: u64, last: usize) -> bool {
        usize::try_from(step).is_ok_and(|step| step == last || self.at.contains(&step))
    }

    /// The numbers of iterations after which the images of a run are judged.
    fn stages(&self, iterations: usize) -> Vec<usize> {
        let before = self.at.iter().copied().filter(|at| *at < iterations);
        before.chain([iterations]).collect()
    }

    /// How far the run in a folder has got.
    fn state(&self, root: &Path, (config, iterations): (&Config, usize)) -> Result<State> {
        if !CondensedFolder::is_at(root) {
            lessen_task::folder::check_free(root)?;
            return Ok(State::New);
        }
        let folder = CondensedFolder::open(root)?;
        let found = folder.settings()?;
        if let Some(change) = found.difference(&config.settings, &FREE) {
            let subject = format!("the images in {} have", root.display());
            return Err(other_setting(&subject, &change));
        }
        if State::has_diverged(root) {
            return Ok(State::Diverged);
        }
        let evaluated = Judgements::read(root)?;
        let wanted = self.resolved();
        let differs = |(name, value): &(&String, &String)| evaluated.settings.get(*name) != Some(value);
        if let (false, Some((name, value))) = (evaluated.stages.is_empty(), wanted.iter().find(differs)) {
            let remedy = if self.at.is_empty() {
                format!("remove the file {JUDGEMENTS} there, so that they are judged anew")
            } else {
                "remove that folder, or name another for the experiment with --out".to_string()
            };
            return Err(Error::user(format!(
                "the images in {} were judged with evaluation.{name} = {}, and the experiment says {value}; {remedy}",
                root.display(),
                evaluated.settings.get(name).map_or("nothing", String::as_str)
            )));
        }
        let stages = self.stages(iterations);
        let mut missing = stages.into_iter().filter(|stage| !evaluated.has(*stage));
        let Some(first) = missing.next() else {
            return Ok(State::Finished);
        };
        let done = if folder.has_manifest() {
            folder.manifest()?.done
        } else {
            0
        };
        if done > first {
            return Err(Error::user(format!(
                "the images in {} are those after {done} iterations, and those after {first} were not judged; remove that \
                 folder, or let the experiment have no such number in evaluation.at and {ITERATIONS}",
                root.display()
            )));
        }
        Ok(State::Broken)
    }

    /// Makes the images of a run and judges them; whether it was interrupted.
    ///
    /// # Errors
    /// What condensations and evaluations refuse, but for a distance that is not finite.
    fn condense_in(&self, root: &Path, settings: &Settings, new_backend: &NewBackend) -> Result<bool> {
        let mut evaluated = Judgements {
            settings: self.resolved(),
            ..Judgements::read(root)?
        };
        let (config, iterations) = check(settings, &mut None)?;
        for stage in self.stages(iterations.unwrap_or(0)) {
            if evaluated.has(stage) {
                continue;
            }
            match condense(&stage_of(settings, root, stage)?, new_backend) {
                Ok(report) if report.interrupted => return Ok(true),
                Ok(_) => {}
                Err(error) if State::has_diverged(root) => {
                    tell(&format!("warning: {error}"));
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
            let begun = Instant::now();
            let request = self.request(root, seed_of(settings), config.run.budget);
            let found = match evaluate_condensed(&request, new_backend) {
                Err(_) if watcher::current().stops() => return Ok(true),
                found => found?,
            };
            let networks = found.networks.into_iter().map(|network| network.networks);
            evaluated.stages.push(Stage {
                iterations: stage,
                accuracies: self.accuracies().into_iter().zip(networks).collect(),
            });
            evaluated.seconds += begun.elapsed().as_secs_f64();
            evaluated.write(root)?;
        }
        Ok(false)
    }

    fn request(&self, root: &Path, seed: u64, budget: Option<usize>) -> EvaluationRequest {
        EvaluationRequest {
            folders: vec![root.to_path_buf()],
            data: None,
            networks: self.targets.clone(),
            count: self.networks,
            epochs: self.epochs,
            rate: self.rate,
            augmentation: self.augmentation,
            precision: self.precision,
            whole_epochs: None,
            budget,
            seed,
        }
    }

    /// What was trained on the whole training split of a run, and its accuracy, where it is asked for. It is measured
    /// once and kept in the folder of the experiment.
    ///
    /// # Errors
    /// What evaluations refuse.
    fn whole(&self, run: &GridRun, place: &Place<'_>) -> Result<Option<(String, f64)>> {
        let Some(epochs) = self.whole else { return Ok(None) };
        let path = place.out.join(WHOLE);
        let mut known: BTreeMap<String, f64> = match path.is_file() {
            true => serde_json::from_value(read_json(&path)?).unwrap_or_default(),
            false => BTreeMap::new(),
        };
        let config = Config::new(run.settings.clone().with_absolute_paths())?;
        let training = TrainingSettings {
            epochs: Some(epochs),
            precision: self.precision,
            rate: self.rate.unwrap_or(TrainingSettings::default().rate),
            ..TrainingSettings::default()
        };
        let name = self.name_of_whole(&config, epochs)?;
        if let Some(accuracy) = known.get(&name) {
            return Ok(Some((name, *accuracy)));
        }
        let accuracy = evaluate_whole(&config, (training, self.augmentation), place.new_backend)?;
        known.insert(name.clone(), accuracy);
        write_file(&path, format!("{}\n", json!(known)).as_bytes())?;
        Ok(Some((name, accuracy)))
    }

    /// A training on a whole split in words.
    fn name_of_whole(&self, config: &Config, epochs: usize) -> Result<String> {
        let keys = config.settings.section::<CondenseKeys>()?;
        let network = keys.network.map_or("convnet-3", |network| network.name());
        let sizes = [("width", keys.width), ("depth", keys.depth)];
        let sizes = sizes
            .into_iter()
            .filter_map(|(name, size)| Some(format!(" {name} {}", size?)));
        let sizes: String = sizes.collect();
        let data = config.data.path.as_deref().and_then(Path::file_name);
        let data = data.map_or("data".into(), |name| name.to_string_lossy());
        let resolved = self.resolved();
        let rate = self
            .rate
            .map_or_else(String::new, |rate| format!(", learning rate {rate}"));
        Ok(format!(
            "{network}{sizes} on {data}, {epochs} epochs, augmentation {}, {}{rate}",
            resolved["augment"], resolved["precision"]
        ))
    }
}

/// The condensation of a run up to a number of iterations: a new one, or one that goes on.
fn stage_of(settings: &Settings, root: &Path, stage: usize) -> Result<Request> {
    let up_to = |settings: &mut Settings| match stage {
        0 => Ok(()),
        _ => settings.set_at(
            ITERATIONS,
            SettingValue::Count(stage as u64),
            Origin::Flag("evaluation.at".to_string()),
        ),
    };
    if CondensedFolder::is_at(root) {
        return Request::resume_job(CONDENSATION, root.to_path_buf(), None, up_to);
    }
    let mut settings = settings.clone();
    up_to(&mut settings)?;
    Ok(Request::new(settings, PathBuf::from(root)))
}

/// The seed of the images, which is that of the networks as well.
fn seed_of(settings: &Settings) -> u64 {
    match settings.get(SEED) {
        Some(SettingValue::Count(seed)) => *seed,
        _ => 1,
    }
}
