//! Whether a network can be trained: derivatives of all that lies between its parameters and its logits.

use lessen_base::{Error, Result};
use lessen_graph::{Tensor, Trace, TraceRef};

use super::{Network, ParameterRole};

/// Checks that the logits have a derivative by every parameter.
///
/// # Errors
/// Operations without a derivative, all of them; parameters that do not reach the logits.
pub(super) fn check(network: &Network) -> Result<()> {
    let is_trained = |role: ParameterRole| !matches!(role, ParameterRole::RunningMean | ParameterRole::RunningVariance);
    let names: Vec<&str> = network
        .parameters
        .iter()
        .filter(|own| is_trained(own.role))
        .map(|own| own.name.as_str())
        .collect();
    if names.is_empty() {
        return Err(network.model.error(
            "it has no weights that layers read as initializers, so there is nothing to train; export it with its weights",
        ));
    }
    let trace = Trace::new();
    let logits = network.trial(*trace, network.fitting, None)?;
    let parameters: Vec<Tensor> = names.iter().filter_map(|name| state(*trace, name)).collect();
    let gradients = trace.attempt_described(|| logits.sum().grad(&parameters).len());
    match gradients {
        Ok(_) => Ok(()),
        Err(error) => Err(network.model.error(&refusal(*trace, error))),
    }
}

/// The state of a name.
fn state(trace: TraceRef, name: &str) -> Option<Tensor> {
    let id = trace.with_graph(|graph| {
        let mut inputs = graph.inputs.iter();
        inputs.find(|input| input.name == name).map(|input| input.value)
    })?;
    Some(trace.tensor(id))
}

/// The sentence about operations without a derivative: all of them, by the derivatives of single nodes.
fn refusal(trace: TraceRef, error: Error) -> String {
    let nodes = trace.with_graph(|graph| graph.nodes.clone());
    let mut lacking: Vec<String> = Vec::new();
    for node in nodes {
        let types = trace.with_graph(|graph| {
            node.inputs
                .iter()
                .map(|input| graph.ty(*input).clone())
                .collect::<Vec<_>>()
        });
        let own = Trace::new();
        let differentiated = own.attempt_described(|| {
            let inputs = types.iter().enumerate();
            let inputs = inputs.map(|(i, ty)| own.state(&i.to_string(), ty.dtype, &ty.shape));
            let inputs: Vec<Tensor> = inputs.collect();
            let floats: Vec<Tensor> = inputs.iter().copied().filter(|x| x.dtype().is_float()).collect();
            let outputs = own.apply_shared(node.op.clone(), &inputs);
            for output in outputs.into_iter().filter(|output| output.dtype().is_float()) {
                output.sum().grad(&floats);
            }
        });
        let shown = match node.scope.as_ref() {
            "" => node.op.name().to_string(),
            scope => scope.to_string(),
        };
        if differentiated.is_err() && !lacking.contains(&shown) {
            lacking.push(shown);
        }
    }
    match &lacking[..] {
        [] => format!("it cannot be trained, since {}", error.message()),
        all => format!(
            "it cannot be trained, since there is no derivative of the nodes {}",
            all.join(", ")
        ),
    }
}
