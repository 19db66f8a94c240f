//! What can be wrong with trainings of an experiment, found before the first of them: each is planned as `lessen plan`
//! would, and its folder compared with its settings.

use super::grid::GridRun;
use super::measure::{Measure, Moment, known_keys};
use super::results::State;
use super::runs::{Plan, other_setting};
use crate::planning::phase_work::PhaseWork;
use crate::planning::process_baseline::{ProcessBaseline, ProcessStart};
use crate::planning::remedies;
use crate::schema::SCHEMA;
use lessen_base::{Error, Result};
use lessen_device::Backend;
use lessen_saved::lengths::Length;
use lessen_task::folder::Folder;
use lessen_task::recipe::phases::{Recipe, in_phase_of};
use lessen_task::recipe::settings::Settings;
use lessen_task::wording::counted;
use lessen_task::{CheckedTask, recording};
use std::collections::BTreeSet;
use std::path::Path;

/// Settings that decide whether two runs can share the data that was read.
const DATA: [&str; 11] = [
    "data.path",
    "data.format",
    "data.task",
    "data.tokenizer",
    "data.min_count",
    "data.vocab",
    "data.held_out",
    "data.shuffle",
    "model.init",
    "model.base",
    "model.kind",
];

/// Checks every run; says how far each has got, and the names of the scores that the runs have.
///
/// # Errors
/// A mistake in the settings of a run, with the run's name; a measure that a run does not have; a folder of other
/// settings.
pub(super) fn check(plan: &Plan<'_>, backend: &mut dyn Backend) -> Result<(Vec<State>, Vec<String>)> {
    let mut states = Vec::with_capacity(plan.runs.len());
    let mut read: Option<CheckedTask> = None;
    let mut lacking: Vec<Option<Error>> = Vec::new();
    let (mut scores, mut points): (Vec<String>, BTreeSet<usize>) = (Vec::new(), BTreeSet::new());
    for run in plan.runs {
        // Seeds change no plan.
        if points.insert(run.point) {
            let in_run = plan.in_run(run);
            let (task, found) = planned(run, plan.measures, read.take(), backend).map_err(in_run)?;
            let found = found.into_iter().map(|found| found.map_err(in_run).err());
            // Keeps the error of a measure that no run has had so far.
            lacking = if lacking.is_empty() {
                found.collect()
            } else {
                lacking
                    .into_iter()
                    .zip(found)
                    .map(|(before, own)| before.and(own))
                    .collect()
            };
            for score in task.goal().scores() {
                if !scores.iter().any(|known| known == score) {
                    scores.push(score.to_string());
                }
            }
            read = Some(task);
        }
        states.push(state(&plan.out.join(&run.folder), &run.settings)?);
    }
    match lacking.into_iter().flatten().next() {
        Some(error) => Err(error),
        None => Ok((states, scores)),
    }
}

/// Plans all training phases of a run and checks the measures against their metrics. Returns the first phase's task,
/// whose data the next run may share, and for each measure whether the run has it.
fn planned(
    run: &GridRun,
    measures: &[Measure],
    read: Option<CheckedTask>,
    backend: &mut dyn Backend,
) -> Result<(CheckedTask, Vec<Result<()>>)> {
    let recipe = Recipe::new(run.settings.clone().with_absolute_paths())?;
    let mut tasks: Vec<CheckedTask> = Vec::new();
    for config in &recipe.phases {
        let shared = tasks.last().or(read.as_ref().filter(|task| {
            let same = |key: &&str| task.config().settings.get(key) == config.settings.get(key);
            DATA.iter().all(same)
        }));
        let task = match shared {
            Some(shared) => shared.later(config.clone()),
            None => CheckedTask::assemble(config.clone(), None),
        };
        let task = task.and_then(|task| {
            task.data()?;
            let baseline = ProcessBaseline::measure(ProcessStart::measure(), backend)?;
            let work = PhaseWork {
                task: &task,
                options: &task.options(1),
                shapes: task.assumed_shapes(),
                batches: None,
            };
            remedies::planned(work, backend, (baseline, 0))?;
            Ok(task)
        });
        tasks.push(task.map_err(|error| in_phase_of(config, error))?);
    }
    let phases: Vec<&str> = recipe
        .phases
        .iter()
        .filter_map(|config| config.phase.as_deref())
        .collect();
    let mut known = std::collections::BTreeSet::new();
    for task in &tasks {
        let graphs = task.graphs(&task.options(1), task.assumed_shapes())?;
        let statistics = recording::names(&task.config().record, &graphs);
        known.extend(known_keys(
            task.config().train.clip_norm > 0.0,
            &task.goal().scores(),
            statistics.into_iter(),
        ));
    }
    let all_steps = tasks.iter().map(|task| match task.config().train.steps {
        0 => None,
        steps => Some(steps),
    });
    let steps: Option<u64> = all_steps.sum();
    let mut found = Vec::with_capacity(measures.len());
    for measure in measures {
        let has = check_step(measure, steps)
            .and_then(|()| measure.check(&known, &phases, &format!("the recipe {}", recipe.name())))
            .and_then(|()| match measure.length.zip(tasks.last()) {
                Some((length, task)) => check_length(measure, length, task),
                None => Ok(()),
            });
        if !measure.optional {
            has.as_ref().map_err(Error::clone)?;
        }
        found.push(has);
    }
    Ok((tasks.swap_remove(0), found))
}

/// Refuses a number after a step that the run does not have, where its number of steps is known.
fn check_step(measure: &Measure, steps: Option<u64>) -> Result<()> {
    match (measure.at, steps) {
        (Moment::Step(step), Some(steps)) if step > steps => Err(Error::user(format!(
            "the measure {} is after step {step}, but the run has {}; choose a step that it has",
            measure.name,
            counted(steps, "step")
        ))),
        _ => Ok(()),
    }
}

/// Refuses an evaluation at a length that the positions of a model do not reach.
fn check_length(measure: &Measure, length: Length, task: &CheckedTask) -> Result<()> {
    let tokens = length.tokens(task.config().data.max_length)?;
    match task.model().max_length() {
        Some(most) if tokens > most => Err(Error::user(format!(
            "the measure {} needs positions for {tokens} tokens, and the model has learned ones for {most} only; choose \
             model.position = none, rope, alibi or fire, or a shorter length",
            measure.name
        ))),
        _ if !task.config().data.format.format().has_windows() => Err(Error::user(format!(
            "the measure {} has a length, which is for language models on texts; leave it out",
            measure.name
        ))),
        _ => Ok(()),
    }
}

/// How far the run in a folder has got.
///
/// # Errors
/// A folder that holds something else, or a run with other settings.
pub(super) fn state(root: &Path, wanted: &Settings) -> Result<State> {
    let state = State::of(root);
    if state == State::New {
        Folder::check_free(root)?;
        return Ok(state);
    }
    let (found, wanted) = (
        Folder::open(root)?.settings()?.under(&SCHEMA)?,
        Recipe::new(wanted.clone().with_absolute_paths())?,
    );
    match found.difference(&wanted.settings, &[]) {
        None => Ok(state),
        Some(change) => Err(other_setting(&format!("the run in {} has", root.display()), &change)),
    }
}
