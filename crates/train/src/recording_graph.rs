//! The graph that records statistics: beside the step, over the same parameters and inputs, with the statistics of the
//! values that the model observes as its results.

use crate::function_graph::check_params;
use crate::view::ParameterView;
use lessen_base::Result;
use lessen_graph::{Graph, Tensor, Trace};
use lessen_nn::{Cx, ParamSpec, Selection};

/// Graph that records the selected statistics of the observed values of a model function over these parameters. It
/// assigns no state, and with `training` it has the dropout of the step.
///
/// # Errors
/// A part of the selection that names no observed value, and a parameter that is not among `params`.
pub(crate) fn recording_graph(
    params: &[ParamSpec],
    view: &ParameterView,
    (selection, training): (&Selection, bool),
    model: impl Fn(Cx) -> Tensor,
) -> Result<Graph> {
    let trace = Trace::new();
    let cx = view.of_step(Cx::recording(*trace, training, selection));
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
