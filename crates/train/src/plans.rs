//! The plans of training: the graphs compiled for a device, under a budget for all that they take together.

use crate::graphs::{Delayed, Late, StepGraphs, delayed, function_graph, states_of, step_graph};
use crate::options::TrainerOptions;
use crate::placement::Placed;
use crate::reading::Reading;
use lessen_base::{Error, Result, show_size};
use lessen_compile::{Options, Placement, Plan, Precision};
use lessen_device::{Backend, Measuring};
use lessen_graph::{Graph, Tensor, Type};
use lessen_nn::{BatchShape, Context, ParamSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl StepGraphs {
    /// The least budget under which everything can be compiled. Under [`Placement::Planned`] it is that of graphs
    /// which delay no update, since gradients that wait take more.
    ///
    /// # Errors
    /// A malformed graph.
    pub fn floor_bytes(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<usize> {
        self.floor_beside(backend, options, &self.plans_without_budget(backend, options)?)
    }

    fn floor_beside(&self, backend: &dyn Backend, options: &TrainerOptions, plans: &[Plan]) -> Result<usize> {
        let mut floor = 0;
        for (index, graph) in self.graphs().enumerate() {
            let own = backend.floor_bytes(graph, &options.of_plans(None))?;
            floor = floor.max(own + self.bytes_beside(index, plans));
        }
        Ok(floor)
    }

    /// The plan of every graph under the options' budget.
    pub(crate) fn plans(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Plan>> {
        let free = self.plans_without_budget(backend, options)?;
        let Some(budget) = options.budget else {
            return Ok(free);
        };
        let mut plans = Vec::with_capacity(free.len());
        for (index, graph) in self.graphs().enumerate() {
            let own = budget.saturating_sub(self.bytes_beside(index, &free));
            let plan = backend.compile(graph, &options.of_plans(Some(own)));
            plans.push(plan.map_err(|error| match self.floor_beside(backend, options, &free) {
                Ok(floor) if budget < floor => below_floor(budget, floor),
                _ => error,
            })?);
        }
        Ok(plans)
    }

    fn plans_without_budget(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Plan>> {
        let options = options.of_plans(None);
        self.graphs().map(|graph| backend.compile(graph, &options)).collect()
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

    /// Bytes of all states: parameters, sums of gradients, the optimizer's and the functions' own.
    pub(crate) fn state_bytes(&self) -> usize {
        let all: BTreeMap<&str, &Type> = self.graphs().flat_map(states_of).collect();
        all.values().map(|ty| ty.bytes()).sum()
    }

    /// Measures what the operations of all graphs take on a device, so that plans from then on are by these times. It
    /// changes no bit of any result.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn measure(&self, backend: &mut dyn Backend, options: &TrainerOptions) -> Result<Measuring> {
        let late = self.with_all_late(options);
        let graphs = self.graphs().chain(late.iter().flat_map(StepGraphs::graphs));
        backend.measure_graphs(graphs, &options.of_plans(None))
    }

    /// All graphs: the step and those beside it, the update, the functions.
    fn graphs(&self) -> impl Iterator<Item = &Graph> {
        let beside = self.delayed.iter().flat_map(Delayed::all);
        let steps = std::iter::once(&self.step).chain(beside);
        steps.chain(&self.apply).chain(&self.functions)
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
    /// With forward-fused updates, the plans beside it.
    pub delayed: Option<Delayed<Plan>>,
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
    pub(crate) late: Late,
    placement: Placement,
    precision: Precision,
    state_bytes: usize,
    /// How long choosing placements took.
    choosing: Duration,
    /// The least arena that is allocated.
    room: usize,
}

impl StepPlans {
    /// Compiles the graphs of training for a device. Under [`Placement::Planned`] it chooses the placement of each
    /// parameter: [`StepPlans::placements`] tells it.
    ///
    /// # Errors
    /// A budget below the floor.
    pub fn new(backend: &dyn Backend, options: &TrainerOptions, graphs: &StepGraphs) -> Result<StepPlans> {
        let Placed {
            graphs,
            mut plans,
            choosing,
        } = graphs.placed(backend, options)?;
        let functions = plans.split_off(plans.len() - graphs.functions.len());
        let apply = if graphs.apply.is_some() { plans.pop() } else { None };
        let mut steps = plans.into_iter();
        let mut next = || steps.next().ok_or_else(|| Error::internal("a graph has no plan"));
        let step = next()?;
        let beside = graphs.delayed.as_ref().map(|_| {
            let (first, flush) = (next()?, next()?);
            Ok(Delayed { first, flush })
        });
        Ok(StepPlans {
            step,
            delayed: beside.transpose()?,
            shape: graphs.shape,
            apply,
            functions,
            params: graphs.params.clone(),
            states: graphs.states.clone(),
            gradient_sums: graphs.gradient_sums.clone(),
            reading: graphs.reading.clone(),
            late: graphs.late.clone(),
            placement: options.placement,
            precision: options.precision,
            state_bytes: graphs.state_bytes(),
            choosing,
            room: 0,
        })
    }

    /// All plans: that of the step first.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        let beside = self.delayed.iter().flat_map(Delayed::all);
        let steps = std::iter::once(&self.step).chain(beside);
        steps.chain(&self.apply).chain(&self.functions)
    }

    /// The parameters that training updates, by name, with their placements.
    pub fn placements(&self) -> BTreeMap<&str, Placement> {
        let within = match self.placement {
            Placement::Separate => Placement::Separate,
            _ => Placement::BackwardFused,
        };
        let plans = std::iter::once(&self.step).chain(&self.apply);
        let trained: BTreeSet<&str> = plans.flat_map(assigned).collect();
        let params = self.params.iter().filter(|param| !param.is_buffer);
        let params = params.map(|param| param.name.as_str());
        params
            .filter(|name| trained.contains(name))
            .map(|name| match self.late.contains(name) {
                true => (name, Placement::ForwardFused),
                false => (name, within),
            })
            .collect()
    }

    /// The plans that [`Trainer::add_step`](crate::Trainer::add_step) makes beside these for batches of another layout.
    ///
    /// # Errors
    /// As there.
    pub fn another_step(
        &self,
        backend: &dyn Backend,
        options: &TrainerOptions,
        loss: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
    ) -> Result<Vec<Plan>> {
        let traced = step_graph(options, Some(self.reading.centred()), loss)?;
        let (step, delayed) = delayed(traced.graph, &self.late)?;
        let first = delayed.map(|delayed| delayed.first);
        let graphs = std::iter::once(step).chain(first);
        graphs
            .map(|graph| self.another(backend, &graph, &options.of_plans(options.budget)))
            .collect()
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
        let options = Options {
            precision: self.precision,
            ..Options::default()
        };
        self.another(backend, &graph, &options)
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

    /// How long compiling took, and choosing placements.
    pub fn compile_time(&self) -> Duration {
        let compiling: Duration = self.plans().map(|plan| plan.compile_time()).sum();
        compiling + self.choosing
    }
}

/// Names of the states that a plan assigns.
fn assigned(plan: &Plan) -> impl Iterator<Item = &str> {
    let targets = plan.graph().assigns.iter().map(|assign| assign.target);
    targets.filter_map(|target| Some(plan.graph().input(target)?.name.as_str()))
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
        let options = Options {
            budget,
            ..options.clone()
        };
        backend.compile(graph, &options)
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
