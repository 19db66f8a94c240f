//! Recording of statistics: a graph beside the step, over the same parameters and inputs, whose results are the
//! statistics of the values that the model observes.

use crate::graphs::check_params;
use crate::reading::Reading;
use crate::session::{Function, Inputs, Session};
use lessen_base::Result;
use lessen_graph::{Graph, Tensor, Trace};
use lessen_nn::{Context, ParamSpec, Selection};

/// Recorded statistics, by the names of value and statistic: `transformer.h.0.mlp.pre_activation/mean`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Those that are numbers.
    pub scalars: Vec<(String, f64)>,
    /// Histograms: the counts of the bins between [`histogram_edges`](lessen_nn::statistics::histogram_edges).
    pub histograms: Vec<(String, Vec<f64>)>,
}

impl Statistics {
    /// Runs a function that records.
    pub(crate) fn of_run(session: &mut Session, function: Function, inputs: &Inputs<'_>) -> Result<Statistics> {
        session.run(function, inputs)?;
        let mut found = Statistics::default();
        let results = session.results(function);
        for output in &session.plan(function).graph().outputs {
            let name = output.name.clone();
            let values: Vec<f64> = results
                .get(&name)
                .map_or_else(Vec::new, |host| host.elements().collect());
            match values[..] {
                [value] => found.scalars.push((name, value)),
                _ => found.histograms.push((name, values)),
            }
        }
        Ok(found)
    }
}

/// The graph that records what `selection` contains of the values that a model function over these parameters observes.
/// It assigns no state, and with `training` it has the dropout of the step.
///
/// # Errors
/// A part of the selection that is of no observed value, and a parameter that is not among `params`.
pub(crate) fn recording_graph(
    params: &[ParamSpec],
    reading: &Reading,
    (selection, training): (&Selection, bool),
    model: impl for<'g> Fn(&Context<'g>) -> Tensor<'g>,
) -> Result<Graph> {
    let trace = Trace::new();
    let cx = reading.of_step(Context::recording(&trace, training, selection));
    trace.attempt(|| model(&cx))?;
    for recorded in cx.recorded()? {
        trace.output(&recorded.name, recorded.value);
    }
    check_params(params, &cx.params())?;
    drop(cx);
    let mut graph = trace.finish();
    // What the model function remembers between steps is the step's alone.
    graph.assigns.clear();
    Ok(graph)
}
