//! The plans of a training step: tracing, derivative, update, compilation, and whether the memory suffices.

use crate::memory::available_bytes;
use crate::size::show_size;
use lessen_base::{Error, Result};
use lessen_compile::{Options, Placement, Plan};
use lessen_cpu::Device;
use lessen_graph::{Graph, InputKind, Tensor, Trace, Type};
use lessen_nn::{Context, OptimizerConfig, ParamSpec, Schedule, ScheduleKind, StateSpec, Update, optimizer};
use std::time::Duration;

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
        TrainerOptions {
            optimizer: OptimizerConfig::adamw(0.0),
            schedule: Schedule {
                kind: ScheduleKind::Constant,
                peak: lr,
                warmup: 0,
                total: 0,
            },
            seed: 1,
            clip_norm: None,
            accumulate: 1,
            placement: Placement::default(),
            budget: None,
        }
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

/// The graphs of a training step before they are compiled.
pub struct StepGraphs {
    /// The graph that runs for every batch.
    pub step: Graph,
    /// With accumulation, the graph that updates after the last batch.
    pub apply: Option<Graph>,
    params: Vec<ParamSpec>,
    states: Vec<(String, Type)>,
}

impl StepGraphs {
    /// Traces the loss and adds derivative and update.
    pub fn new(options: &TrainerOptions, loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>) -> StepGraphs {
        let (optimizer, clip) = (&options.optimizer, options.clip_norm);
        let accumulates = options.accumulate > 1;
        let trace = Trace::new();
        let cx = Context::new(&trace, true);
        let value = loss(&cx);
        trace.output("loss", value);
        let mut states = if accumulates {
            optimizer::accumulate(&cx, value)
        } else {
            finish_update(&trace, optimizer::update(&cx, value, optimizer, clip))
        };
        let params = cx.params();
        drop(cx);
        let apply = accumulates.then(|| {
            let trace = Trace::new();
            let cx = Context::new(&trace, true);
            states.extend(finish_update(
                &trace,
                optimizer::apply(&cx, &params, optimizer, clip),
            ));
            drop(cx);
            trace.finish()
        });
        let states = states
            .into_iter()
            .map(|state| (state.name, Type::f32(&state.shape)))
            .collect();
        StepGraphs {
            step: trace.finish(),
            apply,
            params,
            states,
        }
    }

    /// The least budget under which the step can be compiled.
    ///
    /// # Errors
    /// A graph that is not sound.
    pub fn floor_bytes(&self, device: &Device, options: &TrainerOptions) -> Result<usize> {
        let mut floor = 0;
        for graph in std::iter::once(&self.step).chain(&self.apply) {
            let own = lessen_compile::floor_bytes(graph, &compile_options(options, None), &device.target());
            floor = floor.max(own? + self.elsewhere(graph));
        }
        Ok(floor)
    }

    /// Bytes of parameters, sums of gradients and the optimizer's state.
    fn state_bytes(&self) -> usize {
        state_bytes(&self.params, &self.states)
    }

    /// Bytes of the states that one of the graphs does not know.
    fn elsewhere(&self, graph: &Graph) -> usize {
        let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
        self.state_bytes()
            .saturating_sub(states.map(|input| graph.ty(input.value).bytes()).sum())
    }

    fn plan(&self, device: &Device, options: &TrainerOptions, graph: &Graph) -> Result<Plan> {
        // What the other graph keeps counts, too.
        let budget = options
            .budget
            .map(|budget| budget.saturating_sub(self.elsewhere(graph)));
        device.compile(graph, &compile_options(options, budget)).map_err(|error| {
            match (options.budget, self.floor_bytes(device, options)) {
                (Some(budget), Ok(floor)) if budget < floor => Error::user(format!(
                    "the budget of {} is below the floor of {} ({floor} bytes); allow at least that, or take a smaller \
                     batch",
                    show_size(budget),
                    show_size(floor)
                )),
                _ => error,
            }
        })
    }
}

impl StepPlans {
    /// Traces, differentiates and compiles a training step for a device.
    ///
    /// # Errors
    /// A budget below the floor.
    pub fn of(
        device: &Device,
        options: &TrainerOptions,
        loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<StepPlans> {
        StepPlans::new(device, options, &StepGraphs::new(options, loss))
    }

    /// Compiles the graphs of a training step for a device.
    ///
    /// # Errors
    /// A budget below the floor.
    pub fn new(device: &Device, options: &TrainerOptions, graphs: &StepGraphs) -> Result<StepPlans> {
        Ok(StepPlans {
            step: graphs.plan(device, options, &graphs.step)?,
            apply: graphs
                .apply
                .as_ref()
                .map(|graph| graphs.plan(device, options, graph))
                .transpose()?,
            params: graphs.params.clone(),
            states: graphs.states.clone(),
        })
    }

    /// The most bytes that the step takes: all states and constants, and the larger arena.
    pub fn peak_bytes(&self) -> usize {
        let plans = std::iter::once(&self.step).chain(&self.apply);
        let constants: usize = plans.map(|plan| plan.constant_bytes()).sum();
        self.state_bytes() + constants + self.arena_bytes()
    }

    /// Bytes of the larger arena.
    pub fn arena_bytes(&self) -> usize {
        let plans = std::iter::once(&self.step).chain(&self.apply);
        plans.map(|plan| plan.arena_bytes()).max().unwrap_or(0)
    }

    /// Bytes of parameters, sums of gradients and the optimizer's state.
    pub fn state_bytes(&self) -> usize {
        state_bytes(&self.params, &self.states)
    }

    /// Refuses a step that the machine's memory cannot hold.
    ///
    /// # Errors
    /// A plan that needs more than is available, with both figures.
    pub fn check_memory(&self) -> Result<()> {
        check_memory(self.peak_bytes(), REMEDY)
    }

    /// How long compiling took.
    pub fn compile_time(&self) -> Duration {
        self.step.compile_time()
            + self
                .apply
                .as_ref()
                .map_or(Duration::ZERO, |apply| apply.compile_time())
    }
}

fn finish_update(trace: &Trace, update: Update<'_>) -> Vec<StateSpec> {
    if let Some(norm) = update.gradient_norm {
        trace.output("gradient_norm", norm);
    }
    update.states
}

fn compile_options(options: &TrainerOptions, budget: Option<usize>) -> Options {
    Options {
        placement: options.placement,
        budget,
    }
}

fn state_bytes(params: &[ParamSpec], states: &[(String, Type)]) -> usize {
    let of_params: usize = params.iter().map(|param| Type::f32(&param.shape).bytes()).sum();
    of_params + states.iter().map(|(_, ty)| ty.bytes()).sum::<usize>()
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

pub(crate) const REMEDY: &str = "take a smaller batch or model, or set a budget";
