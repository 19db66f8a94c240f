//! Graphs of functions over the parameters of a model.

use crate::view::ParameterView;
use lessen_base::{Error, Result};
use lessen_graph::{Graph, Tensor, Trace};
use lessen_nn::names::{is_reserved, refusal};
use lessen_nn::{Cx, ParamSpec};

/// The graph of a function over these parameters, without dropout: `trace` returns its results by name.
///
/// # Errors
/// Shapes that do not fit each other, with the line of the function, and a parameter that is not among `params`.
pub(crate) fn function_graph<N: Into<String>>(
    params: &[ParamSpec],
    view: &ParameterView,
    trace: impl Fn(Cx) -> Vec<(N, Tensor)>,
) -> Result<Graph> {
    let (graph, own) = traced(view, false, trace)?;
    check_params(params, &own)?;
    Ok(view.converted(graph))
}

/// The graph of a function, with or without `training`, and the parameters that it declares.
///
/// # Errors
/// Shapes that do not fit each other, with the line of the function.
pub(crate) fn traced<N: Into<String>>(
    view: &ParameterView,
    training: bool,
    trace: impl Fn(Cx) -> Vec<(N, Tensor)>,
) -> Result<(Graph, Vec<ParamSpec>)> {
    let builder = Trace::new();
    let cx = view.of_results(Cx::new(*builder, training));
    builder.attempt(|| {
        for (name, value) in trace(cx) {
            let name = name.into();
            if is_reserved(&name) {
                builder.fail(refusal(&name));
            }
            builder.output(&name, value);
        }
    })?;
    cx.check_names()?;
    let params = cx.params();
    Ok((builder.finish(), params))
}

/// Refuses a parameter of a graph, one of `own`, that is not among `params`.
pub(crate) fn check_params(params: &[ParamSpec], own: &[ParamSpec]) -> Result<()> {
    let is_known = |param: &ParamSpec| {
        let same = |known: &ParamSpec| known.name == param.name && known.shape == param.shape;
        params.iter().any(same)
    };
    match own.iter().find(|param| !is_known(param)) {
        None => Ok(()),
        Some(ParamSpec { name, shape, .. }) => Err(Error::user(format!(
            "the model has no parameter `{name}` of shape {shape:?}"
        ))),
    }
}
