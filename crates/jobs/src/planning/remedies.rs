//! Settings with which a training phase keeps to a budget that is too small for it as it is.

use super::budget_search::{BudgetSearch, PhasePlans, too_small};
use super::phase_work::{PhaseBatches, PhaseWork};
use super::process_baseline::ProcessBaseline;
use lessen_base::{Result, allocated};
use lessen_compile::CostSource;
use lessen_device::Backend;
use lessen_task::recipe::config::Config;
use lessen_task::sources::sources_of;
use lessen_train::{TrainerOptions, show_size};

/// The adapters that are tried.
const ADAPTERS: &[&str] = &["lora.rank=8", "lora.targets=all-linear"];

/// Most remedies that a message names.
const MOST: usize = 3;

/// The plans of a training phase under the recipe's budget, if it has one.
///
/// # Errors
/// A budget that is too small, with the smallest one and the settings that help, and a run that the machine's memory
/// cannot hold.
pub fn planned(work: PhaseWork<'_>, backend: &mut dyn Backend, beside: (ProcessBaseline, usize)) -> Result<PhasePlans> {
    let found = BudgetSearch::new(backend, beside, work.clone())?.under_recipe_budget()?;
    found.map_err(|floor| {
        let budget = work.options.budget.unwrap_or_default();
        too_small(budget, &floor, &remedy(budget, &work, backend, beside))
    })
}

/// What to do about a budget that is too small for a training phase: the settings that help.
pub fn remedy(
    budget: usize,
    work: &PhaseWork<'_>,
    backend: &mut dyn Backend,
    beside: (ProcessBaseline, usize),
) -> String {
    match &remedies(budget, work, backend, beside)[..] {
        [] => "take a smaller model".to_string(),
        found => format!("set {}", found.join(", or ")),
    }
}

/// Settings with which a training phase takes less, each with the smallest budget for it, as far as the planner finds
/// that `budget` is enough: one setting each, or else several together.
fn remedies(
    budget: usize,
    work: &PhaseWork<'_>,
    backend: &mut dyn Backend,
    beside: (ProcessBaseline, usize),
) -> Vec<String> {
    let mut floor = |assignments: &[String]| {
        // A candidate that cannot be is none.
        let found = allocated::apart(|| floor_with(assignments, work, backend, beside));
        found.ok().filter(|floor| *floor <= budget)
    };
    let shown = |assignments: &[String], floor: usize| {
        format!("{} (with a floor of {})", assignments.join(" and "), show_size(floor))
    };
    let config = work.task.config();
    let (mut found, mut together) = (Vec::new(), Vec::new());
    for candidate in candidates(config) {
        match floor(&candidate) {
            Some(floor) if found.len() < MOST => found.push(shown(&candidate, floor)),
            Some(_) => {}
            None => together.extend(candidate),
        }
    }
    if let Some((batch, floor)) = largest_batch(config, &mut floor) {
        found.truncate(MOST - 1);
        found.push(shown(&[batch_of(batch)], floor));
    }
    if found.is_empty() {
        together.retain(|candidate| !candidate.starts_with("lora."));
        together.extend((config.train.tokens == 0 && config.train.batch > 1).then(|| batch_of(1)));
        found.extend(floor(&together).map(|floor| shown(&together, floor)));
    }
    found
}

/// Settings that take less memory, without the number of examples, by what belongs together.
fn candidates(config: &Config) -> Vec<Vec<String>> {
    let (train, settings) = (&config.train, &config.settings);
    let kind = settings.text("optimizer.kind").unwrap_or_default();
    let adapts = config.model.init.is_some() && config.lora.rank == 0 && train.freeze.is_none();
    let adapters = match &config.lora.targets {
        Some(_) => &ADAPTERS[..1],
        None => ADAPTERS,
    };
    let all = [
        (train.clip_norm > 0.0, &["train.clip_norm=0"][..]),
        (train.accumulate > 1, &["train.accumulate=1"]),
        (train.ema > 0.0, &["train.ema=0"]),
        (["adam", "adamw"].contains(&kind), &["optimizer.kind=adamw_8bit"]),
        (adapts, adapters),
    ];
    let wanted = all.into_iter().filter(|(is_candidate, _)| *is_candidate);
    let texts = |assignments: &[&str]| assignments.iter().map(|text| text.to_string()).collect();
    wanted.map(|(_, assignments)| texts(assignments)).collect()
}

fn batch_of(examples: usize) -> String {
    format!("train.batch={examples}")
}

/// The largest half, quarter and so on of the batch with which the phase fits, and its floor.
fn largest_batch(config: &Config, floor: &mut dyn FnMut(&[String]) -> Option<usize>) -> Option<(usize, usize)> {
    let batch = config.train.batch;
    if config.train.tokens > 0 || batch < 2 || floor(&[batch_of(1)]).is_none() {
        return None;
    }
    let halves = std::iter::successors(Some(batch / 2), |batch| Some(batch / 2).filter(|half| *half > 0));
    let mut halves = halves.map(|batch| Some((batch, floor(&[batch_of(batch)])?)));
    halves.find_map(|found| found)
}

/// The smallest budget of a training phase with other settings.
fn floor_with(
    assignments: &[String],
    work: &PhaseWork<'_>,
    backend: &mut dyn Backend,
    beside: (ProcessBaseline, usize),
) -> Result<usize> {
    let before = work.task.config();
    let mut settings = before.settings.clone();
    assignments
        .iter()
        .try_for_each(|assignment| settings.set_flag(assignment))?;
    let task = work.task.later(Config::of(settings, before.phase.as_deref())?)?;
    let options = TrainerOptions {
        schedule: work.options.schedule,
        schedule_start: work.options.schedule_start,
        joined: work.options.joined.clone(),
        joined_at: work.options.joined_at.clone(),
        budget: None,
        cost: CostSource::Analytic,
        ..task.options(1)
    };
    let tasks = [task];
    let sources = work.batches.as_ref().map(|_| sources_of(&tasks)).transpose()?;
    let [task] = &tasks;
    let (mut shapes, mut batches) = (task.assumed_shapes(), None);
    if let (Some(of_work), Some(sources)) = (&work.batches, sources.as_ref().and_then(|all| all.first())) {
        let range = of_work.range.clone();
        shapes = task.shapes_of(sources.training.as_ref(), sources.dev.as_ref(), range.clone());
        batches = Some(PhaseBatches::of(sources, range, task, 0));
    }
    let work = PhaseWork {
        task,
        options: &options,
        shapes,
        batches,
    };
    Ok(BudgetSearch::new(backend, beside, work)?.floor()?.smallest_budget())
}
