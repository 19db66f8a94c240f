//! Training of one model, step by step: whatever can be written as a function from a [`Context`] to a loss.
//!
//! The trainer traces the function, adds derivative and update, compiles the whole, and holds parameters and the
//! optimizer's state. Where batches come from and what happens between steps is the caller's. This file has the
//! beginning and the end of a training; `step` has the step, `functions` what runs beside it, `state` what a file keeps
//! of it, and `checkpoint` a folder that keeps all of it.

mod checkpoint;
mod functions;
mod state;
mod step;

pub use self::step::{Part, StepReport};

use self::step::{Numbers, StepFunctions};
use crate::graphs::{Delayed, Late, StepGraphs};
use crate::options::TrainerOptions;
use crate::plans::StepPlans;
use crate::session::{Function, Session};
use lessen_base::Result;
use lessen_device::SharedDevice;
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Centred, Context, ParamSpec, Weights};
use std::collections::HashMap;

/// The planned and the measured most bytes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// What the plans say: states, constants and the largest arena.
    pub planned: usize,
    /// What has been allocated for states, constants and the arena by now.
    pub measured: usize,
}

/// A model in training.
pub struct Trainer {
    session: Session,
    states: Vec<String>,
    gradient_sums: Vec<String>,
    /// The graphs of a step by the layout of batches; those of a single one where that is always the same.
    steps: HashMap<Option<BatchShape>, StepFunctions>,
    /// With forward-fused updates, the graph that updates before the parameters are used.
    flush: Option<Function>,
    /// The numbers that the update of the last step reads, if it has not run yet.
    pending: Option<Numbers>,
    /// With accumulation, the graph that updates after the last batch.
    apply: Option<Function>,
    functions: Vec<Function>,
    options: TrainerOptions,
    /// The states whose updates are delayed.
    late: Late,
    /// What the plans say of states and constants.
    planned_lasting: usize,
    /// The largest arena of a plan.
    planned_arena: usize,
    done: u64,
}

impl Trainer {
    /// Prepares training of the function `loss`, which declares its inputs and parameters through the context and
    /// returns a scalar. Parameters begin with the values that they were declared with.
    ///
    /// # Errors
    /// Shapes that do not fit each other and a loss that is no scalar, with the line of the model function; a budget
    /// below the floor, and a step that the machine's memory cannot hold. Nothing is allocated then.
    pub fn new(
        device: impl Into<SharedDevice>,
        options: TrainerOptions,
        loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<Trainer> {
        let device = device.into();
        let plans = StepPlans::new(&*device.lock(), &options, &StepGraphs::new(&options, loss)?)?;
        device.memory().check(plans.peak_bytes())?;
        let mut session = Session::zeros(device, plans.params.clone())?;
        session.draw(|_| true, options.seed)?;
        Trainer::from_plans(session, options, plans)
    }

    /// [`Trainer::new`] from plans made with [`StepPlans::new`] for the same device and options, in a session with
    /// their parameters. Its other states keep their values, too. Where norms subtract no mean, the parameters are
    /// recentred for it.
    ///
    /// # Errors
    /// States that the device's memory cannot hold, or that the session has in another type.
    pub fn from_plans(mut session: Session, options: TrainerOptions, plans: StepPlans) -> Result<Trainer> {
        let (planned_lasting, planned_arena) = (plans.lasting_bytes(), plans.arena_bytes());
        session.keep_arena(planned_arena);
        session.read_as(plans.reading);
        session.set_precision(options.precision);
        let step = session.load(plans.step)?;
        let (first, flush) = match plans.delayed {
            Some(Delayed { first, flush }) => (Some(session.load(first)?), Some(session.load(flush)?)),
            None => (None, None),
        };
        let steps = HashMap::from([(plans.shape, StepFunctions { step, first })]);
        let apply = plans.apply.map(|plan| session.load(plan)).transpose()?;
        let functions = plans.functions.into_iter().map(|plan| session.load(plan));
        let functions = functions.collect::<Result<_>>()?;
        session.recentre()?;
        Ok(Trainer {
            session,
            states: plans.states.into_iter().map(|(name, _)| name).collect(),
            gradient_sums: plans.gradient_sums,
            steps,
            flush,
            pending: None,
            apply,
            functions,
            options,
            late: plans.late,
            planned_lasting,
            planned_arena,
            done: 0,
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

    /// Whether products read `bf16` that the device has no instructions for, which takes longer than `f32`.
    pub fn widens_bf16(&self) -> bool {
        self.session.widens_bf16()
    }

    /// Whether a parameter is trained.
    pub fn trains(&self, param: &ParamSpec) -> bool {
        self.options.update_rule().trains(param)
    }

    /// The parameters' values.
    ///
    /// # Errors
    /// A device that fails.
    pub fn weights(&mut self) -> Result<Weights> {
        self.flush()?;
        self.session.weights()
    }

    /// Gives parameters other values; those that `weights` lacks keep theirs.
    ///
    /// # Errors
    /// A name that the model does not have, or a wrong shape.
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

    /// The parameters that are kept recentred for norms that subtract no mean, and along which axes.
    pub fn centred(&self) -> &Centred {
        self.session.reading().centred()
    }

    /// Steps done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The most bytes of training: parameters, the optimizer's state, constants and the arena.
    pub fn peak(&self) -> Peak {
        let used = self.session.memory().used;
        Peak {
            planned: self.planned_lasting + self.planned_arena,
            measured: used.total(),
        }
    }

    /// Ends the training; the session has what it results in: parameters with the values of their averages, and weights
    /// to which adapters have been added.
    ///
    /// # Errors
    /// A device that fails.
    pub fn finish(mut self) -> Result<Session> {
        self.session()?.finish()?;
        Ok(self.session)
    }

    /// Ends the training; the session has the parameters and the states of training.
    ///
    /// # Errors
    /// A device that fails.
    pub fn into_session(mut self) -> Result<Session> {
        self.flush()?;
        Ok(self.session)
    }
}
