//! A training phase that is prepared: its task, batches, steps and options are known and checked.

use super::recording::Recordings;
use super::starting_point::StartingPoint;
use crate::planning::budget_search::PhasePlans;
use crate::planning::phase_work::{PhaseBatches, PhaseWork, batches_ahead};
use crate::planning::process_baseline::ProcessBaseline;
use crate::planning::remedies::planned;
use crate::planning::steps::Steps;
use lessen_base::{Error, Result};
use lessen_data::{Batch, Prefetch};
use lessen_device::Backend;
use lessen_nn::{ParamSpec, adapter_layer};
use lessen_task::batch_shape::{inputs_of, shape_of};
use lessen_task::evaluation::Functions;
use lessen_task::first_weights::{self, FirstWeights, WeightSource};
use lessen_task::folder::manifest::PhaseMark;
use lessen_task::recording::RecordedSplit;
use lessen_task::sources::Sources;
use lessen_task::{CheckedTask, Shapes};
use lessen_train::{Part, Session, StepPlans, StepReport, Trainer, TrainerOptions};
use std::ops::Range;

/// A training phase of a run; the only one of a run without phases.
pub(super) struct PreparedPhase {
    /// The task that it trains.
    pub task: CheckedTask,
    /// Steps and batches of this training phase alone.
    pub steps: Steps,
    /// Number of steps of the training phases before it.
    pub begun: u64,
    /// Number of batches of the training phases before it.
    pub(super) batches: u64,
    /// Numbers of the batches that are left.
    pub(super) range: Range<u64>,
    pub(super) options: TrainerOptions,
    /// The sources of batches.
    pub sources: Sources,
    /// The layouts of the largest batches.
    pub shapes: Shapes,
    /// Whether no other training phase follows.
    pub is_last: bool,
}

impl PreparedPhase {
    /// The training phase moved to begin after `done` steps of the run. That is earlier than planned where `before`, or
    /// a phase before it, ended early. The training phase keeps its batches; batches that the phase before did not take
    /// are left out.
    pub(super) fn beginning_after(mut self, done: u64, before: &PreparedPhase) -> PreparedPhase {
        self.options.joined_at = before.options.joined_at.clone();
        if self.begun != done {
            self.options.joined_at.insert(self.begun, done);
        }
        (self.begun, self.options.schedule_start) = (done, done);
        self
    }

    /// The plans of the training phase, which goes on after `done` steps of the run. `beside` has the baseline that the
    /// process has allocated, and the bytes of the plans of later phases.
    pub(super) fn plans(
        &self,
        done: u64,
        backend: &mut dyn Backend,
        beside: (ProcessBaseline, usize),
    ) -> Result<PhasePlans> {
        let (sources, range) = (&self.sources, self.range.clone());
        let work = PhaseWork {
            task: &self.task,
            options: &self.options,
            shapes: self.shapes,
            batches: Some(PhaseBatches::of(sources, range, &self.task, done.max(self.begun))),
        };
        planned(work, backend, beside)
    }

    /// The last step of the training phase, counted from the beginning of the run.
    pub(super) fn end(&self) -> u64 {
        self.begun + self.steps.total
    }

    /// The batches of this process in the steps after `done` steps of the run, made ahead.
    pub(super) fn batches_from(&self, done: u64) -> Result<Prefetch> {
        let numbers = self.options.own_batches_after(self.batches, done - self.begun);
        let ahead = batches_ahead(self.options.own_batches().len());
        Prefetch::of(self.sources.training.clone(), numbers, ahead)
    }

    /// The batches of this process in the step after `done` steps of the run: those that it accumulates, fewer at the
    /// end of the last epoch.
    pub(super) fn next_batches(&self, done: u64, batches: &mut Prefetch) -> Result<Vec<Batch>> {
        let count = self.steps.batches_after(done - self.begun, &self.task.config().train);
        let own = self.options.own_batches();
        own.filter(|index| (*index as u64) < count)
            .map(|_| batches.next_batch())
            .collect()
    }

    /// Trains one step on the batches of this process. A mistake of one process is the error of all.
    pub(super) fn step(&self, trainer: &mut Trainer, made: Result<&[Batch]>) -> Result<StepReport> {
        let (task, goal) = (&self.task, self.task.goal());
        let ready = made.and_then(|made| {
            for shape in made.iter().map(shape_of) {
                if !trainer.has_step(shape) {
                    trainer.add_step(shape, |cx| task.loss(cx, shape))?;
                }
            }
            Ok(made)
        });
        let weight = |batch: &Batch| task.fine_tuning().weight_of(goal, batch);
        let weights = ready.as_ref().map(|made| made.iter().map(weight).collect());
        let shares = trainer.shares(weights.map_err(Error::clone))?;
        let made = ready?;
        let inputs: Vec<_> = made.iter().map(inputs_of).collect();
        let parts = made.iter().zip(&inputs).zip(shares);
        let parts = parts.map(|((batch, inputs), share)| Part::new(share, inputs).at(shape_of(batch)));
        trainer.step_on(&parts.collect::<Vec<_>>())
    }

    /// What a checkpoint says of the training phase; none in a run without phases.
    pub(super) fn mark(&self) -> Option<PhaseMark> {
        self.task.config().phase.as_ref().map(|name| PhaseMark {
            name: name.clone(),
            begun: self.begun,
            batches: self.batches,
            joined: self.options.joined_in_fact(),
        })
    }

    /// The trainer of the training phase, and how its first weights differ from the weights of its starting point.
    /// `new_backend` makes a device, unless the training phase goes on in the session of the phase before.
    ///
    /// # Errors
    /// A checkpoint that is damaged, or not finite.
    pub(super) fn trainer(
        &self,
        new_backend: impl FnOnce() -> Result<Box<dyn Backend>>,
        plans: StepPlans,
        from: StartingPoint,
    ) -> Result<(Trainer, FirstWeights)> {
        let (task, seed, options) = (&self.task, self.options.seed, self.options.clone());
        let params = plans.params.clone();
        match from {
            StartingPoint::Session(session) => {
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
            StartingPoint::FirstWeights => {
                let (session, first) = self.filled(new_backend()?, params, task.weight_source())?;
                Ok((Trainer::from_plans(session, options, plans)?, first))
            }
            StartingPoint::Checkpoint {
                step,
                states,
                has_optimizer,
            } => {
                let (session, first) = self.filled(new_backend()?, params, task.weight_source())?;
                let mut trainer = Trainer::from_plans(session, options, plans)?;
                trainer.resume_from(step, &states, has_optimizer)?;
                Ok((trainer, first))
            }
            StartingPoint::CheckpointOfPhaseBefore { dir, states } => {
                // With adapters, the checkpoint has only what is trained, as a state.
                let source = match &task.fine_tuning().lora {
                    Some(_) => task.weight_source(),
                    None => WeightSource::Before(&dir),
                };
                let (session, mut first) = self.filled(new_backend()?, params, source)?;
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
        source: WeightSource<'_>,
    ) -> Result<(Session, FirstWeights)> {
        let mut session = Session::zeros(backend, params)?;
        let first = first_weights::fill(&mut session, self.task.model(), source, self.options.seed)?;
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
        let planned = self.task.config().record.functions().map(|(split, position)| {
            let shape = match split {
                RecordedSplit::Train => self.shapes.train,
                RecordedSplit::Dev => self.shapes.first_dev,
            };
            ((split, shape), trainer.functions()[position])
        });
        planned.collect()
    }
}
