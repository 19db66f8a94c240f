//! Training of one model, step by step. A model is a function from a [`Cx`] to a loss.
//!
//! The trainer traces the function, adds derivative and update, compiles the graph, and holds parameters and optimizer
//! states. Batches, and work between steps, belong to the caller. This file has the beginning and the end of a
//! training; `step` has the step, `steps` how it runs, `named` steps of other losses, `functions` the functions beside
//! them, `state` files of states, `checkpoint` whole checkpoints, and `snapshot` the same in memory.

mod checkpoint;
mod functions;
mod group_functions;
mod groups;
mod named;
mod part;
mod side_by_side;
mod snapshot;
mod state;
mod step;
mod steps;

pub use self::named::StepOptions;
pub use self::part::{Part, StepReport};
pub use self::snapshot::Snapshot;

use self::group_functions::GroupFunctions;
use self::named::Named;
use self::steps::{StepFunctions, Steps};
use crate::function_graph::check_params;
use crate::graphs::StepGraphs;
use crate::options::{NonFinite, TrainerOptions};
use crate::plans::StepPlans;
use crate::session::{Function, Session};
use crate::update_graphs::Delayed;
use lessen_base::Result;
use lessen_device::SharedDevice;
use lessen_graph::{Tensor, numel};
use lessen_nn::{Centred, Cx, LrSchedule, ParamSpec, Weights};
use std::collections::{BTreeMap, HashMap};

/// Planned and measured peak of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Bytes of states, constants and the largest arena, by the plans.
    pub planned: usize,
    /// Bytes that the device has allocated by now for states, constants and the arena of all its models.
    pub measured: usize,
}

/// A model in training.
pub struct Trainer {
    session: Session,
    states: Vec<String>,
    /// The steps of the loss that the trainer was made for.
    first: Steps,
    /// Steps of other losses, by name.
    named: BTreeMap<String, Named>,
    functions: Vec<Function>,
    /// Planned bytes of states and constants.
    planned_lasting: usize,
    /// Planned bytes of the arena: the most of all plans.
    planned_arena: usize,
}

impl Trainer {
    /// Prepares training of the function `loss`, which declares its inputs and parameters through the context and
    /// returns a scalar. Parameters begin with the values that they were declared with.
    ///
    /// # Errors
    /// Settings that [`TrainerOptions::check`] refuses; shapes that do not fit each other and a loss that is no scalar,
    /// with the line of the model function; a budget below the floor, and a step that the device's memory cannot hold.
    /// Nothing is allocated then.
    pub fn new(
        device: impl Into<SharedDevice>,
        options: TrainerOptions,
        loss: impl Fn(Cx) -> Tensor,
    ) -> Result<Trainer> {
        let device = device.into();
        let graphs = StepGraphs::new(&options, loss)?;
        let mut plans = StepPlans::new(&device, &options, &graphs)?;
        let kept = plans.kept_by_all(&options.group)?;
        if kept != plans.kept_quarters() {
            let options = TrainerOptions {
                kept_quarters: Some(kept),
                ..options.clone()
            };
            plans = StepPlans::new(&device, &options, &graphs)?;
        }
        let memory = device.memory().check(plans.peak_bytes());
        memory.map_err(
            |error| match plans.params.iter().max_by_key(|param| numel(&param.shape)) {
                Some(ParamSpec { name, shape, .. }) => error.at(format!(
                    "a model whose largest parameter is `{name}` of shape {shape:?}"
                )),
                None => error,
            },
        )?;
        let mut session = Session::zeros(&device, plans.params.clone())?;
        session.set_pieces(plans.pieces.clone())?;
        session.draw(|_| true, options.seed)?;
        Trainer::from_plans(session, options, plans)
    }

    /// [`Trainer::new`] from plans made with [`StepPlans::new`] for the same device and options, in a session with the
    /// plans' parameters. Other states of the session keep their values, too. Where norms subtract no mean, the
    /// parameters are recentred for it.
    ///
    /// # Errors
    /// Options that the plans were not made with; a session without the plans' parameters; states that the device's
    /// memory cannot hold, or that the session has in another type.
    pub fn from_plans(mut session: Session, options: TrainerOptions, plans: StepPlans) -> Result<Trainer> {
        plans.check_options(&options)?;
        check_params(session.params(), &plans.params)?;
        let exchanges = plans.exchanges()?;
        options
            .group
            .agree_same("the order of exchanges", &exchanges.checksum())?;
        let (planned_lasting, planned_arena) = (plans.lasting_bytes(), plans.arena_bytes());
        session.keep_arena(planned_arena);
        session.set_view(plans.view);
        session.set_precision(options.precision);
        session.set_seed(options.seed);
        session.set_pieces(plans.pieces)?;
        let step = session.load(plans.step)?;
        let (first, flush) = match plans.delayed {
            Some(Delayed { first, flush }) => (Some(session.load(first)?), Some(session.load(flush)?)),
            None => (None, None),
        };
        let mark = plans.mark;
        let last = plans.last.map(|plan| session.load(plan)).transpose()?;
        let functions = StepFunctions {
            step,
            first,
            last,
            mark,
        };
        let by_layout = HashMap::from([(plans.shape, functions)]);
        let apply = plans.apply.map(|plan| session.load(plan)).transpose()?;
        let groups = GroupFunctions::load(&mut session, &options, plans.groups)?;
        let functions = plans.functions.into_iter().map(|plan| session.load(plan));
        let functions = functions.collect::<Result<_>>()?;
        session.recentre()?;
        Ok(Trainer {
            session,
            states: plans.states.into_iter().map(|(name, _)| name).collect(),
            first: Steps {
                options,
                functions: by_layout,
                apply,
                flush,
                late: plans.late,
                carrier: plans.carrier,
                exchanges,
                gradient_sums: plans.gradient_sums,
                groups,
                side_by_side: plans.side_by_side,
                carried: plans.carried,
                pending: None,
                lr: None,
                rates: None,
                done: 0,
                broken: None,
            },
            named: BTreeMap::new(),
            functions,
            planned_lasting,
            planned_arena,
        })
    }

    /// The session in which the steps run, with the parameters of the last step.
    ///
    /// # Errors
    /// A device that fails.
    pub fn session(&mut self) -> Result<&mut Session> {
        self.flush()?;
        Ok(&mut self.session)
    }

    /// The parameters: names, shapes, first values.
    pub fn params(&self) -> &[ParamSpec] {
        self.session.params()
    }

    /// The options.
    pub fn options(&self) -> &TrainerOptions {
        &self.first.options
    }

    /// Gives parameters in no group, and groups without a schedule of their own, another learning-rate schedule from
    /// the next step on, also in place of the rate of [`Trainer::set_lr`].
    ///
    /// # Errors
    /// A schedule that [`LrSchedule::check`] refuses; the trainer keeps the one before.
    pub fn set_schedule(&mut self, schedule: LrSchedule) -> Result<()> {
        schedule.check()?;
        self.first.options.schedule = schedule;
        self.first.lr = None;
        Ok(())
    }

    /// Sets what happens to steps whose loss is not finite, and returns what happened before: `Stop` or `Allow`, which
    /// have the same graphs.
    pub(crate) fn set_non_finite(&mut self, non_finite: NonFinite) -> NonFinite {
        std::mem::replace(&mut self.first.options.non_finite, non_finite)
    }

    /// Planned bytes of the states on the device, parameters among them.
    pub(crate) fn planned_state_bytes(&self) -> usize {
        self.session.planned_memory().states
    }

    /// Whether products read `bf16` that the device has no instructions for, which takes longer than `f32`.
    pub fn widens_bf16(&self) -> bool {
        self.session.widens_bf16()
    }

    /// Whether a parameter is trained, by the first step or a named one.
    pub fn trains(&self, param: &ParamSpec) -> bool {
        let by_name = self.named.values().any(|named| named.trains(param));
        by_name || self.first.options.update_rule().trains(param)
    }

    /// The parameters' values.
    ///
    /// # Errors
    /// A device that fails.
    pub fn weights(&mut self) -> Result<Weights> {
        self.flush()?;
        self.session.weights()
    }

    /// Gives parameters other values; a parameter that `weights` lacks keeps its value.
    ///
    /// # Errors
    /// A name that the model does not have, a wrong shape or number of elements; no parameter has changed then.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.flush()?;
        self.session.set_weights(weights)
    }

    /// The name of a parameter with a value that is NaN or infinite.
    ///
    /// # Errors
    /// A device that fails.
    pub fn broken_parameter(&mut self) -> Result<Option<&str>> {
        self.flush()?;
        self.session.broken_parameter()
    }

    /// Parameters that stay recentred for norms that subtract no mean, with the axes of their means.
    pub fn centred(&self) -> &Centred {
        self.session.view().centred()
    }

    /// The learning rates of the next step: first the rate of parameters in no group, then the rate of each group.
    pub fn learning_rates(&self) -> Vec<f64> {
        self.first.learning_rates()
    }

    /// Sets the learning rate of the steps that come, in place of the schedule; parameter groups have their factor of
    /// it, or their own schedule. Checkpoints keep it.
    ///
    /// # Errors
    /// A rate that is negative or not finite.
    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        self.first.set_lr(lr)
    }

    /// Sets the learning rates of the steps that come, in place of all schedules: first that of parameters in no group,
    /// then that of each group. Checkpoints do not keep them.
    ///
    /// # Errors
    /// Another number of rates; a rate that is negative or not finite.
    pub fn set_rates(&mut self, rates: &[f64]) -> Result<()> {
        self.first.set_rates(rates)
    }

    /// Steps done, without named ones.
    pub fn done(&self) -> u64 {
        self.first.done
    }

    /// Peak of the training: parameters, optimizer states, constants and the arena.
    pub fn peak(&self) -> Peak {
        Peak {
            planned: self.planned_lasting + self.planned_arena,
            measured: self.session.memory().used.total(),
        }
    }

    /// Ends the training. The session has its results: parameters with the values of their averages, and weights with
    /// the products of their adapters.
    ///
    /// # Errors
    /// A device that fails.
    pub fn finish(mut self) -> Result<Session> {
        self.flush()?;
        self.session.join_params()?;
        self.session.finish()?;
        Ok(self.session)
    }

    /// Ends the training; the session has the parameters and the states of training.
    ///
    /// # Errors
    /// A device that fails.
    pub fn into_session(mut self) -> Result<Session> {
        self.flush()?;
        self.session.join_params()?;
        Ok(self.session)
    }
}
