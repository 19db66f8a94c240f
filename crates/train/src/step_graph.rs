//! The graph of a micro-batch: the loss, its derivative, and the sums of gradients or the update.

use crate::beside::assigned;
use crate::norms;
use crate::options::TrainerOptions;
use crate::update_graphs::finish_update;
use lessen_base::{Error, Result};
use lessen_graph::{Assign, DType, Graph, SideBySide, Tensor, Trace, TraceRef, ValueId, side_by_side};
use lessen_nn::names::{LOSS, assigned_of, of_group};
use lessen_nn::optimizer::{self, Ending, GroupResults, UpdateRule};
use lessen_nn::{Centred, Cx, ParamSpec, StateSpec};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Graph of a step, with its parameters and states.
pub(crate) struct Traced {
    pub graph: Graph,
    /// See [`StepGraphs::last`].
    pub last: Option<Graph>,
    pub params: Vec<ParamSpec>,
    /// The sums of gradients; none where no micro-batch follows another one.
    pub sums: Vec<StateSpec>,
    /// The states that the model function assigns in every micro-batch.
    pub assigned: Vec<String>,
    /// The parameters that stay recentred.
    pub centred: Centred,
    /// Whether the groups of this process run side by side.
    pub side_by_side: bool,
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

/// Traces a loss, with the values that are reported beside it, of one of the groups of a step.
///
/// # Errors
/// Shapes that do not fit each other and a loss that is no scalar, with the line of the model
/// function; names of training.
pub(crate) fn loss_graph(options: &TrainerOptions, group: usize, loss: impl Fn(Cx) -> Tensor) -> Result<LossGraph> {
    let trace = Trace::new();
    let cx = context(&trace, options, group).with_reports();
    let value = trace.attempt(|| loss(cx))?;
    check_loss(value)?;
    cx.check_names()?;
    trace.output(LOSS, value);
    let params = cx.params();
    let graph = trace.finish();
    let mark = mark_of(&graph);
    Ok(LossGraph { graph, params, mark })
}

/// The argument of a model function in the graph of a group of a step.
fn context(trace: &Trace, options: &TrainerOptions, group: usize) -> Cx {
    let cx = Cx::new(**trace, true).with_lora(options.lora.as_ref());
    cx.with_ranks(options.ranks_of_groups().of_leaf(group))
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
    let own = options.own_groups();
    let LossGraph { graph, params, mark } = loss_graph(options, own.start, &loss)?;
    let side_by_side = options.runs_side_by_side(&graph)?;
    rule.check_params(&params)?;
    if !params.iter().any(|param| rule.trains(param)) {
        return Err(Error::user(
            "no parameter of the model is trained; declare one with `Cx::param`, or freeze fewer of them",
        ));
    }
    let assigned = assigned(&graph).map(String::from).collect();
    let (graph, centred) = norms::of_step(graph, &params, options.norm, known)?;
    let rule = &UpdateRule {
        centred: centred.clone(),
        fills_in: rule.fills_in || side_by_side,
        ..rule.clone()
    };
    let or_derivative = |error| derivative_error(options, rule, &loss).unwrap_or(error);
    let ended = |graph: Graph, end: End| end_graph(graph, params.clone(), rule, &end).map_err(or_derivative);
    let ((graph, params, sums), last) = match options.accumulate {
        _ if side_by_side => {
            let others = own.skip(1).map(|group| {
                let LossGraph { graph, params, .. } = loss_graph(options, group, &loss)?;
                Ok(norms::of_step(graph, &params, options.norm, Some(&centred))?.0)
            });
            let graphs = std::iter::once(Ok(graph)).chain(others).collect::<Result<_>>()?;
            let joined = groups_graph(graphs, &params, rule, options).map_err(or_derivative)?;
            (joined, None)
        }
        1 => (ended(graph, End::Update)?, None),
        _ if options.ranks == 1 => (ended(graph, End::Sums)?, None),
        _ if options.most_batches() == 1 => (ended(graph, End::Last(options.ending()))?, None),
        _ => {
            let (last, ..) = ended(graph.clone(), End::Last(options.ending()))?;
            (ended(graph, End::Sums)?, Some(last))
        }
    };
    Ok(Traced {
        graph,
        last,
        params,
        sums,
        assigned,
        centred,
        side_by_side,
        mark,
    })
}

/// What follows the loss in the graph of a micro-batch.
enum End {
    /// The update.
    Update,
    /// The sums of gradients.
    Sums,
    /// The sums over all processes, and the update.
    Last(Ending),
}

/// A loss with its derivative and what follows. Returns the parameters in it, and the sums of gradients.
///
/// # Errors
/// An operation with a wrong derivative.
fn end_graph(
    mut graph: Graph,
    params: Vec<ParamSpec>,
    rule: &UpdateRule,
    end: &End,
) -> Result<(Graph, Vec<ParamSpec>, Vec<StateSpec>)> {
    // What the model function assigns waits until it is known whether the step is skipped.
    let own = match end {
        End::Update if rule.skips_non_finite => std::mem::take(&mut graph.assigns),
        _ => Vec::new(),
    };
    let trace = Trace::of(graph);
    let params = declared_in(*trace, params);
    let value = loss_of(*trace)?;
    let cx = Cx::resumed(*trace, true, params.clone());
    let sums = trace.attempt(|| {
        let update = match end {
            End::Sums => return optimizer::accumulate(cx, value, rule),
            End::Update => optimizer::update(cx, value, rule),
            End::Last(ending) => optimizer::conclude(cx, value, rule, ending),
        };
        finish_update(*trace, update, &own);
        Vec::new()
    })?;
    Ok((trace.finish(), params, sums))
}

/// The loss of a graph.
fn loss_of(trace: TraceRef) -> Result<Tensor> {
    let value = trace.with_graph(|graph| graph.outputs.iter().find(|output| output.name == LOSS).map(|o| o.value));
    value
        .map(|value| trace.tensor(value))
        .ok_or_else(|| Error::internal("a graph without its loss"))
}

/// The losses of groups that run side by side with their derivatives, the sums over all processes, and the update.
/// Inputs and results have the names of [`of_group`], where states that a group assigns are results.
///
/// # Errors
/// An operation with a wrong derivative; groups that do not have the same operations of several ranks.
fn groups_graph(
    graphs: Vec<Graph>,
    params: &[ParamSpec],
    rule: &UpdateRule,
    options: &TrainerOptions,
) -> Result<(Graph, Vec<ParamSpec>, Vec<StateSpec>)> {
    let first = options.own_groups().start;
    let differentiated = |mut graph: Graph| {
        let assigns = std::mem::take(&mut graph.assigns);
        let trace = Trace::of(graph);
        let value = loss_of(*trace)?;
        let cx = Cx::resumed(*trace, true, declared_in(*trace, params.to_vec()));
        let GroupResults { loss, gradients } = trace.attempt(|| optimizer::group(cx, value, rule))?;
        for Assign { target, value } in assigns {
            let state = trace.with_graph(|graph| graph.input(target).map(|input| input.name.clone()));
            trace.output(&assigned_of(&state.unwrap_or_default()), trace.tensor(value));
        }
        let gradients: Vec<ValueId> = gradients.into_iter().map(Tensor::id).collect();
        Ok((trace.finish(), (loss.id(), gradients)))
    };
    let groups = graphs.into_iter().map(differentiated).collect::<Result<Vec<_>>>()?;
    let (graphs, given): (Vec<Graph>, Vec<_>) = groups.into_iter().unzip();
    let named = |place: usize, name: &str| of_group(name, first + place);
    let SideBySide { graph, copies } = side_by_side(&graphs, options.ranks_of_groups(), named)?;
    let trace = Trace::of(graph);
    let params = declared_in(*trace, params.to_vec());
    let cx = Cx::resumed(*trace, true, params.clone());
    let given = given.into_iter().zip(copies).map(|((loss, gradients), copies)| {
        let copy = |value: ValueId| copies.get(value.index()).copied().flatten();
        let gradients = gradients
            .into_iter()
            .map(|gradient| Some(trace.tensor(copy(gradient)?)));
        Some(GroupResults {
            loss: trace.tensor(copy(loss)?),
            gradients: gradients.collect::<Option<_>>()?,
        })
    });
    let groups: Option<Vec<GroupResults>> = given.collect();
    let groups = groups.ok_or_else(|| Error::internal("a gradient that is not there"))?;
    trace.attempt(|| {
        let update = optimizer::conclude_groups(cx, &groups, rule, options.delays_sums());
        finish_update(*trace, update, &[]);
    })?;
    Ok((trace.finish(), params, Vec::new()))
}

/// The error of the derivative of a loss, with the line of the operation at fault: the loss is traced again for it,
/// since a graph has no lines. None if the derivative is right.
fn derivative_error(options: &TrainerOptions, rule: &UpdateRule, loss: impl Fn(Cx) -> Tensor) -> Option<Error> {
    let trace = Trace::new();
    let cx = context(&trace, options, options.own_groups().start);
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
