//! The plans of training: tracing, derivative, update, compilation, and the memory that all of it takes together.

use crate::memory::check_memory;
use crate::options::TrainerOptions;
use crate::reading::Reading;
use crate::recording::recording_graph;
use crate::size::show_size;
use lessen_base::{Error, Result};
use lessen_compile::{Backend, Options, Placement, Plan};
use lessen_graph::{Graph, InputKind, Tensor, Trace, Type};
use lessen_nn::{BatchShape, Context, ParamSpec, Selection, StateSpec, Update, optimizer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The graphs of training before they are compiled.
pub struct StepGraphs {
    /// The graph that runs for every batch, or for those of the layout `shape`.
    pub step: Graph,
    /// The layout of the batches, if the step runs for several; see [`StepGraphs::with_shape`].
    pub shape: Option<BatchShape>,
    /// With accumulation, the graph that updates after the last batch.
    pub apply: Option<Graph>,
    /// Functions over the same parameters that run between the steps, such as an evaluation.
    pub functions: Vec<Graph>,
    params: Vec<ParamSpec>,
    states: Vec<(String, Type)>,
    gradient_sums: Vec<String>,
    reading: Reading,
}

impl StepGraphs {
    /// Traces the loss and adds derivative and update.
    ///
    /// # Errors
    /// Shapes that do not fit each other and a loss that is no scalar, with the line of the model function.
    pub fn new(options: &TrainerOptions, loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>) -> Result<StepGraphs> {
        let (step, params, sums) = step_graph(options, loss)?;
        let apply = (options.accumulate > 1).then(|| {
            let trace = Trace::new();
            let cx = Context::new(&trace, true);
            finish_update(&trace, optimizer::apply(&cx, &params, &options.update_rule()));
            drop(cx);
            trace.finish()
        });
        let mut states: Vec<(String, Type)> = Vec::new();
        for (name, ty) in std::iter::once(&step).chain(&apply).flat_map(states_of) {
            let known = params.iter().any(|param| param.name == name) || states.iter().any(|(state, _)| state == name);
            if !known {
                states.push((name.to_string(), ty.clone()));
            }
        }
        Ok(StepGraphs {
            reading: Reading::of(options, &params),
            step,
            shape: None,
            apply,
            functions: Vec::new(),
            params,
            states,
            gradient_sums: sums.into_iter().map(|sum: StateSpec| sum.name).collect(),
        })
    }

    /// Says that the step is traced for batches of this layout. It is then that of the largest batches: others follow
    /// with [`Trainer::add_step`](crate::Trainer::add_step), in the memory that this one takes.
    pub fn with_shape(mut self, shape: BatchShape) -> StepGraphs {
        self.shape = Some(shape);
        self
    }

    /// Adds a function over the same parameters, without dropout: `trace` returns its results by name. It runs in the
    /// same arena as the step, and the budget is for both.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function, and a parameter that the step does not have.
    pub fn with_function(
        mut self,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<StepGraphs> {
        self.functions.push(function_graph(&self.params, &self.reading, trace)?);
        Ok(self)
    }

    /// Adds a function that records statistics of the values that `model`, the function of the loss or another one over
    /// the same parameters, observes and `selection` contains; see [`Trainer::record`](crate::Trainer::record). With
    /// `training` it has the dropout of the step. The step's own graph stays as it is.
    ///
    /// # Errors
    /// A part of the selection that is of no observed value; a parameter that the step does not have.
    pub fn with_recording(
        mut self,
        selection: &Selection,
        training: bool,
        model: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<StepGraphs> {
        let graph = recording_graph(&self.params, &self.reading, (selection, training), model)?;
        self.functions.push(graph);
        Ok(self)
    }

    /// The least budget under which everything can be compiled.
    ///
    /// # Errors
    /// A malformed graph.
    pub fn floor_bytes(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<usize> {
        self.floor_beside(backend, options, &self.plans_without_budget(backend, options)?)
    }

    fn floor_beside(&self, backend: &dyn Backend, options: &TrainerOptions, plans: &[Plan]) -> Result<usize> {
        let mut floor = 0;
        for (index, graph) in self.graphs().enumerate() {
            let own = backend.floor_bytes(graph, &compile_options(options.placement, None))?;
            floor = floor.max(own + self.bytes_beside(index, plans));
        }
        Ok(floor)
    }

    fn graphs(&self) -> impl Iterator<Item = &Graph> {
        std::iter::once(&self.step).chain(&self.apply).chain(&self.functions)
    }

    /// Bytes of all states: parameters, sums of gradients, the optimizer's and the functions' own.
    fn state_bytes(&self) -> usize {
        let all: BTreeMap<&str, &Type> = self.graphs().flat_map(states_of).collect();
        all.values().map(|ty| ty.bytes()).sum()
    }

    /// Bytes that stay allocated while graph number `index` runs and that its own plan does not count: states that it
    /// does not read, and constants of the others.
    fn bytes_beside(&self, index: usize, plans: &[Plan]) -> usize {
        let own: usize = self
            .graphs()
            .nth(index)
            .map_or(0, |graph| states_of(graph).map(|(_, ty)| ty.bytes()).sum());
        let constants: usize = plans.iter().map(|plan| plan.constant_bytes()).sum();
        self.state_bytes() - own + constants - plans[index].constant_bytes()
    }

    fn plans_without_budget(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Plan>> {
        let options = compile_options(options.placement, None);
        self.graphs().map(|graph| backend.compile(graph, &options)).collect()
    }

    /// The plan of every graph under the options' budget.
    fn plans(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Plan>> {
        let free = self.plans_without_budget(backend, options)?;
        let Some(budget) = options.budget else {
            return Ok(free);
        };
        let mut plans = Vec::with_capacity(free.len());
        for (index, graph) in self.graphs().enumerate() {
            let own = budget.saturating_sub(self.bytes_beside(index, &free));
            if free[index].peak_bytes() <= own {
                plans.push(free[index].clone());
                continue;
            }
            let plan = backend.compile(graph, &compile_options(options.placement, Some(own)));
            plans.push(plan.map_err(|error| match self.floor_beside(backend, options, &free) {
                Ok(floor) if budget < floor => below_floor(budget, floor),
                _ => error,
            })?);
        }
        Ok(plans)
    }
}

/// The error of a budget that is smaller than what training takes at least.
fn below_floor(budget: usize, floor: usize) -> Error {
    Error::user(format!(
        "the budget of {} is below the floor of {} ({floor} bytes); allow at least that, or take a smaller batch",
        show_size(budget),
        show_size(floor)
    ))
}

/// The plans of training.
pub struct StepPlans {
    /// The plan that runs for every batch, or for those of the layout `shape`.
    pub step: Plan,
    /// The layout of the batches, if the step runs for several.
    pub shape: Option<BatchShape>,
    /// With accumulation, the plan that updates after the last batch.
    pub apply: Option<Plan>,
    /// The plans of the functions.
    pub functions: Vec<Plan>,
    /// The parameters.
    pub params: Vec<ParamSpec>,
    /// Names and types of the states that training has beside the parameters; they begin as zeros.
    pub states: Vec<(String, Type)>,
    /// Those of the states that are zero between steps: the sums of gradients.
    pub(crate) gradient_sums: Vec<String>,
    pub(crate) reading: Reading,
    state_bytes: usize,
    /// The least arena that is allocated.
    room: usize,
}

impl StepPlans {
    /// Compiles the graphs of training for a device.
    ///
    /// # Errors
    /// A budget below the floor.
    pub fn new(backend: &dyn Backend, options: &TrainerOptions, graphs: &StepGraphs) -> Result<StepPlans> {
        let mut plans = graphs.plans(backend, options)?;
        let functions = plans.split_off(plans.len() - graphs.functions.len());
        let apply = if graphs.apply.is_some() { plans.pop() } else { None };
        Ok(StepPlans {
            step: plans.remove(0),
            shape: graphs.shape,
            apply,
            functions,
            params: graphs.params.clone(),
            states: graphs.states.clone(),
            gradient_sums: graphs.gradient_sums.clone(),
            reading: graphs.reading.clone(),
            state_bytes: graphs.state_bytes(),
            room: 0,
        })
    }

    /// All plans: that of the step first.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(&self.step).chain(&self.apply).chain(&self.functions)
    }

    /// The plan that [`Trainer::add_step`](crate::Trainer::add_step) makes beside these for batches of another layout.
    ///
    /// # Errors
    /// As there.
    pub fn another_step(
        &self,
        backend: &dyn Backend,
        options: &TrainerOptions,
        loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<Plan> {
        let (graph, ..) = step_graph(options, loss)?;
        self.another(backend, &graph, &compile_options(options.placement, options.budget))
    }

    /// The plan that [`Session::function`](crate::Session::function) makes beside these.
    ///
    /// # Errors
    /// As there.
    pub fn another_function(
        &self,
        backend: &dyn Backend,
        trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
    ) -> Result<Plan> {
        let graph = function_graph(&self.params, &self.reading, trace)?;
        self.another(backend, &graph, &Options::default())
    }

    fn another(&self, backend: &dyn Backend, graph: &Graph, options: &Options) -> Result<Plan> {
        let own: usize = states_of(graph).map(|(_, ty)| ty.bytes()).sum();
        let beside = self.lasting_bytes().saturating_sub(own);
        compile_beside(backend, graph, options, (beside, Some(self.arena_bytes())))
    }

    /// The most bytes that training takes: all states and constants, and the largest arena.
    pub fn peak_bytes(&self) -> usize {
        self.lasting_bytes() + self.arena_bytes()
    }

    /// Bytes of all states and constants.
    pub fn lasting_bytes(&self) -> usize {
        self.state_bytes + self.plans().map(|plan| plan.constant_bytes()).sum::<usize>()
    }

    /// Bytes of the arena: the largest of the plans, or what [`StepPlans::make_room`] asked for.
    pub fn arena_bytes(&self) -> usize {
        let arenas = self.plans().map(|plan| plan.arena_bytes());
        arenas.fold(self.room, usize::max)
    }

    /// Makes the arena at least so large: for steps of other layouts, which may need some more than the largest batch,
    /// as their rows are cut in other places.
    pub fn make_room(&mut self, arena: usize) {
        self.room = self.room.max(arena);
    }

    /// Bytes of parameters, sums of gradients and the optimizer's state.
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    /// Refuses training that the machine's memory cannot hold.
    ///
    /// # Errors
    /// Plans that need more than is available, with both figures.
    pub fn check_memory(&self) -> Result<()> {
        check_memory(self.peak_bytes())
    }

    /// How long compiling took.
    pub fn compile_time(&self) -> Duration {
        self.plans().map(|plan| plan.compile_time()).sum()
    }
}

/// Compiles a graph beside other things that take `beside` bytes of the budget. It gets along with the arena of so many
/// bytes that there is, if it can.
pub(crate) fn compile_beside(
    backend: &dyn Backend,
    graph: &Graph,
    options: &Options,
    (beside, arena): (usize, Option<usize>),
) -> Result<Plan> {
    let within = |budget| {
        let placement = options.placement;
        backend.compile(graph, &Options { placement, budget })
    };
    let plan = within(options.budget.map(|budget| budget.saturating_sub(beside)))?;
    Ok(match arena.filter(|arena| plan.arena_bytes() > *arena) {
        Some(arena) => {
            let lasting = plan.peak_bytes() - plan.arena_bytes();
            within(Some(lasting + arena)).unwrap_or(plan)
        }
        None => plan,
    })
}

/// Traces the loss and adds derivative and update, or with accumulation the sums of gradients. Returns the graph, the
/// parameters and the sums.
///
/// # Errors
/// Shapes that do not fit each other and a loss that is no scalar, with the line of the model function.
pub(crate) fn step_graph(
    options: &TrainerOptions,
    loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
) -> Result<(Graph, Vec<ParamSpec>, Vec<StateSpec>)> {
    let trace = Trace::new();
    let cx = Context::new(&trace, true).with_lora(options.lora.as_ref());
    let value = trace.attempt(|| loss(&cx))?;
    check_loss(value)?;
    trace.output("loss", value);
    let rule = options.update_rule();
    let sums = if options.accumulate > 1 {
        optimizer::accumulate(&cx, value, &rule)
    } else {
        finish_update(&trace, optimizer::update(&cx, value, &rule));
        Vec::new()
    };
    let params = cx.params();
    drop(cx);
    Ok((trace.finish(), params, sums))
}

/// Refuses a loss that has no gradient.
fn check_loss(loss: Tensor<'_>) -> Result<()> {
    let ty = loss.ty();
    let what = match () {
        () if !ty.dtype.is_float() => format!("the loss is of type {ty}, which has no gradient; return a float scalar"),
        () if ty.numel() != 1 => {
            format!("the loss is of type {ty}, but it must be a scalar; end it with .mean() or .sum()")
        }
        () => return Ok(()),
    };
    let error = Error::user(what);
    Err(match loss.trace().place_of(loss) {
        Some(place) => error.at(place),
        None => error,
    })
}

/// The graph of a function over these parameters, without dropout: `trace` returns its results by name.
///
/// # Errors
/// Shapes that do not fit each other, with the line of the function, and a parameter that is not among `params`.
pub(crate) fn function_graph(
    params: &[ParamSpec],
    reading: &Reading,
    trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
) -> Result<Graph> {
    let (graph, own) = traced(reading, trace)?;
    check_params(params, &own)?;
    Ok(graph)
}

/// The graph of a function without dropout, and the parameters that it declares.
///
/// # Errors
/// Shapes that do not fit each other, with the line of the function.
pub(crate) fn traced(
    reading: &Reading,
    trace: impl for<'g> Fn(&Context<'g>) -> Vec<(&'static str, Tensor<'g>)>,
) -> Result<(Graph, Vec<ParamSpec>)> {
    let builder = Trace::new();
    let cx = reading.of_results(Context::new(&builder, false));
    builder.attempt(|| {
        for (name, value) in trace(&cx) {
            builder.output(name, value);
        }
    })?;
    let params = cx.params();
    drop(cx);
    Ok((builder.finish(), params))
}

/// Refuses a parameter of a graph, one of `own`, that is not among `params`.
pub(crate) fn check_params(params: &[ParamSpec], own: &[ParamSpec]) -> Result<()> {
    let is_known = |param: &ParamSpec| {
        let same = |known: &ParamSpec| known.name == param.name && known.shape == param.shape;
        params.iter().any(same)
    };
    match own.iter().find(|param| !is_known(param)) {
        None => Ok(()),
        Some(ParamSpec { name, shape, .. }) => Err(Error::user(format!(
            "the model has no parameter `{name}` of shape {shape:?}"
        ))),
    }
}

/// Names and types of the states that a graph reads or writes.
pub(crate) fn states_of(graph: &Graph) -> impl Iterator<Item = (&str, &Type)> {
    let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
    states.map(|input| (input.name.as_str(), graph.ty(input.value)))
}

fn compile_options(placement: Placement, budget: Option<usize>) -> Options {
    Options { placement, budget }
}

fn finish_update(trace: &Trace, update: Update<'_>) {
    if let Some(norm) = update.gradient_norm {
        trace.output("gradient_norm", norm);
    }
}
