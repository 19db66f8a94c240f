//! The training phases that are left of a run. All are planned before the first step, so that a mistake in the last one
//! costs no training.

use super::prepared_phase::PreparedPhase;
use super::start::Start;
use super::starting_point::StartingPoint;
use crate::planning::budget_search::PhasePlans;
use crate::planning::joined::joined_after;
use crate::planning::memory_watch::MemoryWatch;
use crate::planning::process_baseline::ProcessBaseline;
use crate::planning::steps::Steps;
use lessen_base::{Error, Result, allocated};
use lessen_device::Backend;
use lessen_nn::Joined;
use lessen_task::device::NewBackend;
use lessen_task::input_files::InputFiles;
use lessen_task::recipe::phases::in_phase_of;
use lessen_task::sources::{Sources, sources_of};
use lessen_task::{CheckedTask, SavedModel};
use lessen_train::{StepPlans, TrainerOptions};

/// The training phases that are left of a run.
pub(super) struct RemainingPhases {
    /// The training phases with their plans, in order: at least one, which may have no steps left.
    pub phases: Vec<(PreparedPhase, StepPlans)>,
    /// The files that the run's settings name.
    pub inputs: InputFiles,
    /// The number of steps of the whole run.
    pub total: u64,
    /// The device for the first of them.
    pub backend: Box<dyn Backend>,
    /// The starting point of the first of them.
    pub from: StartingPoint,
}

/// Steps and batches that were done before a training phase, and when parameters joined.
struct Done {
    steps: u64,
    batches: u64,
    joined: Joined,
}

impl RemainingPhases {
    /// Prepares and plans the training phases that are left, and adds their accounts to `watch`.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake, or that do not go together; a budget below the floor, and steps
    /// that the machine's memory cannot hold.
    pub(super) fn plan(start: &Start, watch: &mut MemoryWatch, new_backend: &NewBackend) -> Result<RemainingPhases> {
        let (mut phases, from, inputs) = prepared(start)?;
        let total = phases.last().map_or(0, PreparedPhase::end);
        let mut backend = new_backend.open()?;
        let baseline = ProcessBaseline::measure(watch.start(), backend.as_mut())?;
        let mut planned: Vec<(PreparedPhase, StepPlans)> = Vec::with_capacity(phases.len());
        let mut later_plans = 0;
        while let Some(mut phase) = phases.pop() {
            let done = start.step();
            let mut plan = |phase: &PreparedPhase| {
                let (found, growth) =
                    allocated::growth(|| phase.plans(done, backend.as_mut(), (baseline, later_plans)));
                Ok::<_, Error>((found.map_err(|error| in_phase_of(phase.task.config(), error))?, growth))
            };
            let (mut found, mut growth) = plan(&phase)?;
            let kept = found.plans.kept_by_all(&start.group)?;
            if kept != found.plans.kept_quarters() {
                phase.options.kept_quarters = Some(kept);
                drop(found);
                (found, growth) = plan(&phase)?;
            }
            let PhasePlans { plans, account, budget } = found;
            phase.options.budget = budget;
            watch.add(account);
            later_plans += growth.lasting;
            planned.push((phase, plans));
        }
        planned.reverse();
        Ok(RemainingPhases {
            phases: planned,
            inputs,
            total,
            backend,
            from,
        })
    }
}

/// Reads the data that a run shares with others, so that it is there when they begin.
///
/// # Errors
/// As [`RemainingPhases::plan`].
pub(super) fn read_shared(start: &Start) -> Result<()> {
    if start.configs()[0].data.format.format().is_read_by_data_keys() {
        prepared(start)?;
    }
    Ok(())
}

/// The training phases that are left, the starting point of the first of them, and the files that settings name.
fn prepared(start: &Start) -> Result<(Vec<PreparedPhase>, StartingPoint, InputFiles)> {
    let mut tasks = tasks(start)?;
    let data = tasks[0].data()?;
    start.check_data(data.digests()?, data.corpus().unit())?;
    let inputs = InputFiles::of(&start.recipe.settings)?.with_images(tasks[0].config(), data.corpus().image_files()?);
    start.check_inputs(&inputs)?;
    let mut sources = sources_of(&tasks)?;
    let steps = tasks.iter().zip(&sources);
    let steps = steps.map(|(task, sources)| Steps::of(&task.config().train, sources.training.as_ref()));
    let mut steps: Vec<Steps> = steps.collect();
    start
        .check_steps(steps[0])
        .map_err(|error| in_phase_of(tasks[0].config(), error))?;

    let mut done = done_before(start, &tasks[0]);
    let mut from = match start.states()? {
        Some(states) => StartingPoint::Checkpoint {
            step: start.step(),
            states,
            has_optimizer: start.has_optimizer(),
        },
        None => StartingPoint::FirstWeights,
    };
    let has_ended = start.has_stopped() || done.steps + steps[0].total == start.step();
    if tasks.len() > 1 && has_ended {
        // The checkpoint is the end of its training phase.
        if let (Some(dir), Some(states)) = (start.saved(), start.states()?) {
            from = StartingPoint::CheckpointOfPhaseBefore {
                dir: dir.to_path_buf(),
                states,
            };
        }
        done = Done {
            steps: start.step(),
            batches: done.batches + steps[0].batches,
            joined: joined_after(&done.joined, &tasks[0], &tasks[1], start.step()),
        };
        tasks.remove(0);
        steps.remove(0);
        sources.remove(0);
    }
    Ok((in_order(start, tasks, &steps, sources, done)?, from, inputs))
}

/// Steps, batches and joined parameters before the first training phase that is left.
fn done_before(start: &Start, first: &CheckedTask) -> Done {
    let mark = start.mark();
    let since = start.optimizer_since();
    let joined = if since > 0 {
        let params = first.parameters().into_iter();
        params.map(|param| (param.name, since)).collect()
    } else {
        mark.map_or_else(Joined::new, |mark| mark.joined.clone())
    };
    Done {
        steps: mark.map_or(0, |mark| mark.begun),
        batches: mark.map_or(0, |mark| mark.batches),
        joined,
    }
}

/// Prepares the training phases of tasks, in order.
fn in_order(
    start: &Start,
    tasks: Vec<CheckedTask>,
    steps: &[Steps],
    sources: Vec<Sources>,
    mut done: Done,
) -> Result<Vec<PreparedPhase>> {
    let count = tasks.len();
    let mut phases: Vec<PreparedPhase> = Vec::with_capacity(count);
    for ((task, &steps), sources) in tasks.into_iter().zip(steps).zip(sources) {
        if let Some(before) = phases.last() {
            done.joined = joined_after(&done.joined, &before.task, &task, done.steps);
        }
        let options = TrainerOptions {
            schedule_start: done.steps,
            joined: done.joined.clone(),
            group: start.group.clone(),
            ..task.options(steps.total)
        };
        options.check().map_err(|error| in_phase_of(task.config(), error))?;
        // Steps of the first training phase may be done already.
        let batches_done = if phases.is_empty() {
            (start.step() - done.steps.min(start.step())) * options.accumulate as u64
        } else {
            0
        };
        let mut range = done.batches + batches_done..done.batches + steps.batches.max(batches_done);
        if start.is_fed {
            let examples = range.start.saturating_add(sources.training.batches_per_epoch());
            range.end = range.end.min(examples);
        }
        phases.push(PreparedPhase {
            shapes: task.shapes_of(sources.training.as_ref(), sources.dev.as_ref(), range.clone()),
            range,
            task,
            steps,
            begun: done.steps,
            batches: done.batches,
            options,
            sources,
            is_last: phases.len() + 1 == count,
        });
        done.steps += steps.total;
        done.batches += steps.batches;
    }
    Ok(phases)
}

/// The tasks of the training phases that are left.
fn tasks(start: &Start) -> Result<Vec<CheckedTask>> {
    let mut tasks: Vec<CheckedTask> = Vec::new();
    for config in start.configs() {
        let task = match tasks.last() {
            Some(before) => before.later(config.clone()),
            None => {
                let saved = start.saved().map(|dir| SavedModel::read(config, dir.into()));
                saved
                    .transpose()
                    .and_then(|saved| CheckedTask::assemble_on(config.clone(), saved, start.shared()))
            }
        };
        tasks.push(task.map_err(|error| in_phase_of(config, error))?);
    }
    Ok(tasks)
}
