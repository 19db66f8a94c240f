//! Norms without a mean (Jiang et al. 2023): the converted graphs of training and inference, and the parameters that
//! are kept recentred for them.

use crate::reading::Reading;
use lessen_base::{Error, Result};
use lessen_graph::{DType, Graph, InputKind, Tensor, Trace, ValueId};
use lessen_nn::optimizer::mean_along;
use lessen_nn::{Centred, NormKind, ParamSpec};
use lessen_rewrite::{Means, NormOptions, NormTarget, ParameterStep, convert_norms_in_place};
use std::collections::{BTreeSet, HashMap};

/// The graph of a step's loss with its norms converted, and the parameters that have to stay recentred for it. Where
/// that is decided already, `known` says which; a graph that needs others stays as it is.
///
/// Tables that are read by indices stay as they are, since their gradients have a few rows alone: the mean of each row
/// is subtracted where it has been read.
///
/// # Errors
/// RMSNorm or CRMSNorm that is asked for in a graph without LayerNorm.
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
    let is_param = |name: &str| params.iter().any(|param| param.name == name && !param.is_buffer);
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

/// The parameters that may be recentred for the norms of a function beside no training.
pub(crate) fn centred_for(graph: &Graph, params: &[ParamSpec], kind: NormKind) -> Centred {
    let is_param = |name: &str| params.iter().any(|param| param.name == name && !param.is_buffer);
    converted(graph, kind, Means::Fewer, &is_param).map_or_else(Centred::new, |(_, centred)| centred)
}

/// The graph of a function with its norms converted, as far as these states have been recentred; it stays as it is
/// where that spares nothing.
pub(crate) fn of_function(graph: Graph, kind: NormKind, centred: &Centred) -> Graph {
    match converted(&graph, kind, Means::Fewer, &|name| centred.contains_key(name)) {
        Some((new, needed)) if contains(centred, &needed) => new,
        _ => graph,
    }
}

/// The graph that recentres parameters, and their averages where they have some; none where none is.
pub(crate) fn recentring(params: &[ParamSpec], reading: &Reading) -> Option<Graph> {
    let trace = Trace::new();
    for param in params {
        let Some(axes) = reading.centred().get(&param.name) else {
            continue;
        };
        for state in BTreeSet::from([param.name.clone(), reading.result_of(&param.name)]) {
            let old = trace.state(&state, reading.held.ty(&param.shape).dtype, &param.shape);
            let new = axes.iter().fold(old.cast(DType::F32), |x, &axis| recentred(x, axis));
            trace.assign(old, new.cast(old.dtype()));
        }
    }
    let graph = trace.finish();
    (!graph.assigns.is_empty()).then_some(graph)
}

/// The value less its mean along an axis, but for a mean that rounding has left: what is recentred keeps its bits.
fn recentred(x: Tensor<'_>, axis: usize) -> Tensor<'_> {
    const ROUNDING: f64 = 4e-6;
    let (mean, noise) = (mean_along(x, axis), mean_along(x.abs(), axis) * ROUNDING);
    x - mean.abs().gt(noise).select(mean, mean.full_like(0.0))
}

/// The converted graph and the states that are recentred for it; none where no norm is converted.
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
    let readers = graph
        .nodes
        .iter()
        .filter(|node| node.op.index_input(&graph.input_types(node)).is_some());
    let states = readers
        .flat_map(|node| &node.inputs)
        .filter_map(|value| graph.input(*value));
    states.map(|input| input.name.clone()).collect()
}
