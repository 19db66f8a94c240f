//! Plans of training: graphs compiled for a device, under one budget for all of them.

use crate::beside::{assigned, compile_beside, states_of};
use crate::carrier::GroupCarrier;
use crate::dealing::{Dealing, Move};
use crate::exchanges::Exchanges;
use crate::function_graph::function_graph;
use crate::graphs::{StepGraphs, another_step};
use crate::options::{NonFinite, TrainerOptions};
use crate::placement::Placed;
use crate::session::pieces::Pieces;
use crate::step_graph::step_graph;
use crate::update_graphs::{Delayed, Late};
use crate::view::ParameterView;
use lessen_base::{Error, Result, show_size};
use lessen_compile::{Options, Placement, Plan, Precision};
use lessen_device::{Backend, Measuring, PlanDevice};
use lessen_graph::{Graph, Tensor, Type};
use lessen_nn::{BatchShape, Cx, ParamSpec, UpdateRule};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

impl StepGraphs {
    /// Least budget under which all graphs can be compiled. Under [`Placement::Planned`] it is the floor of graphs
    /// without delayed updates, since gradients that wait take more memory.
    ///
    /// # Errors
    /// A malformed graph.
    pub fn floor_bytes(&self, device: &(impl PlanDevice + ?Sized), options: &TrainerOptions) -> Result<usize> {
        let graphs = self.sharded()?;
        device.planned(|backend| {
            let plans = graphs.plans_without_budget(backend, options)?;
            graphs.floor_beside(backend, options, &plans)
        })
    }

    fn floor_beside(&self, backend: &dyn Backend, options: &TrainerOptions, plans: &[Plan]) -> Result<usize> {
        let mut floor = 0;
        for (index, graph) in self.graphs().enumerate() {
            let own = backend.floor_bytes(graph, &options.of_plans(None, &self.carrier))?;
            floor = floor.max(own + self.bytes_beside(index, plans));
        }
        Ok(floor)
    }

    /// Plans of all graphs under the budget of the options.
    pub(crate) fn plans(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Plan>> {
        let free = self.plans_without_budget(backend, options)?;
        let Some(budget) = options.budget else {
            return Ok(free);
        };
        let mut plans = Vec::with_capacity(free.len());
        for (index, graph) in self.graphs().enumerate() {
            let own = budget.saturating_sub(self.bytes_beside(index, &free));
            let plan = backend.compile(graph, &options.of_plans(Some(own), &self.carrier));
            plans.push(plan.map_err(|error| match self.floor_beside(backend, options, &free) {
                Ok(floor) if budget < floor => below_floor(budget, floor),
                _ => error,
            })?);
        }
        Ok(plans)
    }

    fn plans_without_budget(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Plan>> {
        let options = options.of_plans(None, &self.carrier);
        self.graphs().map(|graph| backend.compile(graph, &options)).collect()
    }

    /// Bytes beside the plan of graph number `index`: states that it does not read, and constants and results of the
    /// other plans.
    fn bytes_beside(&self, index: usize, plans: &[Plan]) -> usize {
        let own: usize = self
            .graphs()
            .nth(index)
            .map_or(0, |graph| states_of(graph).map(|(_, ty)| ty.bytes()).sum());
        let lasting = |plan: &Plan| plan.constant_bytes() + plan.result_bytes();
        let all: usize = plans.iter().map(lasting).sum();
        self.state_bytes() - own + all - lasting(&plans[index])
    }

    /// Bytes of all states: parameters, sums of gradients, the optimizer's and the functions' own.
    pub(crate) fn state_bytes(&self) -> usize {
        let all: BTreeMap<&str, &Type> = self.graphs().flat_map(states_of).collect();
        all.values().map(|ty| ty.bytes()).sum()
    }

    /// Bytes of the gradients of a step that is cut into groups.
    fn gradient_bytes(&self, options: &TrainerOptions) -> usize {
        let rule = options.update_rule();
        let trained = self.params.iter().filter(|param| rule.trains(param));
        trained.map(|param| Type::f32(&param.shape).bytes()).sum()
    }

    /// Measures the operations of all graphs on a device, so that later plans go by these times. It changes no bit of
    /// any result.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn measure(&self, device: &mut (impl PlanDevice + ?Sized), options: &TrainerOptions) -> Result<Measuring> {
        let late = self.with_all_late(options);
        let graphs = self.graphs().chain(late.iter().flat_map(StepGraphs::graphs));
        device.measured(|backend| backend.measure_graphs(graphs, &options.of_plans(None, &self.carrier)))
    }

    /// The states of which this process has a piece.
    fn pieces(&self, options: &TrainerOptions) -> Pieces {
        let rule = UpdateRule {
            centred: self.view.centred().clone(),
            ..options.update_rule()
        };
        Pieces::new(
            &options.group,
            options.ranks_of_groups(),
            rule.states_in_pieces(&self.params),
            self.sharding.clone().map(|sharding| (sharding, self.carrier.clone())),
        )
    }

    /// All graphs: the step, the graphs of its delayed updates and of groups, the update, the functions.
    fn graphs(&self) -> impl Iterator<Item = &Graph> {
        let beside = self.delayed.iter().flat_map(Delayed::all);
        let steps = std::iter::once(&self.step).chain(beside).chain(&self.last);
        let groups = self.groups.iter().flatten();
        steps.chain(groups).chain(&self.apply).chain(&self.functions)
    }
}

/// Error of a budget below the floor.
fn below_floor(budget: usize, floor: usize) -> Error {
    Error::user(format!(
        "the budget of {} is below the floor of {} ({floor} bytes); allow at least that, or take a smaller batch",
        show_size(budget),
        show_size(floor)
    ))
}

/// The plans of training.
pub struct StepPlans {
    /// Plan of a micro-batch, of the batch layout `shape` if there is one.
    pub step: Plan,
    /// With forward-fused updates: the plans beside `step`.
    pub delayed: Option<Delayed<Plan>>,
    /// Batch layout of `step`, if the trainer gets steps for several.
    pub shape: Option<BatchShape>,
    /// With groups of micro-batches, where this process computes several: the plan of the last one, which ends in the
    /// sum over all processes and the update.
    pub(crate) last: Option<Plan>,
    /// With accumulation: the plan of the update, which runs after the last micro-batch.
    pub apply: Option<Plan>,
    /// With groups of micro-batches: for each slot, the plan that holds the sums of gradients there, and the one that
    /// adds them.
    pub(crate) groups: Vec<[Plan; 2]>,
    dealing: Dealing,
    /// Processes that share the steps.
    processes: usize,
    /// The plans of the functions.
    pub functions: Vec<Plan>,
    /// The parameters.
    pub params: Vec<ParamSpec>,
    /// Names and types of the states that training has beside the parameters; they begin as zeros. These are names on
    /// the device; see [`names`](lessen_nn::names).
    pub states: Vec<(String, Type)>,
    /// States that are zero between steps: the sums of gradients.
    pub(crate) gradient_sums: Vec<String>,
    /// States that a micro-batch assigns beside the sums of gradients, which are restored when a later one fails. None
    /// without accumulation.
    pub(crate) carried: Vec<String>,
    accumulates: bool,
    pub(crate) view: ParameterView,
    pub(crate) late: Late,
    pub(crate) carrier: Arc<GroupCarrier>,
    pub(crate) pieces: Pieces,
    /// Whether `step` has all groups of this process, which run side by side.
    pub(crate) side_by_side: bool,
    pub(crate) kept_quarters: usize,
    pub(crate) mark: u64,
    /// Whether steps that are not finite are skipped.
    skips: bool,
    placement: Placement,
    precision: Precision,
    /// Learning rates that a step takes.
    rates: usize,
    state_bytes: usize,
    gradient_bytes: usize,
    /// Time of the choice of placements.
    choosing: Duration,
    /// Least bytes of the arena.
    room: usize,
}

impl StepPlans {
    /// Compiles graphs that keep `kept_quarters` quarters of the bytes of parameters in pieces; see [`StepPlans::new`].
    ///
    /// # Errors
    /// A budget below the floor.
    pub(crate) fn keeping(
        device: &(impl PlanDevice + ?Sized),
        options: &TrainerOptions,
        (graphs, kept_quarters): (&StepGraphs, usize),
    ) -> Result<StepPlans> {
        let (graphs, (mut plans, choosing)) = device.planned(|backend| {
            let graphs = graphs.sharded()?;
            let Placed {
                graphs: placed,
                plans,
                choosing,
            } = graphs.placed(backend, options)?;
            Ok((placed.into_owned(), (plans, choosing)))
        })?;
        let graphs = &graphs;
        let functions = plans.split_off(plans.len() - graphs.functions.len());
        let apply = if graphs.apply.is_some() { plans.pop() } else { None };
        let mut steps = plans.into_iter();
        let mut next = || steps.next().ok_or_else(|| Error::internal("a graph has no plan"));
        let step = next()?;
        let beside = graphs.delayed.as_ref().map(|_| {
            let (first, flush) = (next()?, next()?);
            Ok(Delayed { first, flush })
        });
        let delayed = beside.transpose()?;
        let last = graphs.last.as_ref().map(|_| next()).transpose()?;
        let groups = graphs.groups.iter().map(|_| Ok([next()?, next()?]));
        let groups = groups.collect::<Result<_>>()?;
        Ok(StepPlans {
            step,
            delayed,
            shape: graphs.shape,
            last,
            apply,
            groups,
            dealing: Dealing::of(options.ranks, options.own_groups()),
            processes: options.group.size(),
            functions,
            params: graphs.params.clone(),
            states: graphs.states.clone(),
            gradient_sums: graphs.gradient_sums.clone(),
            carried: graphs.carried.clone(),
            accumulates: options.accumulate > 1,
            view: graphs.view.clone(),
            late: graphs.late.clone(),
            carrier: graphs.carrier.clone(),
            pieces: graphs.pieces(options),
            side_by_side: graphs.side_by_side,
            kept_quarters,
            mark: graphs.mark,
            skips: options.non_finite == NonFinite::Skip,
            placement: options.placement,
            precision: options.precision,
            rates: 1 + options.groups.len(),
            state_bytes: graphs.state_bytes(),
            gradient_bytes: graphs.gradient_bytes(options),
            choosing,
            room: 0,
        })
    }

    /// The exchanges of a step of this process.
    ///
    /// # Errors
    /// A compiler that orders the exchanges of a training in two ways.
    pub(crate) fn exchanges(&self) -> Result<Exchanges> {
        let all = Exchanges::of(std::iter::once(&self.step).chain(&self.last));
        if self.ends_in_batch() && self.apply.is_some() {
            all.check_end(&Exchanges::of(&self.apply))?;
        }
        Ok(all)
    }

    /// All plans, the step's first.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        let beside = self.delayed.iter().flat_map(Delayed::all);
        let steps = std::iter::once(&self.step).chain(beside).chain(&self.last);
        let groups = self.groups.iter().flatten();
        steps.chain(groups).chain(&self.apply).chain(&self.functions)
    }

    /// Placements of the parameters that training updates, by name.
    pub fn placements(&self) -> BTreeMap<&str, Placement> {
        let within = match self.placement {
            Placement::Separate => Placement::Separate,
            _ => Placement::BackwardFused,
        };
        let plans = std::iter::once(&self.step).chain(&self.apply);
        let trained: BTreeSet<&str> = plans.flat_map(|plan| assigned(plan.graph())).collect();
        let params = self.params.iter().filter(|param| !param.is_buffer);
        let params = params.map(|param| param.name.as_str());
        params
            .filter(|name| trained.contains(name))
            .map(|name| {
                let is_late = self.late.contains(name);
                (name, if is_late { Placement::ForwardFused } else { within })
            })
            .collect()
    }

    /// Plans that [`Trainer::add_step`](crate::Trainer::add_step) would make beside these plans for another batch
    /// layout.
    ///
    /// # Errors
    /// The errors of [`Trainer::add_step`](crate::Trainer::add_step).
    pub fn another_step(
        &self,
        device: &(impl PlanDevice + ?Sized),
        options: &TrainerOptions,
        loss: impl Fn(Cx) -> Tensor,
    ) -> Result<Vec<Plan>> {
        let mut traced = step_graph(options, &options.update_rule(), Some(self.view.centred()), loss)?;
        let last = traced.last.take();
        let (step, delayed) = another_step(options, &options.update_rule(), traced, &self.late)?;
        let first = delayed.map(|delayed| delayed.first);
        let graphs = std::iter::once(step).chain(first).chain(last);
        let graphs = graphs.map(|graph| self.sharded(graph)).collect::<Result<Vec<_>>>()?;
        let options = options.of_plans(options.budget, &self.carrier);
        device.planned(|backend| {
            let plans = graphs.iter().map(|graph| self.another(backend, graph, &options));
            plans.collect()
        })
    }

    /// Plan that [`Session::function`](crate::Session::function) would make beside these plans.
    ///
    /// # Errors
    /// The errors of [`Session::function`](crate::Session::function).
    pub fn another_function<N: Into<String>>(
        &self,
        device: &(impl PlanDevice + ?Sized),
        trace: impl Fn(Cx) -> Vec<(N, Tensor)>,
    ) -> Result<Plan> {
        let graph = self.sharded(function_graph(&self.params, &self.view, trace)?)?;
        let options = Options {
            precision: self.precision,
            carrier: Some(self.carrier.clone()),
            ..Options::default()
        };
        device.planned(|backend| self.another(backend, &graph, &options))
    }

    /// A graph that gathers parameters of which this process has a piece.
    fn sharded(&self, graph: Graph) -> Result<Graph> {
        match self.pieces.params() {
            Some((sharding, _)) => sharding.sharded(&graph),
            None => Ok(graph),
        }
    }

    fn another(&self, backend: &dyn Backend, graph: &Graph, options: &Options) -> Result<Plan> {
        let own: usize = states_of(graph).map(|(_, ty)| ty.bytes()).sum();
        let beside = self.lasting_bytes().saturating_sub(own);
        compile_beside(backend, graph, options, (beside, Some(self.arena_bytes())))
    }

    /// The most bytes that training takes: all states, constants and results, and the largest arena.
    pub fn peak_bytes(&self) -> usize {
        self.lasting_bytes() + self.arena_bytes()
    }

    /// Bytes of all states, constants and results.
    pub fn lasting_bytes(&self) -> usize {
        let of_plans = self.plans().map(|plan| plan.constant_bytes() + plan.result_bytes());
        self.state_bytes + of_plans.sum::<usize>()
    }

    /// Bytes of the arena: the largest arena of the plans, or the bytes of [`StepPlans::make_room`] if they are more.
    pub fn arena_bytes(&self) -> usize {
        let arenas = self.plans().map(|plan| plan.arena_bytes());
        arenas.fold(self.room, usize::max)
    }

    /// Sets the least bytes of the arena: steps of other batch layouts may need slightly more than the step of the
    /// largest batch, since their rows are cut in other places.
    pub fn make_room(&mut self, arena: usize) {
        self.room = self.room.max(arena);
    }

    /// Bytes of parameters, sums of gradients and the optimizer's state.
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    /// Refuses options that the plans were not made with.
    pub(crate) fn check_options(&self, options: &TrainerOptions) -> Result<()> {
        options.check()?;
        let is_same = self.accumulates == (options.accumulate > 1)
            && self.dealing == Dealing::of(options.ranks, options.own_groups())
            && self.rates == 1 + options.groups.len()
            && self.skips == (options.non_finite == NonFinite::Skip);
        if is_same {
            Ok(())
        } else {
            Err(Error::user(
                "the plans are of other options; accumulate, ranks, the parameter groups and the skipping of \
                 steps must be those that they were made with",
            ))
        }
    }

    /// Bytes of the gradients that processes add up.
    pub fn gradient_bytes(&self) -> usize {
        self.gradient_bytes
    }

    /// Bytes that the exchange with other processes takes for a moment: of gradients, or of a state for a checkpoint;
    /// none in a process alone.
    pub fn exchange_bytes(&self) -> usize {
        if self.processes == 1 {
            return 0;
        }
        let gradients = self.dealing.exchange_bytes(self.gradient_bytes());
        gradients.max(self.pieces.bytes_to_give())
    }

    /// Whether the last micro-batch of this process ends in the update.
    fn ends_in_batch(&self) -> bool {
        self.dealing.ranks > 1
    }

    /// Estimated seconds of what this process computes of a step with `batches` micro-batches of its own: these, the
    /// sums of its groups, and the update.
    pub fn estimated_seconds(&self, batches: usize) -> f64 {
        let seconds = |plan: &Plan| plan.estimated_seconds();
        if self.side_by_side {
            return seconds(&self.step);
        }
        let ended = usize::from(self.ends_in_batch());
        let moves = self
            .dealing
            .moves
            .iter()
            .rev()
            .skip(ended)
            .flatten()
            .map(|step| match *step {
                Move::Hold(slot) => seconds(&self.groups[slot][0]),
                Move::Add(slot) => seconds(&self.groups[slot][1]),
            });
        let last = if self.ends_in_batch() {
            self.last
                .as_ref()
                .map_or(0.0, |last| seconds(last) - seconds(&self.step))
        } else {
            self.apply.as_ref().map_or(0.0, seconds)
        };
        batches as f64 * seconds(&self.step) + moves.sum::<f64>() + last
    }

    /// Bytes that a step copies to the host before its first micro-batch: states that each micro-batch assigns, such as
    /// statistics of batch normalization. None without accumulation.
    pub fn carried_bytes(&self) -> usize {
        let states = states_of(self.step.graph()).filter(|(name, _)| self.carried.iter().any(|own| own == name));
        states.map(|(_, ty)| ty.bytes()).sum()
    }

    /// Time of compilation and of the choice of placements.
    pub fn compile_time(&self) -> Duration {
        let compiling: Duration = self.plans().map(|plan| plan.compile_time()).sum();
        compiling + self.choosing
    }
}
