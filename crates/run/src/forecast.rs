//! The forecast of a run: what its training would take, phase by phase, without running it.

use crate::recipe::config::Config;
use crate::recipe::phases::{Recipe, in_phase};
use crate::recipe::words::Word;
use crate::task::RunTask;
use crate::training::stage::{in_place, joined_after};
use crate::wording::counted;
use lessen_base::{Error, Result};
use lessen_compile::passes::Packed;
use lessen_compile::{Backend, Plan};
use lessen_nn::{BatchShape, Joined};
use lessen_train::{StepPlans, TrainerOptions, below_floor, show_size};
use serde_json::{Value, json};

/// Values in the list of the largest.
const LARGEST: usize = 12;

/// What the training of a recipe would take: a forecast for each phase.
pub struct Forecast {
    phases: Vec<PhaseForecast>,
}

impl Forecast {
    /// Plans a recipe for a device, under the recipe's budget. Without data it assumes the recipe's `model.vocab` and
    /// `model.classes`.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake.
    pub fn new(recipe: Recipe, backend: &dyn Backend) -> Result<Forecast> {
        let (mut phases, mut joined) = (Vec::with_capacity(recipe.phases.len()), Joined::new());
        let mut batches = 0;
        let mut before: Option<RunTask> = None;
        for (number, config) in recipe.phases.into_iter().enumerate() {
            let place = config.clone();
            let phase = || -> Result<RunTask> {
                let task = match &before {
                    Some(before) => before.later(config)?,
                    None => RunTask::assemble(config, None)?,
                };
                if let Some(before) = &before {
                    // When a parameter joins changes the name of an input, but no bytes.
                    joined = joined_after(&joined, before, &task, number as u64);
                }
                let forecast = PhaseForecast::new(&task, &joined, batches, backend)?;
                batches = forecast.batches;
                phases.push(forecast);
                Ok(task)
            };
            before = Some(phase().map_err(|error| in_place(&place, error))?);
        }
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
        found.map(|forecast| &forecast.plans().step).ok_or_else(|| {
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
        let error = below_floor(short.budget.unwrap_or_default(), short.floor);
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
        let peak = most(|forecast| forecast.chosen.as_ref().map(StepPlans::peak_bytes));
        json!({
            "recipe": self.phases[0].config.recipe(),
            "feasible": peak.is_some(),
            "budget_bytes": self.phases[0].budget,
            "peak_bytes": peak,
            "floor_bytes": most(|forecast| Some(forecast.floor)),
            "unbounded_bytes": most(|forecast| Some(forecast.unbounded.peak_bytes())),
            "phases": self.phases.iter().map(PhaseForecast::to_json).collect::<Vec<_>>(),
        })
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let texts: Vec<String> = self.phases.iter().map(PhaseForecast::to_text).collect();
        let peaks: Option<Vec<usize>> = self
            .phases
            .iter()
            .map(|forecast| Some(forecast.chosen.as_ref()?.peak_bytes()))
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
    /// Batches of this phase and those before it.
    batches: u64,
    budget: Option<usize>,
    floor: usize,
    unbounded: StepPlans,
    /// None where the budget is below the floor.
    chosen: Option<StepPlans>,
}

impl PhaseForecast {
    /// Plans a phase that comes after so many batches.
    fn new(task: &RunTask, joined: &Joined, before: u64, backend: &dyn Backend) -> Result<PhaseForecast> {
        let budget = task.config.run.budget;
        let (shapes, batches) = task.shapes_after(before)?;
        let shape = shapes.train;
        let options = TrainerOptions {
            joined: joined.clone(),
            ..task.options(1)
        };
        let free = TrainerOptions {
            budget: None,
            ..options.clone()
        };
        let graphs = task.graphs(&free, shapes)?;
        let floor = graphs.floor_bytes(backend, &free)?;
        let unbounded = StepPlans::new(backend, &free, &graphs)?;
        let chosen = match budget {
            Some(budget) if budget < floor => None,
            _ => Some(StepPlans::new(backend, &options, &graphs)?),
        };
        let parameters = unbounded
            .params
            .iter()
            .map(|param| param.shape.iter().product::<usize>())
            .sum();
        Ok(PhaseForecast {
            config: task.config.clone(),
            parameters,
            shape,
            batches,
            budget,
            floor,
            unbounded,
            chosen,
        })
    }

    fn plans(&self) -> &StepPlans {
        self.chosen.as_ref().unwrap_or(&self.unbounded)
    }

    fn placement(&self) -> &'static str {
        self.config.placement.word()
    }

    /// One JSON object. Cost counts floating-point operations.
    fn to_json(&self) -> Value {
        let plans = self.plans();
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
            "peak_bytes": self.chosen.as_ref().map(StepPlans::peak_bytes),
            "floor_bytes": self.floor,
            "unbounded_bytes": self.unbounded.peak_bytes(),
            "state_bytes": plans.state_bytes(),
            "arena_bytes": plans.arena_bytes(),
            "parameters": self.parameters,
            "batch": self.config.train.batch,
            "tokens": self.shape.tokens().iter().product::<usize>(),
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

    /// For people.
    fn to_text(&self) -> String {
        let plans = self.plans();
        let phase = self.config.phase.as_ref().map(|name| format!(", {}", in_phase(name)));
        let mut text = format!(
            "{}{}: {} parameters, batches of {}, up to {} tokens, updates {}\n",
            self.config.recipe(),
            phase.unwrap_or_default(),
            self.parameters,
            self.shape.size(),
            self.shape.tokens().iter().product::<usize>(),
            self.placement()
        );
        match (self.budget, &self.chosen) {
            (Some(budget), None) => {
                let (budget, floor) = (show_size(budget), show_size(self.floor));
                text += &format!("not feasible: the budget of {budget} is below the floor of {floor}\n");
            }
            (_, Some(chosen)) => text += &format!("peak memory   {:>10}\n", show_size(chosen.peak_bytes())),
            (None, None) => {}
        }
        for (name, bytes) in [
            ("of it state", plans.state_bytes()),
            ("of it arena", plans.arena_bytes()),
            ("floor", self.floor),
            ("no budget", self.unbounded.peak_bytes()),
        ] {
            text += &format!("{name:<13} {:>10}\n", show_size(bytes));
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
