//! The forecast of a training phase: peak memory, floor, step time and choices of its plans.

use super::choices::{by_operation, packed_by_operation, said};
use super::shared::{Shared, Sharing};
use super::sweep::Sweep;
use super::time::show_ms;
use crate::planning::account::Account;
use crate::planning::budget_search::BudgetSearch;
use crate::planning::phase_work::PhaseWork;
use crate::planning::process_baseline::ProcessBaseline;
use crate::planning::remedies::remedy;
use lessen_base::word::Word;
use lessen_base::{Result, allocated};
use lessen_compile::passes::{Packed, StorageFormat};
use lessen_compile::{CostSource, Placement};
use lessen_device::Backend;
use lessen_nn::BatchShape;
use lessen_task::recipe::config::Config;
use lessen_task::wording::counted;
use lessen_task::wording::in_phase;
use lessen_train::{StepPlans, TrainerOptions, show_size};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Number of values in the list of the largest.
const LARGEST: usize = 12;

/// Additions to the plans of a training phase under the recipe's budget.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PhaseAdditions {
    /// Whether plans under budgets from the floor to none are added.
    pub sweep: bool,
    /// Whether the number of examples of a batch is found out.
    pub examples: bool,
    /// The processes that share the training.
    pub sharing: Option<Sharing>,
}

/// Memory and time of a training phase.
pub(super) struct PhaseForecast {
    pub config: Config,
    pub parameters: usize,
    shape: BatchShape,
    /// Number of examples of a full batch, if it was asked for.
    pub examples: Option<usize>,
    pub budget: Option<usize>,
    /// The cost model that plans are made by.
    pub cost: CostSource,
    pub floor: Account,
    pub unbounded: Account,
    /// The account of the plans under the budget; none where the budget is below the floor.
    pub chosen: Option<Account>,
    /// What to do about a budget below the floor but to allow more.
    pub remedy: String,
    /// The plans under the budget, or the plans without a budget where it is below the floor.
    pub plans: StepPlans,
    /// The plans under other budgets, if they were asked for.
    pub sweep: Option<Sweep>,
    /// What processes do that share it, if they were asked for.
    shared: Option<Shared>,
    /// Micro-batches of a step that this process computes.
    batches: usize,
}

impl PhaseForecast {
    /// Plans a training phase, with the additions in `asked`. `beside` has the baseline that the process has allocated,
    /// and the bytes of the plans of later phases.
    pub(super) fn new(
        work: PhaseWork<'_>,
        asked: PhaseAdditions,
        beside: (ProcessBaseline, usize),
        backend: &mut dyn Backend,
    ) -> Result<PhaseForecast> {
        let (config, shape) = (work.task.config().clone(), work.shapes.train);
        let budget = config.run.budget;
        let cost = work.options.cost;
        let examples = asked.examples.then(|| work.examples()).transpose()?;
        // Before all other plans, so that the sweep's plans have none beside them in memory, and apart from them, so
        // that it changes nothing in the account of the run.
        let sweep = asked.sweep.then(|| {
            let options = TrainerOptions {
                cost: config.cost_model(true),
                ..work.options.clone()
            };
            let work = PhaseWork {
                options: &options,
                ..work.clone()
            };
            allocated::apart(|| Sweep::new(work, beside, backend))
        });
        let sweep = sweep.transpose()?;
        let mut search = BudgetSearch::new(backend, beside, work.clone())?;
        let unbounded = search.without_budget()?.account;
        let floor = search.floor()?;
        let within = budget.map(|budget| search.within(budget)).transpose()?;
        let chosen = match within {
            Some(Ok(planned)) => Some(planned),
            Some(Err(_)) => None,
            None => Some(search.without_budget()?),
        };
        let (chosen, plans) = match chosen {
            Some(planned) => (Some(planned.account), planned.plans),
            None => (None, search.without_budget()?.plans),
        };
        let remedy = match budget {
            Some(budget) if chosen.is_none() => remedy(budget, &work, backend, beside),
            _ => String::new(),
        };
        let sizes = plans.params.iter().map(|param| param.shape.iter().product::<usize>());
        Ok(PhaseForecast {
            parameters: sizes.sum(),
            config,
            shape,
            examples,
            budget,
            cost,
            floor,
            unbounded,
            chosen,
            remedy,
            shared: asked.sharing.map(|sharing| Shared::of(sharing, work.options, &plans)),
            batches: work.options.own_batches().len(),
            plans,
            sweep,
        })
    }

    /// Estimated milliseconds of what a process computes of a step; none where no plan fits.
    pub(super) fn step_ms(&self) -> Option<f64> {
        self.chosen.map(|_| 1e3 * self.plans.estimated_seconds(self.batches))
    }

    /// The placement of updates in words: the recipe's word and, where plans choose, the number of parameters of each
    /// placement.
    pub(super) fn placement(&self) -> String {
        let word = self.config.placement.word();
        if self.config.placement != Placement::Planned {
            return word.to_string();
        }
        let placements = self.plans.placements();
        let count = |placement: Placement| {
            let own = placements.values().filter(|own| **own == placement);
            format!("{} {}", own.count(), placement.word())
        };
        let (within, late) = (count(Placement::BackwardFused), count(Placement::ForwardFused));
        format!("{word}: {within}, {late}")
    }

    /// One JSON object. Cost counts floating-point operations.
    pub(super) fn to_json(&self) -> Value {
        let plans = &self.plans;
        let ways = [
            ("recompute", plans.step.recomputed()),
            ("invert", plans.step.inverted()),
            ("bf16", plans.step.rounded(StorageFormat::Bf16)),
            ("int8", plans.step.rounded(StorageFormat::Int8)),
        ];
        let chosen = ways
            .iter()
            .flat_map(|(way, choices)| choices.iter().map(move |choice| (way, choice)));
        let chosen = chosen.map(|(way, choice)| {
            let (cost, error) = (json!(choice.flops), json!(choice.error));
            json!({ "value": choice.name, "bytes": choice.bytes, "way": way, "cost": cost, "error": error })
        });
        let packed = plans.step.packed().iter().map(|choice| {
            let (bytes, kept) = (choice.freed, choice.bytes);
            json!({ "value": choice.name, "bytes": bytes, "kept": kept, "way": "bits", "cost": 0.0, "error": 0 })
        });
        let choices: Vec<Value> = chosen.chain(packed).collect();
        let placements = plans.placements().into_iter().map(|(name, own)| (name, own.word()));
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
            "peak_bytes": self.chosen.as_ref().map(Account::total),
            "account_bytes": self.chosen.map(Account::to_json),
            "split_bytes": self.chosen.map(Account::split_to_json),
            "plans_bytes": self.chosen.as_ref().map(Account::plans),
            "floor_bytes": self.floor.smallest_budget(),
            "unbounded_bytes": self.unbounded.total(),
            "state_bytes": plans.state_bytes(),
            "arena_bytes": plans.arena_bytes(),
            "parameters": self.parameters,
            "batch": self.config.train.batch,
            "tokens": self.tokens(),
            "steps_in_schedule": plans.step.steps().len(),
            "cost": self.cost.word(),
            "estimated_step_ms": self.step_ms(),
            "slower_than_best": plans.step.slower_than_best(),
            "compile_ms": plans.compile_time().as_secs_f64() * 1e3,
            "update_placement": self.config.placement.word(),
            "placements": placements.collect::<BTreeMap<_, _>>(),
            "choices": choices,
            "sliced_blocks": plans.step.sliced(),
            "reference_nodes": plans.step.reference_names(),
            "largest": largest,
        });
        if let Some(sweep) = &self.sweep {
            object["sweep"] = sweep.to_json();
            object["sweep_cost"] = json!(sweep.cost.word());
        }
        if let Some(shared) = self.shared {
            object["shared"] = shared.to_json(self.step_ms());
        }
        if let Some(phase) = &self.config.phase {
            object["phase"] = json!(phase);
        }
        object
    }

    /// Number of tokens of the largest batch; none for images.
    fn tokens(&self) -> Option<usize> {
        match self.shape {
            BatchShape::Images { .. } => None,
            shape => Some(shape.tokens().iter().product()),
        }
    }

    /// The content of the largest batch, in words.
    pub(super) fn batch(&self) -> String {
        let size = self.shape.size();
        match self.shape {
            BatchShape::Images {
                image: [rows, columns, _],
                ..
            } => format!("{size} images of {rows} x {columns}"),
            shape => format!("{size}, up to {} tokens", shape.tokens().iter().product::<usize>()),
        }
    }

    /// Plain text.
    pub(super) fn to_text(&self) -> String {
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
                text += &format!("on the device {:>10}\n", show_size(chosen.device.total()));
                text += &format!("on the host   {:>10}\n", show_size(chosen.host.total()));
                for (name, bytes) in chosen.named() {
                    let shown = bytes.map_or("not counted: the recipe names none".to_string(), show_size);
                    text += &format!("  {name:<11} {shown:>10}\n");
                }
            }
            (None, None) => {}
        }
        for (name, bytes) in [
            ("floor", self.floor.smallest_budget()),
            ("no budget", self.unbounded.total()),
        ] {
            text += &format!("{name:<13} {:>10}\n", show_size(bytes));
        }
        if let Some(ms) = self.step_ms() {
            text += &format!("estimated step {:>9} by {} costs\n", show_ms(ms), self.cost.word());
            if let Some(share) = plans.step.slower_than_best() {
                text += &format!(
                    "within        {:>8.1} % of the best that the planner could choose\n",
                    100.0 * share
                );
            }
        }
        text += &self
            .shared
            .map_or(String::new(), |shared| shared.to_text(self.step_ms()));
        let recomputed: usize = plans.step.recomputed().iter().map(|choice| choice.bytes).sum();
        text += &format!(
            "recomputed    {:>10} in {}\n",
            show_size(recomputed),
            counted(plans.step.recomputed().len() as u64, "value")
        );
        let is_said = self.budget.is_some() && self.chosen.is_some();
        if is_said {
            text += &said(&by_operation(plans.step.recomputed()));
        }
        for (way, choices) in [
            ("from outputs", plans.step.inverted()),
            ("kept as bf16", plans.step.rounded(StorageFormat::Bf16)),
            ("kept in 8 bits", plans.step.rounded(StorageFormat::Int8)),
        ] {
            if choices.is_empty() {
                continue;
            }
            text += &format!(
                "{way}  {:>10} in {}, with errors up to {:.1e} each\n",
                show_size(choices.iter().map(|choice| choice.bytes).sum()),
                counted(choices.len() as u64, "value"),
                choices.iter().map(|choice| choice.error).fold(0.0, f64::max)
            );
            if is_said {
                text += &said(&by_operation(choices));
            }
        }
        let sliced = plans.step.sliced();
        if sliced > 0 {
            text += &format!("in slices     {:>10} of backward\n", counted(sliced as u64, "block"));
        }
        let packed = plans.step.packed();
        if !packed.is_empty() {
            let sum = |bytes: fn(&Packed) -> usize| show_size(packed.iter().map(bytes).sum());
            text += &format!(
                "kept as bits  {:>10} instead of {} in {}\n",
                sum(|choice| choice.bytes),
                sum(|choice| choice.freed),
                counted(packed.len() as u64, "value")
            );
            if is_said {
                text += &said(&packed_by_operation(&plans.step));
            }
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
        if let Some(sweep) = &self.sweep {
            text += &format!("\n{}", sweep.to_text());
        }
        text
    }
}
