//! The graphs of training: tracing, derivative, update.

use crate::beside::states_of;
use crate::carrier::GroupCarrier;
use crate::dealing::Dealing;
use crate::function_graph::function_graph;
use crate::norms;
use crate::opening::{opening, waiting};
use crate::options::TrainerOptions;
use crate::recording_graph::recording_graph;
use crate::view::ParameterView;
use lessen_base::{Error, Result};
use lessen_compile::{Placement, passes};
use lessen_graph::{Assign, DType, Graph, Phase, Tensor, Trace, TraceRef, Type, ValueId};
use lessen_nn::names::{FINITE, GRADIENT_NORM, LOSS, is_held_sum};
use lessen_nn::{BatchShape, Centred, Cx, ParamSpec, Selection, StateSpec, Update, UpdateRule, optimizer};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The graphs of training before they are compiled.
#[derive(Clone)]
pub struct StepGraphs {
    /// Graph of a micro-batch, of the batch layout `shape` if there is one. With forward-fused updates it begins with
    /// the updates of the step before. Under [`Placement::Planned`] no update is delayed until plans are made.
    pub step: Graph,
    /// With forward-fused updates: the graphs beside `step`.
    pub delayed: Option<Delayed<Graph>>,
    /// Batch layout of `step`, if the trainer gets steps for several; see [`StepGraphs::with_shape`].
    pub shape: Option<BatchShape>,
    /// With accumulation: the graph that runs after the last micro-batch. It is the update, or where that is delayed
    /// the norm of the gradient, if a step tells it.
    pub apply: Option<Graph>,
    /// With groups of micro-batches: for each slot, the graph that holds the sums of gradients there, and the one that
    /// adds them.
    pub(crate) groups: Vec<[Graph; 2]>,
    /// Functions over the same parameters that run between the steps, such as an evaluation.
    pub functions: Vec<Graph>,
    /// What tells the loss of `step` from others; see [`LossGraph::mark`].
    pub(crate) mark: u64,
    pub(crate) params: Vec<ParamSpec>,
    pub(crate) states: Vec<(String, Type)>,
    pub(crate) gradient_sums: Vec<String>,
    pub(crate) view: ParameterView,
    pub(crate) late: Late,
    /// What carries operations of several ranks in the plans.
    pub(crate) carrier: Arc<GroupCarrier>,
}

/// Names of the states whose updates are delayed to the next step.
pub(crate) type Late = BTreeSet<String>;

/// Graphs or plans beside a step that begins with the delayed updates of the step before.
#[derive(Clone)]
pub struct Delayed<T> {
    /// Step without a delayed update before it: the first step, and the first one after parameters were used.
    pub first: T,
    /// Delayed updates alone: they run before parameters are used.
    pub flush: T,
}

impl<T> Delayed<T> {
    /// Both of them.
    pub fn all(&self) -> [&T; 2] {
        [&self.first, &self.flush]
    }
}

impl StepGraphs {
    /// Traces the loss and adds derivative and update.
    ///
    /// # Errors
    /// Settings that [`TrainerOptions::check`] refuses, and patterns of names that no parameter fits; shapes that do
    /// not fit each other, a loss that is no scalar and an operation with a wrong derivative, with the line of the
    /// model function; a model without a parameter that is trained.
    pub fn new(options: &TrainerOptions, loss: impl Fn(Cx) -> Tensor) -> Result<StepGraphs> {
        options.check()?;
        let rule = options.update_rule();
        let Traced {
            graph: step,
            params,
            sums,
            centred,
            mark,
        } = step_graph(options, &rule, None, loss)?;
        let apply = apply_graph(options, &rule, (&params, &centred))?;
        let mut late = all_or_none(options, &step);
        let slots = 0..Dealing::of(options.ranks, options.own_groups()).slots;
        let groups = slots.map(|slot| group_graphs(&rule, &params, slot)).collect();
        let mut states: Vec<(String, Type)> = Vec::new();
        let mut known: HashSet<&str> = params.iter().map(|param| param.name.as_str()).collect();
        for (name, ty) in std::iter::once(&step).chain(&apply).flat_map(states_of) {
            if known.insert(name) && !is_held_sum(name) {
                states.push((name.to_string(), ty.clone()));
            }
        }
        let (step, delayed, apply) = match apply {
            Some(update) if options.delays_sums() => {
                late = states_of_updates(&update);
                let (step, delayed) = opened(&update, step)?;
                (step, Some(delayed), closing_graph(options, &rule, (&params, &centred))?)
            }
            apply => {
                let (step, delayed) = delayed(step, &late)?;
                (step, delayed, apply)
            }
        };
        Ok(StepGraphs {
            view: ParameterView::of_training(options, &params, centred),
            late,
            step,
            delayed,
            shape: None,
            apply,
            groups,
            functions: Vec::new(),
            mark,
            params,
            states,
            carrier: Arc::new(GroupCarrier::new(options.group.clone())),
            gradient_sums: sums.into_iter().map(|sum: StateSpec| sum.name).collect(),
        })
    }

    /// Delays the updates of the states in `late`, in graphs that delay no update.
    ///
    /// # Errors
    /// The errors of [`passes::delay`].
    pub(crate) fn with_late(&self, late: Late) -> Result<StepGraphs> {
        let (step, delayed) = delayed(self.step.clone(), &late)?;
        Ok(StepGraphs {
            step,
            delayed,
            late,
            ..self.clone()
        })
    }

    /// Sets the batch layout of the step: the layout of the largest batches. Steps for other layouts follow with
    /// [`Trainer::add_step`](crate::Trainer::add_step), in the memory of this step.
    pub fn with_shape(mut self, shape: BatchShape) -> StepGraphs {
        self.shape = Some(shape);
        self
    }

    /// Adds a function over the same parameters, without dropout: `trace` returns its results by name. It runs in the
    /// same arena as the step, and the budget is for both.
    ///
    /// # Errors
    /// Shapes that do not fit each other, with the line of the function, and a parameter that the step does not have.
    pub fn with_function<N: Into<String>>(mut self, trace: impl Fn(Cx) -> Vec<(N, Tensor)>) -> Result<StepGraphs> {
        self.functions.push(function_graph(&self.params, &self.view, trace)?);
        Ok(self)
    }

    /// Adds a function that records statistics of the observed values of `model` that `selection` contains; `model` is
    /// the function of the loss or another one over the same parameters. See
    /// [`Trainer::record`](crate::Trainer::record). With `training` it has the dropout of the step. The graph of the
    /// step does not change.
    ///
    /// # Errors
    /// A part of the selection that names no observed value; a parameter that the step does not have.
    pub fn with_recording(
        mut self,
        selection: &Selection,
        training: bool,
        model: impl Fn(Cx) -> Tensor,
    ) -> Result<StepGraphs> {
        let context = |trace| self.view.of_step(Cx::recording(trace, training, selection));
        let graph = recording_graph(&self.params, context, model)?;
        self.functions.push(graph);
        Ok(self)
    }
}

/// Graph of a step, with its parameters and states.
pub(crate) struct Traced {
    pub graph: Graph,
    pub params: Vec<ParamSpec>,
    /// With accumulation, the sums of gradients.
    pub sums: Vec<StateSpec>,
    /// The parameters that stay recentred.
    pub centred: Centred,
    /// See [`LossGraph::mark`].
    pub mark: u64,
}

/// Graph of a loss before its norms are converted.
pub(crate) struct LossGraph {
    graph: Graph,
    params: Vec<ParamSpec>,
    /// The same for losses of one graph, and other numbers for others.
    pub mark: u64,
}

/// Traces a loss, with the values that are reported beside it.
///
/// # Errors
/// Shapes that do not fit each other and a loss that is no scalar, with the line of the model
/// function; names of training.
pub(crate) fn loss_graph(options: &TrainerOptions, loss: impl Fn(Cx) -> Tensor) -> Result<LossGraph> {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true).with_lora(options.lora.as_ref()).with_reports();
    let value = trace.attempt(|| loss(cx))?;
    check_loss(value)?;
    cx.check_names()?;
    trace.output(LOSS, value);
    let params = cx.params();
    let graph = trace.finish();
    let mark = mark_of(&graph);
    Ok(LossGraph { graph, params, mark })
}

/// A hash that is equal for equal graphs.
fn mark_of(graph: &Graph) -> u64 {
    let mut hasher = DefaultHasher::new();
    for input in &graph.inputs {
        (&input.name, graph.ty(input.value)).hash(&mut hasher);
    }
    for node in &graph.nodes {
        (node.op.name(), node.op.fingerprint(), &node.inputs, &node.outputs).hash(&mut hasher);
        // Operations of the caller may have fields that their attributes lack.
        if !node.op.is_standard() {
            format!("{:?}", node.op).hash(&mut hasher);
        }
    }
    for output in &graph.outputs {
        (&output.name, output.value).hash(&mut hasher);
    }
    for assign in &graph.assigns {
        (assign.target, assign.value).hash(&mut hasher);
    }
    hasher.finish()
}

/// Traces the loss, converts its norms, and adds derivative and update; with accumulation, sums of gradients in place
/// of the update. A step for another batch layout takes the parameters that stay recentred.
///
/// # Errors
/// Those of [`loss_graph`]; patterns of names that no parameter fits; an operation with a wrong derivative, with the
/// line that applied it; norms without a mean that the model does not have.
pub(crate) fn step_graph(
    options: &TrainerOptions,
    rule: &UpdateRule,
    known: Option<&Centred>,
    loss: impl Fn(Cx) -> Tensor,
) -> Result<Traced> {
    let LossGraph { graph, params, mark } = loss_graph(options, &loss)?;
    options.check_ranks(&graph)?;
    rule.check_params(&params)?;
    if !params.iter().any(|param| rule.trains(param)) {
        return Err(Error::user(
            "no parameter of the model is trained; declare one with `Cx::param`, or freeze fewer of them",
        ));
    }
    let (mut graph, centred) = norms::of_step(graph, &params, options.norm, known)?;

    // What the model function assigns waits until it is known whether the step is skipped.
    let own = if rule.skips_non_finite && options.accumulate == 1 {
        std::mem::take(&mut graph.assigns)
    } else {
        Vec::new()
    };
    let trace = Trace::of(graph);
    let params = declared_in(*trace, params);
    let value = trace.with_graph(|graph| graph.outputs.iter().find(|output| output.name == LOSS).map(|o| o.value));
    let value = trace.tensor(value.ok_or_else(|| Error::internal("a graph without its loss"))?);
    let cx = Cx::resumed(*trace, true, params.clone());
    let centred_rule = UpdateRule {
        centred: centred.clone(),
        ..rule.clone()
    };
    let sums = trace.attempt(|| {
        if options.accumulate > 1 {
            return optimizer::accumulate(cx, value, &centred_rule);
        }
        finish_update(*trace, optimizer::update(cx, value, &centred_rule), &own);
        Vec::new()
    });
    let sums = sums.map_err(|error| derivative_error(options, rule, &loss).unwrap_or(error))?;
    Ok(Traced {
        graph: trace.finish(),
        params,
        sums,
        centred,
        mark,
    })
}

/// With accumulation, the graph of the update that runs after the last micro-batch.
///
/// # Errors
/// A mistake in an algorithm of the caller, with its line.
pub(crate) fn apply_graph(
    options: &TrainerOptions,
    rule: &UpdateRule,
    (params, centred): (&[ParamSpec], &Centred),
) -> Result<Option<Graph>> {
    if options.accumulate == 1 {
        return Ok(None);
    }
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let rule = UpdateRule {
        centred: centred.clone(),
        ..rule.clone()
    };
    trace.attempt(|| finish_update(*trace, optimizer::apply(cx, params, &rule), &[]))?;
    Ok(Some(trace.finish()))
}

/// The graphs that hold the sums of gradients in a slot, and add them.
fn group_graphs(rule: &UpdateRule, params: &[ParamSpec], slot: usize) -> [Graph; 2] {
    [optimizer::hold, optimizer::add_held].map(|build| {
        let trace = Trace::new();
        build(Cx::new(*trace, true), params, rule, slot);
        trace.finish()
    })
}

/// The error of the derivative of a loss, with the line of the operation at fault: the loss is traced again for it,
/// since a graph has no lines. None if the derivative is right.
fn derivative_error(options: &TrainerOptions, rule: &UpdateRule, loss: impl Fn(Cx) -> Tensor) -> Option<Error> {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true).with_lora(options.lora.as_ref());
    let found = trace.attempt(|| {
        let value = loss(cx);
        let trained = cx.params().into_iter().filter(|param| rule.trains(param));
        let trained: Vec<Tensor> = trained.map(|param| trace.tensor(param.value)).collect();
        value.grad(&trained);
    });
    found.err()
}

/// Parameters with their states in this trace; states that no node reads are declared.
fn declared_in(trace: TraceRef, params: Vec<ParamSpec>) -> Vec<ParamSpec> {
    let values: HashMap<String, ValueId> = trace.with_graph(|graph| {
        let inputs = graph.inputs.iter();
        inputs.map(|input| (input.name.clone(), input.value)).collect()
    });
    let declared = params.into_iter().map(|param| {
        let declare = || trace.state(&param.name, DType::F32, &param.shape).id();
        let value = values.get(&param.name).copied().unwrap_or_else(declare);
        ParamSpec { value, ..param }
    });
    declared.collect()
}

/// States whose updates are delayed by the options alone: all of them, or none.
fn all_or_none(options: &TrainerOptions, step: &Graph) -> Late {
    match options.placement {
        Placement::ForwardFused => states_of_updates(step),
        _ => Late::new(),
    }
}

fn states_of_updates(graph: &Graph) -> Late {
    let updates = passes::updates(graph).into_iter();
    updates.flat_map(|update| update.states).collect()
}

/// The first micro-batch of a step, with the update of the step before, and the graphs beside it.
///
/// # Errors
/// A state of two types.
pub(crate) fn opened(update: &Graph, batch: Graph) -> Result<(Graph, Delayed<Graph>)> {
    let delayed = Delayed {
        flush: waiting(update),
        first: batch,
    };
    Ok((opening(update, &delayed.first)?, delayed))
}

/// The graphs of a step for another batch layout, whose updates are delayed as those of the first one.
///
/// # Errors
/// The errors of [`delayed`] and [`apply_graph`].
pub(crate) fn another_step(
    options: &TrainerOptions,
    rule: &UpdateRule,
    traced: Traced,
    late: &Late,
) -> Result<(Graph, Option<Delayed<Graph>>)> {
    match apply_graph(options, rule, (&traced.params, &traced.centred))? {
        Some(update) if options.delays_sums() => {
            opened(&update, traced.graph).map(|(step, delayed)| (step, Some(delayed)))
        }
        _ => delayed(traced.graph, late),
    }
}

/// The graph of what is told of accumulated gradients before their update; none where nothing is.
fn closing_graph(
    options: &TrainerOptions,
    rule: &UpdateRule,
    (params, centred): (&[ParamSpec], &Centred),
) -> Result<Option<Graph>> {
    let trace = Trace::new();
    let rule = UpdateRule {
        centred: centred.clone(),
        ranks: (options.ranks > 1).then(|| options.ranks_of_groups()),
        ..rule.clone()
    };
    trace.attempt(|| finish_update(*trace, optimizer::closing(Cx::new(*trace, true), params, &rule), &[]))?;
    Ok(Some(trace.finish()).filter(|graph| !graph.outputs.is_empty() || !graph.assigns.is_empty()))
}

/// Delays the updates of the states in `late` in the graph of a step. Returns the step, and the graphs of the delayed
/// updates beside it.
///
/// # Errors
/// The errors of [`passes::delay`].
pub(crate) fn delayed(step: Graph, late: &Late) -> Result<(Graph, Option<Delayed<Graph>>)> {
    if late.is_empty() {
        return Ok((step, None));
    }
    let passes::Delayed { first, step, flush, .. } = passes::delay(&step, &|state| late.contains(state))?;
    Ok((step, Some(Delayed { first, flush })))
}

/// Refuses a loss that has no gradient.
fn check_loss(loss: Tensor) -> Result<()> {
    let ty = loss.ty();
    let what = if !ty.dtype.is_float() {
        format!("the loss is of type {ty}, which has no gradient; return a float scalar")
    } else if ty.numel() != 1 {
        format!("the loss is of type {ty}, but it must be a scalar; end it with .mean() or .sum()")
    } else {
        return Ok(());
    };
    let error = Error::user(what);
    Err(match loss.trace().place_of(loss) {
        Some(place) => error.at(place),
        None => error,
    })
}

/// Names the results of an update, and assigns the states of the model function that waited for it.
fn finish_update(trace: TraceRef, update: Update, own: &[Assign]) {
    if let Some(finite) = update.finite {
        trace.output(FINITE, finite.cast(DType::F32));
    }
    trace.in_phase(Phase::Update, || {
        for assign in own {
            let [old, new] = [assign.target, assign.value].map(|id| trace.tensor(id));
            trace.assign(old, optimizer::kept_unless(update.finite, old, new));
        }
    });
    if let Some(norm) = update.gradient_norm {
        trace.output(GRADIENT_NORM, norm);
    }
}
