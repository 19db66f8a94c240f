//! The forecast of a run: what its training would take, without running it.

use crate::recipe::config::Config;
use crate::recipe::words::Word;
use crate::task::RunTask;
use crate::wording::counted;
use lessen_base::Result;
use lessen_compile::passes::Packed;
use lessen_compile::{Backend, Plan};
use lessen_nn::BatchShape;
use lessen_train::{StepPlans, TrainerOptions, show_size};
use serde_json::{Value, json};

/// Values in the list of the largest.
const LARGEST: usize = 12;

/// What the training of a recipe would take.
pub struct Forecast {
    config: Config,
    parameters: usize,
    shape: BatchShape,
    budget: Option<usize>,
    floor: usize,
    unbounded: StepPlans,
    /// None where the budget is below the floor.
    chosen: Option<StepPlans>,
}

impl Forecast {
    /// Plans a recipe for a device, under the recipe's budget. Without data it assumes the recipe's `model.vocab` and
    /// `model.classes`.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake.
    pub fn new(config: Config, backend: &dyn Backend) -> Result<Forecast> {
        let task = RunTask::assemble(config, None)?;
        let (budget, shape) = (task.config.run.budget, task.shape);
        let free = TrainerOptions {
            budget: None,
            ..task.options(1)
        };
        let graphs = task.graphs(&free)?;
        let floor = graphs.floor_bytes(backend, &free)?;
        let unbounded = StepPlans::new(backend, &free, &graphs)?;
        let chosen = match budget {
            Some(budget) if budget < floor => None,
            _ => Some(StepPlans::new(backend, &task.options(1), &graphs)?),
        };
        let parameters = unbounded
            .params
            .iter()
            .map(|param| param.shape.iter().product::<usize>())
            .sum();
        Ok(Forecast {
            config: task.config,
            parameters,
            shape,
            budget,
            floor,
            unbounded,
            chosen,
        })
    }

    fn plans(&self) -> &StepPlans {
        self.chosen.as_ref().unwrap_or(&self.unbounded)
    }

    /// The plan of a training step.
    pub fn step(&self) -> &Plan {
        &self.plans().step
    }

    fn placement(&self) -> &'static str {
        self.config.placement.word()
    }

    /// One JSON object. Cost counts floating-point operations.
    pub fn to_json(&self) -> Value {
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
        json!({
            "recipe": self.config.recipe(),
            "feasible": self.chosen.is_some(),
            "budget_bytes": self.budget,
            "peak_bytes": self.chosen.as_ref().map(StepPlans::peak_bytes),
            "floor_bytes": self.floor,
            "unbounded_bytes": self.unbounded.peak_bytes(),
            "state_bytes": plans.state_bytes(),
            "arena_bytes": plans.arena_bytes(),
            "parameters": self.parameters,
            "batch": [self.shape.size, self.shape.length],
            "steps_in_schedule": plans.step.steps().len(),
            "compile_ms": plans.compile_time().as_secs_f64() * 1e3,
            "update_placement": self.placement(),
            "choices": choices,
            "reference_nodes": plans.step.reference_names(),
            "largest": largest,
        })
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let plans = self.plans();
        let mut text = format!(
            "{}: {} parameters, batches of {} x {} tokens, updates {}\n",
            self.config.recipe(),
            self.parameters,
            self.shape.size,
            self.shape.length,
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
        for row in plans.step.largest(LARGEST) {
            let lifetime = format!("{}..{}", row.first_step, row.last_step);
            let ty = row.ty.to_string();
            text += &format!("{:>10}  {lifetime:>9}  {ty:<22} {}\n", show_size(row.bytes), row.name);
        }
        text
    }
}
