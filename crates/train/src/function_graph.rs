//! Graphs of functions over the parameters of a model.

use crate::view::ParameterView;
use lessen_base::{Error, Result};
use lessen_graph::{Graph, Op, Tensor, Trace};
use lessen_nn::names::{is_reserved, refusal};
use lessen_nn::{Cx, ParamSpec};
use std::collections::{BTreeSet, HashSet};

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
    let results = builder.attempt(|| trace(cx))?;
    let mut taken: BTreeSet<String> =
        builder.with_graph(|graph| graph.outputs.iter().map(|y| y.name.clone()).collect());
    for (name, value) in results {
        let name = name.into();
        let refused = if is_reserved(&name) {
            refusal(&name)
        } else if !taken.insert(name.clone()) {
            format!("two results of the function are called `{name}`; give one of them another name")
        } else {
            builder.attempt_described(|| builder.output(&name, value))?;
            continue;
        };
        let error = Error::user(refused);
        return Err(match builder.place_of(value) {
            Some(place) => error.at(place),
            None => error,
        });
    }
    cx.check_names()?;
    let params = cx.params();
    let graph = builder.finish();
    let is_of_several = |op: &dyn Op| op.ranks().is_some_and(|ranks| ranks.count > 1);
    if let Some(node) = graph.nodes.iter().find(|node| is_of_several(node.op.as_ref())) {
        return Err(Error::user(format!(
            "`{}` in a function beside the steps is of several ranks, which take part in steps alone",
            node.op.name()
        )));
    }
    Ok((graph, params))
}

/// Refuses a parameter of a graph, one of `own`, that is not among `params`.
pub(crate) fn check_params(params: &[ParamSpec], own: &[ParamSpec]) -> Result<()> {
    let known: HashSet<(&str, &[usize])> = params.iter().map(|param| (&*param.name, &*param.shape)).collect();
    let is_known = |param: &ParamSpec| known.contains(&(&*param.name, &*param.shape));
    match own.iter().find(|param| !is_known(param)) {
        None => Ok(()),
        Some(ParamSpec { name, shape, .. }) => {
            let known = params.iter().find(|known| known.name == *name);
            let remedy = match known {
                Some(known) => format!("it has one of shape {:?}", known.shape),
                None => "declare it in the loss of the trainer, or take one that is there".to_string(),
            };
            Err(Error::user(format!(
                "the model has no parameter `{name}` of shape {shape:?}; {remedy}"
            )))
        }
    }
}
