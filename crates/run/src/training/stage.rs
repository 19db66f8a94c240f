//! The stages of a run that are left to do: a stage for each phase, or a single one in a run without phases. All are
//! planned before the first step, so that a mistake in the last one costs no training.

use super::account::Account;
use super::planner::{Base, Planned, Planner};
use super::recording::Recordings;
use super::start::Start;
use super::steps::Steps;
use super::work::{Batches, Work};
use crate::folder::manifest::PhaseMark;
use crate::recipe::config::Config;
use crate::recipe::phases::in_phase;
use crate::task::evaluation::Functions;
use crate::task::first_weights::{self, FirstWeights, Origin};
use crate::task::recording::RecordedSplit;
use crate::task::{RunTask, SavedModel, Shapes};
use lessen_base::{Error, Result, allocated};
use lessen_compile::Backend;
use lessen_data::Source;
use lessen_nn::{Joined, ParamSpec, adapter_layer};
use lessen_train::{Session, StepPlans, Trainer, TrainerOptions};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A stage of a run.
pub(crate) struct Stage {
    /// What it trains.
    pub task: RunTask,
    /// Its own steps and batches.
    pub steps: Steps,
    /// Steps of the stages before it.
    pub begun: u64,
    /// Batches of the stages before it.
    batches: u64,
    /// The batches that are left to do.
    range: Range<u64>,
    options: TrainerOptions,
    /// The batches of training and of the evaluation.
    pub sources: Sources,
    /// The layouts of the largest of them.
    pub shapes: Shapes,
    /// Whether no other stage follows.
    pub is_last: bool,
}

/// Batches of training and of the evaluation.
#[derive(Clone)]
pub(crate) struct Sources {
    pub training: Arc<dyn Source>,
    pub dev: Arc<dyn Source>,
}

impl Sources {
    fn of(task: &RunTask) -> Result<Sources> {
        Ok(Sources {
            training: task.training()?,
            dev: task.evaluation("dev")?,
        })
    }
}

/// What training goes on from.
pub(crate) enum From {
    /// The first weights of the stage's model.
    Beginning,
    /// A checkpoint of the stage after this many steps of the run, with this file of states; whether these include the
    /// optimizer's.
    Checkpoint(u64, PathBuf, bool),
    /// The end of the stage before, in the session that this had.
    Before(Box<Session>),
    /// The end of the stage before, in its checkpoint: the folder and the file of the states.
    BeforeIn(PathBuf, PathBuf),
}

impl Stage {
    /// The stages that a start leaves to do, in order: at least one, which may have no steps left.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake, or that do not go together; a budget below the floor, and steps
    /// that the machine's memory cannot hold.
    pub(crate) fn left(
        start: &Start,
        account: &mut Account,
        backend: impl FnOnce() -> Result<Box<dyn Backend>>,
    ) -> Result<Left> {
        let mut tasks = tasks(start)?;
        let first = &tasks[0];
        let data = first.data()?;
        start.check_data(data.digests()?, data.corpus().unit())?;
        let mut sources = sources_of(&tasks)?;
        let steps = tasks.iter().zip(&sources);
        let steps = steps.map(|(task, sources)| Steps::of(&task.config.train, sources.training.as_ref()));
        let mut steps: Vec<Steps> = steps.collect();
        start
            .check_steps(steps[0])
            .map_err(|error| in_place(&tasks[0].config, error))?;

        let mark = start.mark();
        let mut joined = mark.map_or_else(Joined::new, |mark| mark.joined.clone());
        if start.optimizer_since() > 0 {
            let params = tasks[0].parameters().into_iter();
            joined = params.map(|param| (param.name, start.optimizer_since())).collect();
        }
        let (mut begun, mut batches) = mark.map_or((0, 0), |mark| (mark.begun, mark.batches));
        let mut from = match start.states()? {
            Some(states) => From::Checkpoint(start.step(), states, start.has_optimizer()),
            None => From::Beginning,
        };
        let has_ended = start.has_stopped() || begun + steps[0].total == start.step();
        if tasks.len() > 1 && has_ended {
            // The checkpoint is the end of its phase.
            if let (Some(dir), Some(states)) = (start.saved(), start.states()?) {
                from = From::BeforeIn(dir.to_path_buf(), states);
            }
            joined = joined_after(&joined, &tasks[0], &tasks[1], start.step());
            (begun, batches) = (start.step(), batches + steps[0].batches);
            tasks.remove(0);
            steps.remove(0);
            sources.remove(0);
        }
        let count = tasks.len();
        let mut stages: Vec<Stage> = Vec::with_capacity(count);
        for ((task, steps), sources) in tasks.into_iter().zip(steps).zip(sources) {
            if let Some(before) = stages.last() {
                joined = joined_after(&joined, &before.task, &task, begun);
            }
            let options = TrainerOptions {
                schedule_start: begun,
                joined: joined.clone(),
                ..task.options(steps.total)
            };
            // Of the first stage, steps may be done already.
            let done = match stages.is_empty() {
                true => (start.step() - begun.min(start.step())) * options.accumulate as u64,
                false => 0,
            };
            let range = batches + done..batches + steps.batches.max(done);
            stages.push(Stage {
                shapes: Shapes::of(&task, sources.training.as_ref(), sources.dev.as_ref(), range.clone()),
                range,
                task,
                steps,
                begun,
                batches,
                options,
                sources,
                is_last: stages.len() + 1 == count,
            });
            (begun, batches) = (begun + steps.total, batches + steps.batches);
        }
        let mut backend = backend()?;
        let base = Base::of(account.start(), backend.as_mut())?;
        let mut planned: Vec<(Stage, StepPlans)> = Vec::with_capacity(stages.len());
        let mut waiting = 0;
        while let Some(mut stage) = stages.pop() {
            let done = start.step();
            let (plans, growth) = allocated::growth(|| stage.planned(done, backend.as_mut(), (base, waiting)));
            let Planned { plans, parts, budget } = plans.map_err(|error| in_place(&stage.task.config, error))?;
            stage.options.budget = budget;
            account.add(parts);
            waiting += growth.lasting;
            planned.push((stage, plans));
        }
        planned.reverse();
        Ok(Left {
            stages: planned,
            total: begun,
            backend,
            from,
        })
    }

    /// The same stage where it begins after `done` steps: fewer than it was planned for if the stage before it, or one
    /// before that, ended early. Its batches stay those that it was to have: the ones that were not taken are left out.
    pub(crate) fn beginning_after(mut self, done: u64, before: &Stage) -> Stage {
        self.options.joined_at = before.options.joined_at.clone();
        if self.begun != done {
            self.options.joined_at.insert(self.begun, done);
        }
        (self.begun, self.options.schedule_start) = (done, done);
        self
    }

    /// The plans of the stage, which goes on after `done` steps of the run, beside what the process has allocated and
    /// plans of so many bytes.
    fn planned(&self, done: u64, backend: &mut dyn Backend, beside: (Base, usize)) -> Result<Planned> {
        let (sources, range) = (&self.sources, self.range.clone());
        let work = Work {
            task: &self.task,
            options: &self.options,
            shapes: self.shapes,
            batches: Some(Batches::of(sources, range, &self.task, done.max(self.begun))),
        };
        Planner::new(backend, beside, work)?.chosen()
    }

    /// The last step of the stage, of all steps of the run.
    pub(crate) fn end(&self) -> u64 {
        self.begun + self.steps.total
    }

    /// The number of the batch that the step after `done` steps of the run begins with.
    pub(crate) fn first_batch(&self, done: u64) -> u64 {
        self.batches + (done - self.begun) * self.options.accumulate as u64
    }

    /// The phase for a checkpoint; none in a run without phases.
    pub(crate) fn mark(&self) -> Option<PhaseMark> {
        self.task.config.phase.as_ref().map(|name| PhaseMark {
            name: name.clone(),
            begun: self.begun,
            batches: self.batches,
            joined: self.options.joined_in_fact(),
        })
    }

    /// The trainer of the stage, and how its first weights differ from what it goes on from. `backend` is a new device,
    /// unless the stage goes on in the session of the one before.
    ///
    /// # Errors
    /// A checkpoint that is damaged, or not finite.
    pub(crate) fn trainer(
        &self,
        backend: impl FnOnce() -> Result<Box<dyn Backend>>,
        plans: StepPlans,
        from: From,
    ) -> Result<(Trainer, FirstWeights)> {
        let (task, seed, options) = (&self.task, self.options.seed, self.options.clone());
        let params = plans.params.clone();
        match from {
            From::Before(session) => {
                let before: Vec<String> = session.params().iter().map(|param| param.name.clone()).collect();
                let (mut session, new) = session.with_params(params, &plans.states)?;
                session.draw(|name| new.iter().any(|own| own == name), seed)?;
                let drawn = session.params().iter().filter(|param| new.contains(&param.name));
                let drawn = drawn.cloned().collect();
                let has = |name: &String| session.params().iter().any(|param| param.name == *name);
                let unused = before
                    .into_iter()
                    .filter(|name| !has(name) || new.contains(name))
                    .collect();
                let mut trainer = Trainer::from_plans(session, options, plans)?;
                trainer.carry_on_after(self.begun);
                let grown = Vec::new();
                Ok((trainer, FirstWeights { drawn, grown, unused }))
            }
            From::Beginning => {
                let (session, first) = self.filled(backend()?, params, task.origin())?;
                Ok((Trainer::from_plans(session, options, plans)?, first))
            }
            From::Checkpoint(step, states, optimizer) => {
                let (session, first) = self.filled(backend()?, params, task.origin())?;
                let mut trainer = Trainer::from_plans(session, options, plans)?;
                trainer.resume_from(step, &states, optimizer)?;
                Ok((trainer, first))
            }
            From::BeforeIn(dir, states) => {
                // With adapters, the checkpoint has only what is trained, as a state.
                let origin = match &task.fine_tuning.lora {
                    Some(_) => task.origin(),
                    None => Origin::Before(&dir),
                };
                let (session, mut first) = self.filled(backend()?, params, origin)?;
                let mut trainer = Trainer::from_plans(session, options, plans)?;
                let found = trainer.carry_on_from(self.begun, &states)?;
                first.drawn.retain(|param| !found.contains(&param.name));
                Ok((trainer, first))
            }
        }
    }

    /// A session with the first values of parameters, all of them finite.
    fn filled(
        &self,
        backend: Box<dyn Backend>,
        params: Vec<ParamSpec>,
        origin: Origin<'_>,
    ) -> Result<(Session, FirstWeights)> {
        let mut session = Session::zeros(backend, params)?;
        let first = first_weights::fill(&mut session, &self.task.model, origin, self.options.seed)?;
        session.draw(|name| adapter_layer(name).is_some(), self.options.seed)?;
        match (session.broken_parameter()?, self.task.source_of_weights()) {
            (Some(name), Some(dir)) => Err(Error::user(format!(
                "the tensor {name} of the checkpoint {} has values that are no numbers or infinite; start from a sound \
                 one",
                dir.display()
            ))),
            _ => Ok((session, first)),
        }
    }

    /// The functions of the evaluation that were planned with the steps.
    pub(super) fn evaluation(&self, trainer: &Trainer) -> Functions {
        let planned = trainer.functions().first().map(|function| (self.shapes.dev, *function));
        planned.into_iter().collect()
    }

    /// The functions that record statistics and were planned with the steps.
    pub(super) fn recordings(&self, trainer: &Trainer) -> Recordings {
        let planned = self.task.config.record.functions().map(|(split, position)| {
            let shape = match split {
                RecordedSplit::Train => self.shapes.train,
                RecordedSplit::Dev => self.shapes.first_dev,
            };
            ((split, shape), trainer.functions()[position])
        });
        planned.collect()
    }
}

/// What is left to do of a run.
pub(crate) struct Left {
    /// The stages with their plans, in order.
    pub stages: Vec<(Stage, StepPlans)>,
    /// The steps of the run in all.
    pub total: u64,
    /// The device for the first stage.
    pub backend: Box<dyn Backend>,
    /// What the first stage goes on from.
    pub from: From,
}

/// The batches of tasks that follow each other; those of equal ones are shared.
///
/// # Errors
/// Data that is not named, or does not fit the tokenizer or the sizes.
pub(crate) fn sources_of(tasks: &[RunTask]) -> Result<Vec<Sources>> {
    let mut sources: Vec<Sources> = Vec::with_capacity(tasks.len());
    for (number, task) in tasks.iter().enumerate() {
        let before = number
            .checked_sub(1)
            .filter(|before| task.has_batches_of(&tasks[*before]));
        sources.push(match before {
            Some(before) => sources[before].clone(),
            None => Sources::of(task).map_err(|error| in_place(&task.config, error))?,
        });
    }
    Ok(sources)
}

/// The tasks of the phase that a start is in and of those after it.
fn tasks(start: &Start) -> Result<Vec<RunTask>> {
    let mut tasks: Vec<RunTask> = Vec::new();
    for config in start.configs() {
        let task = match tasks.last() {
            Some(before) => before.later(config.clone()),
            None => {
                let saved = start.saved().map(|dir| SavedModel::read(config, dir.into()));
                saved
                    .transpose()
                    .and_then(|saved| RunTask::assemble(config.clone(), saved))
            }
        };
        tasks.push(task.map_err(|error| in_place(config, error))?);
    }
    Ok(tasks)
}

/// An error with the phase in front, where there is one.
pub(crate) fn in_place(config: &Config, error: Error) -> Error {
    match &config.phase {
        Some(name) => error.at(in_phase(name)),
        None => error,
    }
}

/// After how many steps the parameters of a stage joined, if they joined those of the stage before it after the first
/// step, or if the states of an optimizer that counts steps begin anew.
pub(crate) fn joined_after(before: &Joined, old: &RunTask, new: &RunTask, step: u64) -> Joined {
    let (optimizer, other) = (&new.config.optimizer, &old.config.optimizer);
    let known = old.parameters();
    let is_frozen = |name: &str| {
        old.config
            .train
            .freeze
            .as_ref()
            .is_some_and(|frozen| frozen.contains(name))
    };
    let stays = |name: &str, shape: &[usize]| {
        let has_states = !optimizer.counts_steps() || optimizer.states(shape) == other.states(shape);
        has_states && !is_frozen(name) && known.iter().any(|param| param.name == name && param.shape == shape)
    };
    let since = new
        .parameters()
        .into_iter()
        .map(|param| match stays(&param.name, &param.shape) {
            true => (before.get(&param.name).copied().unwrap_or(0), param.name),
            false => (step, param.name),
        });
    since
        .filter(|(since, _)| *since > 0)
        .map(|(since, name)| (name, since))
        .collect()
}
