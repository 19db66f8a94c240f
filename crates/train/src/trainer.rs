//! Training of one model, step by step: whatever can be written as a function from a [`Context`] to a loss.
//!
//! The trainer traces the function, adds derivative and update, compiles the whole, and holds parameters and the
//! optimizer's state. Where batches come from and what happens between steps is the caller's.

use crate::inference::{Function, Inputs, Runs, read_weights, run, scalar, write_weights};
use crate::plans::{StepPlans, TrainerOptions};
use crate::saved::StateArray;
use lessen_base::{Error, Result};
use lessen_cpu::{Device, Executable, Host, Store};
use lessen_graph::Tensor;
use lessen_nn::{Context, ParamSpec, Weights, initialize};
use std::time::{Duration, Instant};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The number of this step, from 1.
    pub step: u64,
    /// The loss before the update, over all batches of the step.
    pub loss: f32,
    /// The learning rate.
    pub lr: f64,
    /// The length of the gradient before it was clipped, where it is clipped.
    pub gradient_norm: Option<f32>,
    /// How long it took.
    pub time: Duration,
}

/// The planned and the measured most bytes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// What the plans say: states, constants and the largest arena of a step.
    pub planned: usize,
    /// What has been allocated for states, constants and the arena by now.
    pub measured: usize,
}

/// A model in training.
pub struct Trainer {
    device: Device,
    store: Store,
    params: Vec<ParamSpec>,
    states: Vec<String>,
    step: Executable,
    /// With accumulation, the graph that updates after the last batch.
    apply: Option<Executable>,
    options: TrainerOptions,
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
    /// A budget below the floor, and a step that the machine's memory cannot hold; nothing is allocated then.
    pub fn new(
        device: Device,
        options: TrainerOptions,
        loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<Trainer> {
        let plans = StepPlans::of(&device, &options, loss)?;
        plans.check_memory()?;
        let weights = initialize(&plans.params, options.seed);
        Trainer::from_plans(device, options, plans, &weights)
    }

    /// [`Trainer::new`] from plans that are there already, and the parameters' first values.
    ///
    /// # Errors
    /// A parameter without value or of another shape.
    pub fn from_plans(
        device: Device,
        options: TrainerOptions,
        plans: StepPlans,
        weights: &Weights,
    ) -> Result<Trainer> {
        let planned_arena = plans.arena_bytes();
        let planned_lasting = plans.peak_bytes() - planned_arena;
        let mut store = Store::new();
        for param in &plans.params {
            let (name, shape) = (&param.name, &param.shape);
            match weights.get(name).filter(|weight| weight.shape == *shape) {
                Some(weight) => store.insert_f32(name, shape, &weight.data),
                None => {
                    return Err(Error::user(format!(
                        "there is no value of shape {shape:?} for `{name}`"
                    )));
                }
            }
        }
        for (name, ty) in &plans.states {
            store.insert_zeros(name, ty)?;
        }
        Ok(Trainer {
            device,
            store,
            params: plans.params,
            states: plans.states.into_iter().map(|(name, _)| name).collect(),
            step: Executable::load(plans.step),
            apply: plans.apply.map(Executable::load),
            options,
            planned_lasting,
            planned_arena,
            done: 0,
        })
    }

    /// One step on one batch. `inputs` may hold more than the function declared.
    ///
    /// # Errors
    /// An input that is missing or of another type than declared, an index out of range.
    pub fn step(&mut self, inputs: &Inputs<'_>) -> Result<StepReport> {
        self.step_on(&[(1.0, inputs)])
    }

    /// One step on as many batches as the options' `accumulate` says, or on fewer where the data ends, each with its
    /// share in the loss; the shares sum to 1.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    ///
    /// # Panics
    /// Without a batch, and with more of them.
    pub fn step_on(&mut self, batches: &[(f32, &Inputs<'_>)]) -> Result<StepReport> {
        assert!(
            (1..=self.options.accumulate).contains(&batches.len()),
            "at least one batch, and at most as many as are accumulated"
        );
        let begun = Instant::now();
        let lr = self
            .options
            .schedule
            .lr(usize::try_from(self.done).unwrap_or(usize::MAX));
        let (rate, number) = ([lr as f32], [(self.done + 1) as f32]);
        let mut loss = 0.0;
        for (index, (share, inputs)) in batches.iter().enumerate() {
            let draw = self.done * self.options.accumulate as u64 + index as u64;
            let key = [folded(self.options.seed), draw as u32];
            let share = [*share];
            let own: [(&str, Host<'_>); 4] = [
                ("lr", Host::F32(&rate)),
                ("t", Host::F32(&number)),
                ("key", Host::U32(&key)),
                ("share", Host::F32(&share)),
            ];
            let all: Vec<(&str, Host<'_>)> = own.into_iter().chain(inputs.iter().copied()).collect();
            run(&mut self.step, &mut self.device, &mut self.store, &all)?;
            loss += share[0] * scalar(&self.step, "loss").unwrap_or(f32::NAN);
        }
        if let Some(apply) = &mut self.apply {
            let own = [("lr", Host::F32(&rate)), ("t", Host::F32(&number))];
            run(apply, &mut self.device, &mut self.store, &own)?;
        }
        let gradient_norm = scalar(self.apply.as_ref().unwrap_or(&self.step), "gradient_norm");
        self.done += 1;
        Ok(StepReport {
            step: self.done,
            loss,
            lr,
            gradient_norm,
            time: begun.elapsed(),
        })
    }

    /// Compiles a graph over the same parameters, without dropout: `trace` returns its results by name.
    ///
    /// # Errors
    /// A parameter that the trainer does not have, and a graph that the machine's memory cannot hold.
    pub fn function(
        &mut self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Function> {
        let states = self.store.bytes();
        let function = Function::new(&self.device, &mut self.store, &self.params, trace)?;
        self.planned_lasting += self.store.bytes() - states;
        self.planned_arena = self.planned_arena.max(function.plan().arena_bytes());
        Ok(function)
    }

    /// Runs a function. `inputs` may hold more than it declared.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn run(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        function.run(&mut self.device, &mut self.store, inputs)
    }

    /// Steps done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The parameters: names, shapes, first values.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// The parameters' values.
    pub fn weights(&self) -> Weights {
        read_weights(&self.store, &self.params)
    }

    /// Gives parameters other values; those that `weights` lacks keep theirs.
    ///
    /// # Errors
    /// A name that the model does not have, or a wrong shape.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        write_weights(&mut self.store, &self.params, weights)
    }

    /// The name of a parameter with a value that is no number, or infinite.
    pub fn broken_parameter(&self) -> Option<&str> {
        let broken = |name: &str| {
            self.store
                .f32(name)
                .is_some_and(|data| data.iter().any(|v| !v.is_finite()))
        };
        self.params
            .iter()
            .map(|param| param.name.as_str())
            .find(|name| broken(name))
    }

    /// What the optimizer remembers.
    pub fn state(&self) -> Vec<StateArray> {
        let array = |name: &String| {
            let (shape, data) = (self.store.shape(name)?.to_vec(), self.store.f32(name)?.to_vec());
            Some(StateArray {
                name: name.clone(),
                shape,
                data,
            })
        };
        self.states.iter().filter_map(array).collect()
    }

    /// Goes on after `done` steps with what the optimizer remembered then.
    ///
    /// # Errors
    /// A state that the optimizer does not have, lacks, or has in another shape.
    pub fn resume(&mut self, done: u64, state: &[StateArray]) -> Result<()> {
        let differs =
            || Error::user("the checkpoint is of another optimizer; resume with the settings that it had");
        if state.len() != self.states.len() {
            return Err(differs());
        }
        for array in state {
            if !self.states.contains(&array.name) || self.store.shape(&array.name) != Some(&array.shape[..]) {
                return Err(differs());
            }
            self.store.insert_f32(&array.name, &array.shape, &array.data);
        }
        self.done = done;
        Ok(())
    }

    /// The most bytes of training: parameters, the optimizer's state, constants and the arena.
    pub fn peak(&self) -> Peak {
        let executables = std::iter::once(&self.step).chain(&self.apply);
        let constants: usize = executables.map(Executable::constant_bytes).sum();
        Peak {
            planned: self.planned_lasting + self.planned_arena,
            measured: self.store.bytes() + constants + self.device.arena_bytes(),
        }
    }
}

/// A seed as one word of a dropout key. Seeds that differ in their high halves alone, or in their low ones alone, give
/// different words: the factor is odd.
fn folded(seed: u64) -> u32 {
    seed as u32 ^ ((seed >> 32) as u32).wrapping_mul(0x9E37_79B9)
}

impl Runs for Trainer {
    fn run_function(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        self.run(function, inputs)
    }
}
