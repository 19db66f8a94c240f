//! The forecast of a run: what its training would take, phase by phase, without running it.

use crate::device::NewBackend;
use crate::recipe::config::Config;
use crate::recipe::phases::{Recipe, in_phase};
use crate::recipe::words::Word;
use crate::task::{RunTask, Shapes};
use crate::training::Steps;
use crate::training::account::{Account, Parts};
use crate::training::planner::{Base, Planner, too_small};
use crate::training::stage::{in_place, joined_after, sources_of};
use crate::training::work::{Batches, Work};
use crate::wording::counted;
use lessen_base::{Error, Result, allocated};
use lessen_compile::passes::Packed;
use lessen_compile::{Backend, Plan};
use lessen_nn::{BatchShape, Joined};
use lessen_train::{StepPlans, TrainerOptions, show_size};
use serde_json::{Value, json};

/// Values in the list of the largest.
const LARGEST: usize = 12;

/// What the training of a recipe would take: a forecast for each phase.
pub struct Forecast {
    phases: Vec<PhaseForecast>,
}

impl Forecast {
    /// Plans a recipe for a device, under the recipe's budget, as training does. Without data it assumes the recipe's
    /// `model.vocab` and `model.classes`.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake.
    pub fn new(recipe: Recipe, new_backend: NewBackend<'_>) -> Result<Forecast> {
        let account = Account::watch();
        let tasks = tasks(recipe)?;
        let sources = match tasks[0].has_data() {
            true => Some(sources_of(&tasks)?),
            false => None,
        };
        let (mut joined, mut batches, mut begun) = (Joined::new(), 0u64, 0u64);
        let mut prepared = Vec::with_capacity(tasks.len());
        for (number, task) in tasks.iter().enumerate() {
            if let Some(before) = number.checked_sub(1) {
                // When a parameter joins changes the name of an input, but no bytes.
                joined = joined_after(&joined, &tasks[before], task, number as u64);
            }
            let options = TrainerOptions {
                joined: joined.clone(),
                ..task.options(1)
            };
            let batches = sources.as_ref().map(|sources| {
                let own = &sources[number];
                let steps = Steps::of(&task.config.train, own.training.as_ref());
                let end = batches.saturating_add(steps.batches);
                let found = Batches::of(own, batches..end, task, begun);
                (batches, begun) = (end, begun.saturating_add(steps.total));
                found
            });
            let shapes = match &batches {
                Some(Batches {
                    sources: own, range, ..
                }) => Shapes::of(task, own.training.as_ref(), own.dev.as_ref(), range.clone()),
                None => Shapes::assumed(task),
            };
            prepared.push((task, options, shapes, batches));
        }
        let mut backend = new_backend()?;
        let base = Base::of(account.start(), backend.as_mut())?;
        let (mut phases, mut waiting) = (Vec::with_capacity(tasks.len()), 0);
        for (task, options, shapes, batches) in prepared.into_iter().rev() {
            let work = Work {
                task,
                options: &options,
                shapes,
                batches,
            };
            let (forecast, growth) = allocated::growth(|| PhaseForecast::new(work, (base, waiting), backend.as_mut()));
            phases.push(forecast.map_err(|error| in_place(&task.config, error))?);
            waiting += growth.lasting;
        }
        phases.reverse();
        Ok(Forecast { phases })
    }

    /// The plan of a training step, of this phase where there are several.
    ///
    /// # Errors
    /// A phase that the recipe does not have, or none where it has some.
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

    /// The error of the first phase whose budget is below its floor.
    pub fn shortfall(&self) -> Option<Error> {
        let short = self.phases.iter().find(|forecast| forecast.chosen.is_none())?;
        let error = too_small(short.budget.unwrap_or_default(), &short.floor);
        Some(in_place(&short.config, error))
    }

    /// One JSON object; with phases, the most that any of them takes, and an object for each.
    pub fn to_json(&self) -> Value {
        if let [single] = &self.phases[..]
            && single.config.phase.is_none()
        {
            return single.to_json();
        }
        let most = |of: fn(&PhaseForecast) -> Option<usize>| {
            let all: Option<Vec<usize>> = self.phases.iter().map(of).collect();
            all.and_then(|all| all.into_iter().max())
        };
        let peak = most(|forecast| forecast.chosen.as_ref().map(Parts::total));
        json!({
            "recipe": self.phases[0].config.recipe(),
            "feasible": peak.is_some(),
            "budget_bytes": self.phases[0].budget,
            "peak_bytes": peak,
            "plans_bytes": most(|forecast| forecast.chosen.as_ref().map(Parts::plans)),
            "floor_bytes": most(|forecast| Some(forecast.floor.smallest_budget())),
            "unbounded_bytes": most(|forecast| Some(forecast.unbounded.total())),
            "phases": self.phases.iter().map(PhaseForecast::to_json).collect::<Vec<_>>(),
        })
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let texts: Vec<String> = self.phases.iter().map(PhaseForecast::to_text).collect();
        let peaks: Option<Vec<usize>> = self
            .phases
            .iter()
            .map(|forecast| Some(forecast.chosen.as_ref()?.total()))
            .collect();
        let whole = match peaks.and_then(|peaks| peaks.into_iter().max()) {
            Some(peak) if texts.len() > 1 => format!("\npeak memory of all phases {}\n", show_size(peak)),
            _ => String::new(),
        };
        format!("{}{whole}", texts.join("\n"))
    }
}

/// What the training of a phase would take.
struct PhaseForecast {
    config: Config,
    parameters: usize,
    shape: BatchShape,
    budget: Option<usize>,
    floor: Parts,
    unbounded: Parts,
    /// None where the budget is below the floor.
    chosen: Option<Parts>,
    /// The plans that were chosen, or else those without a budget.
    plans: StepPlans,
}

impl PhaseForecast {
    /// Plans a phase beside what the process has allocated and plans of so many bytes.
    fn new(work: Work<'_>, beside: (Base, usize), backend: &mut dyn Backend) -> Result<PhaseForecast> {
        let (config, shape) = (work.task.config.clone(), work.shapes.train);
        let budget = config.run.budget;
        let mut planner = Planner::new(backend, beside, work)?;
        let unbounded = planner.free()?.parts;
        let floor = planner.least()?;
        let within = budget.map(|budget| planner.within(budget)).transpose()?;
        let chosen = match within {
            Some(Ok(planned)) => Some(planned),
            Some(Err(_)) => None,
            None => Some(planner.free()?),
        };
        let (chosen, plans) = match chosen {
            Some(planned) => (Some(planned.parts), planned.plans),
            None => (None, planner.free()?.plans),
        };
        let sizes = plans.params.iter().map(|param| param.shape.iter().product::<usize>());
        Ok(PhaseForecast {
            parameters: sizes.sum(),
            config,
            shape,
            budget,
            floor,
            unbounded,
            chosen,
            plans,
        })
    }

    fn placement(&self) -> &'static str {
        self.config.placement.word()
    }

    /// One JSON object. Cost counts floating-point operations.
    fn to_json(&self) -> Value {
        let plans = &self.plans;
        let recomputed = plans.step.recomputed().iter().map(|choice| {
            let cost = json!(choice.flops);
            json!({ "value": choice.name, "bytes": choice.bytes, "way": "recompute", "cost": cost, "error": 0 })
        });
        let packed = plans.step.packed().iter().map(|choice| {
            let (bytes, kept) = (choice.freed, choice.bytes);
            json!({ "value": choice.name, "bytes": bytes, "kept": kept, "way": "bits", "cost": 0.0, "error": 0 })
        });
        let choices: Vec<Value> = recomputed.chain(packed).collect();
        let largest: Vec<Value> = plans
            .step
            .largest(LARGEST)
            .into_iter()
            .map(|row| {
                let (ty, first, last) = (row.ty.to_string(), row.first_step, row.last_step);
                json!({ "name": row.name, "type": ty, "bytes": row.bytes, "first_step": first, "last_step": last })
            })
            .collect();
        let mut object = json!({
            "recipe": self.config.recipe(),
            "feasible": self.chosen.is_some(),
            "budget_bytes": self.budget,
            "peak_bytes": self.chosen.as_ref().map(Parts::total),
            "account_bytes": self.chosen.map(Parts::to_json),
            "plans_bytes": self.chosen.as_ref().map(Parts::plans),
            "floor_bytes": self.floor.smallest_budget(),
            "unbounded_bytes": self.unbounded.total(),
            "state_bytes": plans.state_bytes(),
            "arena_bytes": plans.arena_bytes(),
            "parameters": self.parameters,
            "batch": self.config.train.batch,
            "tokens": self.tokens(),
            "steps_in_schedule": plans.step.steps().len(),
            "compile_ms": plans.compile_time().as_secs_f64() * 1e3,
            "update_placement": self.placement(),
            "choices": choices,
            "reference_nodes": plans.step.reference_names(),
            "largest": largest,
        });
        if let Some(phase) = &self.config.phase {
            object["phase"] = json!(phase);
        }
        object
    }

    /// Tokens of the largest batch; none of images.
    fn tokens(&self) -> Option<usize> {
        match self.shape {
            BatchShape::Images { .. } => None,
            shape => Some(shape.tokens().iter().product()),
        }
    }

    /// What the largest batch holds, for people.
    fn batch(&self) -> String {
        let size = self.shape.size();
        match self.shape {
            BatchShape::Images {
                image: [rows, columns, _],
                ..
            } => format!("{size} images of {rows} x {columns}"),
            shape => format!("{size}, up to {} tokens", shape.tokens().iter().product::<usize>()),
        }
    }

    /// For people.
    fn to_text(&self) -> String {
        let plans = &self.plans;
        let phase = self.config.phase.as_ref().map(|name| format!(", {}", in_phase(name)));
        let mut text = format!(
            "{}{}: {} parameters, batches of {}, updates {}\n",
            self.config.recipe(),
            phase.unwrap_or_default(),
            self.parameters,
            self.batch(),
            self.placement()
        );
        match (self.budget, &self.chosen) {
            (Some(budget), None) => {
                let (budget, floor) = (show_size(budget), show_size(self.floor.smallest_budget()));
                text += &format!("not feasible: the budget of {budget} is below the floor of {floor}\n");
            }
            (_, Some(chosen)) => {
                text += &format!("peak memory   {:>10}\n", show_size(chosen.total()));
                for (name, bytes) in chosen.named() {
                    let shown = bytes.map_or("not counted: the recipe names none".to_string(), show_size);
                    text += &format!("  {name:<11} {shown:>10}\n");
                }
            }
            (None, None) => {}
        }
        for (name, parts) in [
            ("floor", self.floor.smallest_budget()),
            ("no budget", self.unbounded.total()),
        ] {
            text += &format!("{name:<13} {:>10}\n", show_size(parts));
        }
        let recomputed: usize = plans.step.recomputed().iter().map(|choice| choice.bytes).sum();
        text += &format!(
            "recomputed    {:>10} in {}\n",
            show_size(recomputed),
            counted(plans.step.recomputed().len() as u64, "value")
        );
        let packed = plans.step.packed();
        if !packed.is_empty() {
            let sum = |bytes: fn(&Packed) -> usize| show_size(packed.iter().map(bytes).sum());
            text += &format!(
                "kept as bits  {:>10} instead of {} in {}\n",
                sum(|choice| choice.bytes),
                sum(|choice| choice.freed),
                counted(packed.len() as u64, "value")
            );
        }
        for name in plans.step.reference_names() {
            text += &format!(
                "slow: {name} runs by its reference evaluation, since the device has no kernel for its types\n"
            );
        }
        text += &format!("compiled in {:.1} ms\n", plans.compile_time().as_secs_f64() * 1e3);
        text += &format!("\nthe largest values of {} steps\n", plans.step.steps().len());
        text += &format!("{:>10}  {:>9}  {:<22} value\n", "size", "steps", "type");
        for row in plans.step.largest(LARGEST) {
            let lifetime = format!("{}..{}", row.first_step, row.last_step);
            let ty = row.ty.to_string();
            text += &format!("{:>10}  {lifetime:>9}  {ty:<22} {}\n", show_size(row.bytes), row.name);
        }
        text
    }
}

/// The tasks of all phases.
fn tasks(recipe: Recipe) -> Result<Vec<RunTask>> {
    let mut tasks: Vec<RunTask> = Vec::with_capacity(recipe.phases.len());
    for config in recipe.phases {
        let place = config.clone();
        let task = match tasks.last() {
            Some(before) => before.later(config),
            None => RunTask::assemble(config, None),
        };
        tasks.push(task.map_err(|error| in_place(&place, error))?);
    }
    Ok(tasks)
}
