//! The forecast of a run: memory and time of its training, by training phase, without running it.

mod batch_sizes;
mod choices;
mod page;
mod phase;
mod shared;
mod sweep;
mod time;

use self::batch_sizes::BatchSizes;
use self::phase::{PhaseAdditions, PhaseForecast};
pub use self::shared::Sharing;
use crate::job::Request;
use crate::job::processes::in_groups;
use crate::planning::account::Account;
use crate::planning::budget_search::too_small;
use crate::planning::joined::joined_after;
use crate::planning::memory_watch::MemoryWatch;
use crate::planning::phase_work::{PhaseBatches, PhaseWork};
use crate::planning::process_baseline::{ProcessBaseline, ProcessStart};
use crate::planning::steps::Steps;
use lessen_base::atomic::write_file;
use lessen_base::word::Word;
use lessen_base::{Error, Result, allocated};
use lessen_comm::{Group, part};
use lessen_compile::Plan;
use lessen_nn::Joined;
use lessen_task::CheckedTask;
use lessen_task::device::NewBackend;
use lessen_task::recipe::phases::{Recipe, in_phase_of};
use lessen_task::recipe::settings::Settings;
use lessen_task::shared_data::SharedData;
use lessen_task::sources::sources_of;
use lessen_train::{TrainerOptions, show_size};
use serde_json::{Value, json};
use std::path::Path;

/// Additions to the forecast of the plans under the recipe's budget.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Whether memory and time of a step under budgets from the floor to none are added.
    pub sweep: bool,
    /// Batch sizes for which memory and time of a step are added.
    pub batches: Vec<usize>,
    /// Processes that share the training.
    pub sharing: Option<Sharing>,
}

/// Memory and time of a recipe's training: a forecast for each training phase.
pub struct Forecast {
    phases: Vec<PhaseForecast>,
    batch_sizes: Option<BatchSizes>,
}

impl Forecast {
    /// Plans a recipe under its budget, as training does, and the additions in `beside`. Without data it assumes the
    /// recipe's `model.vocab` and `model.classes`.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake; batch sizes for a recipe without a single one.
    pub fn new(settings: Settings, beside: &Additions, new_backend: &NewBackend) -> Result<Forecast> {
        Forecast::on(settings, &SharedData::default(), beside, new_backend)
    }

    /// Plans the training that is asked for, on the data in memory that it has, as [`Forecast::new`] does.
    ///
    /// # Errors
    /// As [`Forecast::new`].
    pub fn of_request(request: &Request, beside: &Additions, new_backend: &NewBackend) -> Result<Forecast> {
        Forecast::on(request.settings.clone(), &request.shared, beside, new_backend)
    }

    fn on(settings: Settings, shared: &SharedData, beside: &Additions, new_backend: &NewBackend) -> Result<Forecast> {
        let processes = beside.sharing.map_or(1, |sharing| sharing.processes);
        let settings = in_groups(settings, processes)?;
        let recipe = Recipe::new(settings.clone())?;
        let start = ProcessStart::measure();
        let asked = PhaseAdditions {
            sweep: beside.sweep,
            sharing: beside.sharing,
            ..PhaseAdditions::default()
        };
        let forecast = Forecast::of_recipe((recipe, shared), asked, start, new_backend)?;
        let batch_sizes = if beside.batches.is_empty() {
            None
        } else {
            Some(BatchSizes::new(
                (&settings, shared),
                &beside.batches,
                start,
                new_backend,
            )?)
        };
        Ok(Forecast {
            batch_sizes,
            ..forecast
        })
    }

    /// Plans a recipe with these additions, as in a process that is still as it was at its start.
    fn of_recipe(
        (recipe, shared): (Recipe, &SharedData),
        asked: PhaseAdditions,
        start: Option<ProcessStart>,
        new_backend: &NewBackend,
    ) -> Result<Forecast> {
        let now = MemoryWatch::begin().start();
        let start = now.zip(start).map(|(now, start)| now.without_since(start));
        let tasks = tasks(recipe, shared)?;
        let sources = if tasks[0].has_data() {
            Some(sources_of(&tasks)?)
        } else {
            None
        };
        let (mut joined, mut batches, mut begun) = (Joined::new(), 0u64, 0u64);
        let mut prepared = Vec::with_capacity(tasks.len());
        for (number, task) in tasks.iter().enumerate() {
            if let Some(before) = number.checked_sub(1) {
                // The step at which a parameter joins changes the name of an input, but no bytes.
                joined = joined_after(&joined, &tasks[before], task, number as u64);
            }
            let options = TrainerOptions {
                joined: joined.clone(),
                group: asked.sharing.map_or(Group::alone(), |sharing| busiest(task, sharing)),
                ..task.options(1)
            };
            options.check().map_err(|error| in_phase_of(task.config(), error))?;
            let batches = sources.as_ref().map(|sources| {
                let own = &sources[number];
                let steps = Steps::of(&task.config().train, own.training.as_ref());
                let end = batches.saturating_add(steps.batches);
                let found = PhaseBatches::of(own, batches..end, task, begun);
                (batches, begun) = (end, begun.saturating_add(steps.total));
                found
            });
            let shapes = match &batches {
                Some(PhaseBatches {
                    sources: own, range, ..
                }) => task.shapes_of(own.training.as_ref(), own.dev.as_ref(), range.clone()),
                None => task.assumed_shapes(),
            };
            prepared.push((task, options, shapes, batches));
        }
        let mut backend = new_backend.open()?;
        let baseline = ProcessBaseline::measure(start, backend.as_mut())?;
        let (mut phases, mut later_plans) = (Vec::with_capacity(tasks.len()), 0);
        for (task, options, shapes, batches) in prepared.into_iter().rev() {
            let work = PhaseWork {
                task,
                options: &options,
                shapes,
                batches,
            };
            let (forecast, growth) =
                allocated::growth(|| PhaseForecast::new(work, asked, (baseline, later_plans), backend.as_mut()));
            phases.push(forecast.map_err(|error| in_phase_of(task.config(), error))?);
            later_plans += growth.lasting;
        }
        phases.reverse();
        Ok(Forecast {
            phases,
            batch_sizes: None,
        })
    }

    /// The plan of a training step, of the training phase called `phase` where there are several.
    ///
    /// # Errors
    /// A training phase that the recipe does not have, or none where it has some.
    pub fn step(&self, phase: Option<&str>) -> Result<&Plan> {
        let found = self
            .phases
            .iter()
            .find(|forecast| forecast.config.phase.as_deref() == phase);
        found.map(|forecast| &forecast.plans.step).ok_or_else(|| {
            let names = self
                .phases
                .iter()
                .filter_map(|forecast| forecast.config.phase.as_deref());
            let names: Vec<&str> = names.collect();
            Error::user(match (phase, names.is_empty()) {
                (Some(name), true) => format!("the recipe has no phases; leave out --phase {name}"),
                (Some(name), false) => {
                    format!(
                        "there is no phase '{name}'; name one of {} with --phase",
                        names.join(", ")
                    )
                }
                (None, _) => format!("the recipe has phases; name one of {} with --phase", names.join(", ")),
            })
        })
    }

    /// The error of the first training phase whose budget is below its floor; none where another batch size fits.
    pub fn shortfall(&self) -> Option<Error> {
        if self.batch_sizes.as_ref().is_some_and(|sizes| sizes.best().is_some()) {
            return None;
        }
        let short = self.phases.iter().find(|forecast| forecast.chosen.is_none())?;
        let error = too_small(short.budget.unwrap_or_default(), &short.floor, &short.remedy);
        Some(in_phase_of(&short.config, error))
    }

    /// A self-contained page of HTML: memory over the plan steps, the largest values, the choices, and the additions.
    pub fn to_html(&self) -> String {
        page::page(self)
    }

    /// Writes the page.
    ///
    /// # Errors
    /// A file that cannot be written to.
    pub fn write_html(&self, path: &Path) -> Result<()> {
        write_file(path, self.to_html().as_bytes())
    }

    /// One JSON object; with phases, the greatest numbers of any training phase, and an object for each.
    pub fn to_json(&self) -> Value {
        let mut object = match &self.phases[..] {
            [single] if single.config.phase.is_none() => single.to_json(),
            _ => self.phases_to_json(),
        };
        if let Some(sizes) = &self.batch_sizes {
            object["batches"] = sizes.to_json();
            object["batches_cost"] = json!(sizes.cost.word());
            object["best_batch"] = json!(sizes.best());
        }
        object
    }

    fn phases_to_json(&self) -> Value {
        let most = |of: fn(&PhaseForecast) -> Option<usize>| {
            let all: Option<Vec<usize>> = self.phases.iter().map(of).collect();
            all.and_then(|all| all.into_iter().max())
        };
        let peak = most(|forecast| forecast.chosen.as_ref().map(Account::total));
        let slowest: Option<Vec<f64>> = self.phases.iter().map(PhaseForecast::step_ms).collect();
        let slowest = slowest.and_then(|all| all.into_iter().reduce(f64::max));
        json!({
            "recipe": self.phases[0].config.recipe(),
            "feasible": peak.is_some(),
            "budget_bytes": self.phases[0].budget,
            "peak_bytes": peak,
            "plans_bytes": most(|forecast| forecast.chosen.as_ref().map(Account::plans)),
            "floor_bytes": most(|forecast| Some(forecast.floor.smallest_budget())),
            "unbounded_bytes": most(|forecast| Some(forecast.unbounded.total())),
            "cost": self.phases[0].cost.word(),
            "estimated_step_ms": slowest,
            "phases": self.phases.iter().map(PhaseForecast::to_json).collect::<Vec<_>>(),
        })
    }

    /// Plain text.
    pub fn to_text(&self) -> String {
        let mut texts: Vec<String> = self.phases.iter().map(PhaseForecast::to_text).collect();
        let peaks: Option<Vec<usize>> = self
            .phases
            .iter()
            .map(|forecast| Some(forecast.chosen.as_ref()?.total()))
            .collect();
        match peaks.and_then(|peaks| peaks.into_iter().max()) {
            Some(peak) if texts.len() > 1 => texts.push(format!("peak memory of all phases {}\n", show_size(peak))),
            _ => {}
        }
        texts.extend(self.batch_sizes.as_ref().map(BatchSizes::to_text));
        texts.join("\n")
    }
}

/// The process that computes most groups.
fn busiest(task: &CheckedTask, Sharing { processes, network }: Sharing) -> Group {
    let ranks = task.config().train.ranks.max(1);
    let most = (0..processes).max_by_key(|rank| part(ranks, processes, *rank).len());
    Group::planned(most.unwrap_or(0), processes, network)
}

/// The tasks of all training phases.
fn tasks(recipe: Recipe, shared: &SharedData) -> Result<Vec<CheckedTask>> {
    let mut tasks: Vec<CheckedTask> = Vec::with_capacity(recipe.phases.len());
    for config in recipe.phases {
        let place = config.clone();
        let task = match tasks.last() {
            Some(before) => before.later(config),
            None => CheckedTask::assemble_on(config, None, shared),
        };
        tasks.push(task.map_err(|error| in_phase_of(&place, error))?);
    }
    Ok(tasks)
}
