//! Norms without a mean (Jiang et al. 2023): the converted graphs of training and inference, and the parameters that
//! are kept recentred for them.

use lessen_base::{Error, Result};
use lessen_graph::{DType, Graph, InputKind, Node, Tensor, Trace, Type, ValueId};
use lessen_nn::optimizer::mean_along;
use lessen_nn::{Centred, NormKind, ParamSpec};
use lessen_rewrite::{Means, NormOptions, NormTarget, ParameterStep, convert_norms_in_place};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Converts the norms of the graph of a step's loss. Returns the converted graph and the parameters that have to stay
/// recentred for it. A step for another batch layout takes `known`, the parameters that the first one keeps recentred;
/// a graph that needs others is returned unchanged.
///
/// Tables that are read by indices are never recentred, since their gradients have few rows: the mean of each row is
/// subtracted after it has been read.
///
/// # Errors
/// RMSNorm or CRMSNorm in a graph without LayerNorm.
pub(crate) fn of_step(
    graph: Graph,
    params: &[ParamSpec],
    kind: NormKind,
    known: Option<&Centred>,
) -> Result<(Graph, Centred)> {
    let means = match kind {
        NormKind::Auto => Means::Fewer,
        _ => Means::Any,
    };
    let tables = tables(&graph);
    let trained = trained(params);
    let is_param = |name: &str| trained.contains(name);
    let can_centre = |name: &str| match known {
        Some(known) => known.contains_key(name),
        None => is_param(name) && !tables.contains(name),
    };
    let found = converted(&graph, kind, means, &can_centre);
    if found.is_none() && known.is_none() && matches!(kind, NormKind::Rms | NormKind::Crms) {
        return Err(Error::user(format!(
            "model.norm = {kind} is for models with LayerNorm, and this one has none; leave it out"
        )));
    }
    Ok(match (found, known) {
        (Some((new, centred)), None) => (new, centred),
        (Some((new, centred)), Some(known)) if contains(known, &centred) => (new, known.clone()),
        (_, known) => (graph, known.cloned().unwrap_or_default()),
    })
}

/// Names of the parameters that are no buffers.
fn trained(params: &[ParamSpec]) -> HashSet<&str> {
    let trained = params.iter().filter(|param| !param.is_buffer);
    trained.map(|param| param.name.as_str()).collect()
}

/// Parameters that may be recentred for the norms of a function of inference: states among `params`.
pub(crate) fn centred_for(graph: &Graph, params: &[ParamSpec], kind: NormKind) -> Centred {
    let trained = trained(params);
    let is_param = |name: &str| trained.contains(name);
    converted(graph, kind, Means::Fewer, &is_param).map_or_else(Centred::new, |(_, centred)| centred)
}

/// Converts the norms of a function's graph as far as these states are recentred. A graph without a norm that becomes
/// cheaper is returned unchanged.
pub(crate) fn of_function(graph: Graph, kind: NormKind, centred: &Centred) -> Graph {
    match converted(&graph, kind, Means::Fewer, &|name| centred.contains_key(name)) {
        Some((new, needed)) if contains(centred, &needed) => new,
        _ => graph,
    }
}

/// A state that is recentred.
pub(crate) struct RecentredState<'a> {
    pub name: String,
    pub ty: Type,
    /// The axes along which its mean is subtracted.
    pub axes: &'a BTreeSet<usize>,
}

/// The graph that recentres states; none where there are none.
pub(crate) fn recentring(states: &[RecentredState<'_>]) -> Option<Graph> {
    let trace = Trace::new();
    for RecentredState { name, ty, axes } in states {
        let old = trace.state(name, ty.dtype, &ty.shape);
        let new = axes.iter().fold(old.cast(DType::F32), |x, &axis| recentred(x, axis));
        trace.assign(old, new.cast(old.dtype()));
    }
    let graph = trace.finish();
    (!graph.assigns.is_empty()).then_some(graph)
}

/// Subtracts the mean along an axis, unless that mean is within rounding error: a recentred value keeps its bits.
fn recentred(x: Tensor, axis: usize) -> Tensor {
    const ROUNDING: f64 = 4e-6;
    let (mean, noise) = (mean_along(x, axis), mean_along(x.abs(), axis) * ROUNDING);
    x - mean.abs().gt(noise).select(mean, mean.full_like(0.0))
}

/// The converted graph and the states that are recentred for it; none if no norm is converted.
fn converted(
    graph: &Graph,
    kind: NormKind,
    means: Means,
    can_centre: &dyn Fn(&str) -> bool,
) -> Option<(Graph, Centred)> {
    let target = match kind {
        NormKind::Layer => return None,
        NormKind::Rms | NormKind::Auto => NormTarget::Rms,
        NormKind::Crms => NormTarget::Crms,
    };
    let state = |value: ValueId| graph.input(value).filter(|input| input.kind == InputKind::State);
    let is_parameter = |value: ValueId| state(value).is_some_and(|input| can_centre(&input.name));
    let options = NormOptions {
        known: HashMap::new(),
        is_parameter: &is_parameter,
        ..NormOptions::of(target)
    };
    let (new, conversion) = convert_norms_in_place(graph, &options, means);
    if conversion.converted.is_empty() {
        return None;
    }
    let mut centred = Centred::new();
    for (value, steps) in conversion.parameters.iter() {
        let axes = steps.iter().filter_map(|step| match step {
            ParameterStep::Centre { axis } => Some(*axis),
            _ => None,
        });
        centred.insert(state(value)?.name.clone(), axes.collect());
    }
    Some((new, centred))
}

/// Whether parameters are recentred along all axes that are needed.
fn contains(all: &Centred, needed: &Centred) -> bool {
    let is_there = |(name, axes): (&String, &BTreeSet<usize>)| all.get(name).is_some_and(|all| axes.is_subset(all));
    needed.iter().all(is_there)
}

/// Names of the states that are read by indices.
fn tables(graph: &Graph) -> BTreeSet<String> {
    let reads_indices = |node: &&Node| {
        let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
        graph.ask(node, &inputs, &outputs).index_input().is_some()
    };
    let readers = graph.nodes.iter().filter(reads_indices);
    let states = readers
        .flat_map(|node| &node.inputs)
        .filter_map(|value| graph.input(*value));
    states.map(|input| input.name.clone()).collect()
}
