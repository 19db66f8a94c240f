//! Training of one model, step by step: whatever can be written as a function from a [`Context`] to a loss.
//!
//! The trainer traces the function, adds derivative and update, compiles the whole, and holds parameters and the
//! optimizer's state. Where batches come from and what happens between steps is the caller's.

use crate::error::{Error, Result};
use crate::memory::available_bytes;
use crate::saved::StateArray;
use crate::size::show_size;
use lessen_compile::{Options, Placement, Plan};
use lessen_cpu::{Device, Executable, Host, Store};
use lessen_graph::{Graph, InputKind, Tensor, Trace, Type};
use lessen_nn::{Context, OptimizerConfig, ParamSpec, Schedule, Weight, Weights, initialize, optimizer};
use std::time::{Duration, Instant};

/// Named arrays for the inputs of a graph.
pub type Inputs<'a> = [(&'a str, Host<'a>)];

/// How to train.
#[derive(Clone, Debug)]
pub struct TrainerOptions {
    /// The rule of the update.
    pub optimizer: OptimizerConfig,
    /// The learning rate of every step.
    pub schedule: Schedule,
    /// Decides the first parameters and everything random inside the model.
    pub seed: u64,
    /// Longest gradient over all parameters; none is no limit.
    pub clip_norm: Option<f64>,
    /// Batches that make one step.
    pub accumulate: usize,
    /// When parameters are updated; it changes no result.
    pub placement: Placement,
    /// Most bytes that parameters, optimizer and the step's own memory may take together.
    pub budget: Option<usize>,
}

impl TrainerOptions {
    /// AdamW at a constant learning rate.
    pub fn new(lr: f64) -> TrainerOptions {
        use lessen_nn::ScheduleKind::Constant;
        TrainerOptions {
            optimizer: OptimizerConfig::adamw(0.0),
            schedule: Schedule { kind: Constant, peak: lr, warmup: 0, total: 0 },
            seed: 1,
            clip_norm: None,
            accumulate: 1,
            placement: Placement::default(),
            budget: None,
        }
    }
}

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
    /// What the plans said before the first step.
    pub planned: usize,
    /// What states, constants and arena take.
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
    done: u64,
}

/// A graph over the trainer's parameters that changes none of them: evaluation, prediction.
pub struct Function {
    executable: Executable,
}

impl Function {
    /// A result of the last run, in row-major order.
    pub fn output(&self, name: &str) -> Option<&[f32]> {
        self.executable.output_f32(name)
    }
}

/// The graphs of a training step, with their plans.
pub struct StepPlans {
    /// The graph that runs for every batch.
    pub step: Plan,
    /// With accumulation, the graph that updates after the last batch.
    pub apply: Option<Plan>,
    /// The parameters.
    pub params: Vec<ParamSpec>,
    /// Names and types of the states beside the parameters; they begin as zeros.
    pub states: Vec<(String, Type)>,
}

impl StepPlans {
    /// Traces, differentiates and compiles a training step for a device.
    ///
    /// # Errors
    /// A budget below the floor.
    pub fn new(
        device: &Device,
        options: &TrainerOptions,
        loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<StepPlans> {
        let accumulates = options.accumulate > 1;
        let trace = Trace::new();
        let cx = Context::new(&trace, true);
        let value = loss(&cx);
        trace.output("loss", value);
        let (optimizer, clip) = (&options.optimizer, options.clip_norm);
        let mut states = if accumulates {
            optimizer::accumulate(&cx, value)
        } else {
            finish_update(&trace, optimizer::update(&cx, value, optimizer, clip))
        };
        let params = cx.params();
        drop(cx);
        let step = plan(device, &trace.finish(), options)?;
        let apply = if accumulates {
            let trace = Trace::new();
            let cx = Context::new(&trace, true);
            states.extend(finish_update(&trace, optimizer::apply(&cx, &params, optimizer, clip)));
            drop(cx);
            Some(plan(device, &trace.finish(), options)?)
        } else {
            None
        };
        let states = states.into_iter().map(|state| (state.name, Type::f32(&state.shape))).collect();
        Ok(StepPlans { step, apply, params, states })
    }

    /// The most bytes that the step takes: all states, and the larger arena.
    pub fn peak_bytes(&self) -> usize {
        let of_apply = self.apply.as_ref().map_or(0, |apply| apply.arena_bytes + apply.constant_bytes);
        let of_step = self.step.arena_bytes + self.step.constant_bytes;
        self.state_bytes() + of_step.max(of_apply)
    }

    /// Bytes of parameters, sums of gradients and the optimizer's state.
    pub fn state_bytes(&self) -> usize {
        let of_params: usize = self.params.iter().map(|param| Type::f32(&param.shape).bytes()).sum();
        of_params + self.states.iter().map(|(_, ty)| ty.bytes()).sum::<usize>()
    }

    /// How long compiling took.
    pub fn compile_time(&self) -> Duration {
        self.step.compile_time + self.apply.as_ref().map_or(Duration::ZERO, |apply| apply.compile_time)
    }
}

fn finish_update(trace: &Trace, update: lessen_nn::Update<'_>) -> Vec<lessen_nn::StateSpec> {
    if let Some(norm) = update.gradient_norm {
        trace.output("gradient_norm", norm);
    }
    update.states
}

fn plan(device: &Device, graph: &Graph, options: &TrainerOptions) -> Result<Plan> {
    let options = Options { threads: device.threads(), placement: options.placement, budget: options.budget };
    device.compile(graph, &options).map_err(|error| match options.budget {
        Some(_) => Error::user(error),
        None => Error::internal(error),
    })
}

/// Refuses what the memory of this machine cannot hold.
///
/// # Errors
/// A plan that needs more than is available; `remedy` says what to do.
pub fn check_memory(needed: usize, remedy: &str) -> Result<()> {
    match available_bytes() {
        Some(available) if needed > available => Err(Error::user(format!(
            "the plan needs {} of memory but only {} are available; {remedy}",
            show_size(needed),
            show_size(available)
        ))),
        _ => Ok(()),
    }
}

const REMEDY: &str = "take a smaller batch or model, or set a budget";

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
        let plans = StepPlans::new(&device, &options, loss)?;
        Trainer::from_plans(device, options, plans)
    }

    /// [`Trainer::new`] from plans that are there already.
    ///
    /// # Errors
    /// A step that the machine's memory cannot hold.
    pub fn from_plans(device: Device, options: TrainerOptions, plans: StepPlans) -> Result<Trainer> {
        check_memory(plans.peak_bytes(), REMEDY)?;
        let mut store = Store::new();
        for (name, weight) in initialize(&plans.params, options.seed) {
            store.insert_f32(&name, &weight.shape, &weight.data);
        }
        for (name, ty) in &plans.states {
            store.insert_zeros(name, ty);
        }
        Ok(Trainer {
            device,
            store,
            params: plans.params,
            states: plans.states.into_iter().map(|(name, _)| name).collect(),
            step: Executable::load(plans.step),
            apply: plans.apply.map(Executable::load),
            options,
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

    /// One step on as many batches as the options' `accumulate` says, each with its share in the loss; the shares
    /// sum to 1.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    ///
    /// # Panics
    /// With another number of batches.
    pub fn step_on(&mut self, batches: &[(f32, &Inputs<'_>)]) -> Result<StepReport> {
        assert_eq!(batches.len(), self.options.accumulate, "as many batches as are accumulated");
        let begun = Instant::now();
        let lr = self.options.schedule.lr(usize::try_from(self.done).unwrap_or(usize::MAX));
        let (rate, number) = ([lr as f32], [(self.done + 1) as f32]);
        let mut loss = 0.0;
        for (index, (share, inputs)) in batches.iter().enumerate() {
            let draw = self.done * batches.len() as u64 + index as u64;
            let key = [self.options.seed as u32, draw as u32];
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
        Ok(StepReport { step: self.done, loss, lr, gradient_norm, time: begun.elapsed() })
    }

    /// Compiles a graph over the same parameters, without dropout: `trace` returns its results by name.
    ///
    /// # Errors
    /// A graph that the machine's memory cannot hold.
    ///
    /// # Panics
    /// When it declares a parameter that the trainer does not have.
    pub fn function(
        &self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Function> {
        let plan = plan_function(&self.device, trace, &self.params)?;
        // The states are allocated already, and the arena is shared with the step.
        let more = (plan.constant_bytes + plan.arena_bytes).saturating_sub(self.device.arena_bytes());
        check_memory(more, REMEDY)?;
        Ok(Function { executable: Executable::load(plan) })
    }

    /// Runs a function. `inputs` may hold more than it declared.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn run(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        run(&mut function.executable, &mut self.device, &mut self.store, inputs)
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
        let broken = |name: &str| self.store.f32(name).is_some_and(|data| data.iter().any(|v| !v.is_finite()));
        self.params.iter().map(|param| param.name.as_str()).find(|name| broken(name))
    }

    /// What the optimizer remembers.
    pub fn state(&self) -> Vec<StateArray> {
        let array = |name: &String| {
            let (shape, data) = (self.store.shape(name)?.to_vec(), self.store.f32(name)?.to_vec());
            Some(StateArray { name: name.clone(), shape, data })
        };
        self.states.iter().filter_map(array).collect()
    }

    /// Goes on after `done` steps with what the optimizer remembered then.
    ///
    /// # Errors
    /// A state that the optimizer does not have, lacks, or has in another shape.
    pub fn resume(&mut self, done: u64, state: &[StateArray]) -> Result<()> {
        let differs = || Error::user("the checkpoint is of another optimizer; resume with the settings that it had");
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

    /// The most bytes of the training step.
    pub fn peak(&self) -> Peak {
        let states = self.store.bytes();
        let planned = |exe: &Executable| exe.plan().arena_bytes + exe.plan().constant_bytes;
        let measured = |exe: &Executable| exe.measured_peak_bytes().saturating_sub(exe.plan().state_bytes);
        let executables = || std::iter::once(&self.step).chain(&self.apply);
        Peak {
            planned: states + executables().map(planned).max().unwrap_or(0),
            measured: states + executables().map(measured).max().unwrap_or(0),
        }
    }
}

/// A model that is not trained: parameters and functions over them.
pub struct Inference {
    device: Device,
    store: Store,
    params: Vec<ParamSpec>,
}

impl Inference {
    /// A model with these parameters and their values.
    ///
    /// # Errors
    /// A value of a wrong shape.
    pub fn new(device: Device, params: Vec<ParamSpec>, weights: &Weights) -> Result<Inference> {
        let mut store = Store::new();
        for param in &params {
            store.insert_zeros(&param.name, &Type::f32(&param.shape));
        }
        write_weights(&mut store, &params, weights)?;
        Ok(Inference { device, store, params })
    }

    /// As [`Trainer::function`]. States that `trace` declares beside the parameters begin as zeros.
    ///
    /// # Errors
    /// A graph that the machine's memory cannot hold.
    pub fn function(
        &mut self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Function> {
        let plan = plan_function(&self.device, trace, &self.params)?;
        let more = (plan.constant_bytes + plan.arena_bytes).saturating_sub(self.device.arena_bytes());
        check_memory(more, REMEDY)?;
        for input in plan.graph.inputs.iter().filter(|input| input.kind == InputKind::State) {
            if !self.store.contains(&input.name) {
                self.store.insert_zeros(&input.name, plan.graph.ty(input.value));
            }
        }
        Ok(Function { executable: Executable::load(plan) })
    }

    /// As [`Trainer::run`].
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn run(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        run(&mut function.executable, &mut self.device, &mut self.store, inputs)
    }
}

/// Whatever runs functions over parameters.
pub trait Runs {
    /// As [`Trainer::run`].
    ///
    /// # Errors
    /// As [`Trainer::step`].
    fn run_function(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()>;
}

impl Runs for Trainer {
    fn run_function(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        self.run(function, inputs)
    }
}

impl Runs for Inference {
    fn run_function(&mut self, function: &mut Function, inputs: &Inputs<'_>) -> Result<()> {
        self.run(function, inputs)
    }
}
