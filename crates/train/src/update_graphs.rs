//! The graphs of updates: those of accumulated gradients, those that wait for the next step, and sums of groups.

use crate::opening::{opening, waiting};
use crate::options::TrainerOptions;
use lessen_base::Result;
use lessen_compile::{Placement, passes};
use lessen_graph::{Assign, DType, Graph, Phase, Trace, TraceRef};
use lessen_nn::names::{FINITE, GRADIENT_NORM};
use lessen_nn::optimizer::{self, Update, UpdateRule};
use lessen_nn::{Centred, Cx, ParamSpec};
use std::collections::BTreeSet;

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

/// With accumulation, the graph of the update that runs after the last micro-batch.
///
/// # Errors
/// A mistake in an algorithm of the caller, with its line.
pub(crate) fn apply_graph(
    options: &TrainerOptions,
    rule: &UpdateRule,
    (params, centred): (&[ParamSpec], &Centred),
) -> Result<Option<Graph>> {
    // Processes whose parameters are in pieces never update without a micro-batch.
    if options.accumulate == 1 || options.is_sharded() {
        return Ok(None);
    }
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let rule = UpdateRule {
        centred: centred.clone(),
        ..rule.clone()
    };
    trace.attempt(|| finish_update(*trace, optimizer::apply(cx, params, &rule, &options.ending()), &[]))?;
    Ok(Some(trace.finish()))
}

/// The graph of an update that waits for the first micro-batch of the next step; none where none waits.
///
/// # Errors
/// A mistake in an algorithm of the caller, with its line.
pub(crate) fn waiting_graph(
    options: &TrainerOptions,
    rule: &UpdateRule,
    known: (&[ParamSpec], &Centred),
) -> Result<Option<Graph>> {
    if !options.delays_sums() {
        return Ok(None);
    }
    if options.ranks == 1 {
        return apply_graph(options, rule, known);
    }
    let (params, centred) = known;
    let trace = Trace::new();
    let rule = UpdateRule {
        centred: centred.clone(),
        ..rule.clone()
    };
    let cx = Cx::new(*trace, true);
    trace.attempt(|| finish_update(*trace, optimizer::update_waiting(cx, params, &rule), &[]))?;
    Ok(Some(trace.finish()))
}

/// The graphs that hold the sums of gradients in a slot, and add them.
pub(crate) fn group_graphs(rule: &UpdateRule, params: &[ParamSpec], slot: usize) -> [Graph; 2] {
    [optimizer::hold, optimizer::add_held].map(|build| {
        let trace = Trace::new();
        build(Cx::new(*trace, true), params, rule, slot);
        trace.finish()
    })
}

/// States whose updates are delayed by the options alone: all of them, or none.
pub(crate) fn all_or_none(options: &TrainerOptions, step: &Graph) -> Late {
    match options.placement {
        Placement::ForwardFused => states_of_updates(step),
        _ => Late::new(),
    }
}

pub(crate) fn states_of_updates(graph: &Graph) -> Late {
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

/// The graph of what is told of accumulated gradients before their update; none where nothing is.
pub(crate) fn closing_graph(rule: &UpdateRule, (params, centred): (&[ParamSpec], &Centred)) -> Result<Option<Graph>> {
    let trace = Trace::new();
    let rule = UpdateRule {
        centred: centred.clone(),
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

/// Names the results of an update, and assigns the states of the model function that waited for it.
pub(crate) fn finish_update(trace: TraceRef, update: Update, own: &[Assign]) {
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
