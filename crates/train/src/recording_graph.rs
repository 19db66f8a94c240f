//! The graph that records statistics, or values: beside the step, over the same parameters and inputs, with what the
//! model observes as its results.

use crate::function_graph::check_params;
use lessen_base::Result;
use lessen_graph::{Graph, Tensor, Trace, TraceRef};
use lessen_nn::{Cx, ParamSpec};

/// Graph that records the observed values of a model function over these parameters as `context` says: by
/// [`Cx::recording`] their statistics, by [`Cx::observing`] the values. It assigns no state.
///
/// # Errors
/// A part of the selection that names no observed value, and a parameter that is not among `params`.
pub(crate) fn recording_graph(
    params: &[ParamSpec],
    context: impl FnOnce(TraceRef) -> Cx,
    model: impl Fn(Cx) -> Tensor,
) -> Result<Graph> {
    let trace = Trace::new();
    let cx = context(*trace);
    trace.attempt(|| model(cx))?;
    cx.check_names()?;
    for recorded in cx.recorded()? {
        trace.output(&recorded.name, recorded.value);
    }
    check_params(params, &cx.params())?;
    let mut graph = trace.finish();
    // Only the step assigns states of the model function.
    graph.assigns.clear();
    Ok(graph)
}
