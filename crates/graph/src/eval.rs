//! The reference evaluator: plain `f64` loops, the oracle of every kernel and every pass.

use lessen_base::{Error, Result};
use std::collections::HashMap;

use crate::array::Array;
use crate::graph::{Graph, InputKind};
use crate::op::Op;
use crate::tensor::Tensor;
use crate::trace::Trace;
use crate::types::Type;

/// Runs a graph on named inputs (data and state) and returns the named outputs; the new value of an assigned
/// state is returned under the state's name.
///
/// # Errors
/// A sentence that names an input which is missing or has another type.
pub fn evaluate(graph: &Graph, inputs: &HashMap<String, Array>) -> Result<HashMap<String, Array>> {
    let mut values: Vec<Option<Array>> = vec![None; graph.values.len()];
    for input in &graph.inputs {
        let Some(array) = inputs.get(&input.name) else {
            return Err(Error::user(format!(
                "no value is given for the input `{}`",
                input.name
            )));
        };
        if array.ty != *graph.ty(input.value) {
            return Err(Error::user(format!(
                "the input `{}` has type {}, the value given has type {}",
                input.name,
                graph.ty(input.value),
                array.ty
            )));
        }
        values[input.value.index()] = Some(array.clone());
    }
    let mut uses = vec![0usize; graph.values.len()];
    for value in graph.nodes.iter().flat_map(|n| &n.inputs) {
        uses[value.index()] += 1;
    }
    for value in graph
        .outputs
        .iter()
        .map(|o| o.value)
        .chain(graph.assigns.iter().map(|a| a.value))
    {
        uses[value.index()] += 1;
    }
    for i in 0..graph.nodes.len() {
        let node = &graph.nodes[i];
        let outputs = {
            let args: Vec<&Array> = node
                .inputs
                .iter()
                .map(|v| values[v.index()].as_ref().expect("defined before use"))
                .collect();
            node.op.eval(&args, &graph.output_types(node))
        };
        for (&id, array) in node.outputs.iter().zip(outputs) {
            assert_eq!(
                array.ty,
                *graph.ty(id),
                "{} evaluates to another type",
                node.op.name()
            );
            values[id.index()] = Some(array);
        }
        for input in &node.inputs {
            uses[input.index()] -= 1;
            if uses[input.index()] == 0 && graph.input(*input).is_none() {
                values[input.index()] = None;
            }
        }
    }
    let mut results = HashMap::new();
    for output in &graph.outputs {
        results.insert(
            output.name.clone(),
            values[output.value.index()].clone().expect("defined"),
        );
    }
    for assign in &graph.assigns {
        let input = graph.input(assign.target).expect("assigns target inputs");
        debug_assert_eq!(input.kind, InputKind::State);
        results.insert(
            input.name.clone(),
            values[assign.value.index()].clone().expect("defined"),
        );
    }
    Ok(results)
}

/// Applies one operation to arrays.
///
/// # Errors
/// The operation's sentence when the types do not fit.
pub fn evaluate_op(op: &dyn Op, inputs: &[&Array]) -> Result<Vec<Array>> {
    let types: Vec<Type> = inputs.iter().map(|a| a.ty.clone()).collect();
    let outputs = op.infer(&types)?;
    Ok(op.eval(inputs, &outputs))
}

/// Evaluates an operation through its decomposition.
pub(crate) fn evaluate_decomposition(
    name: &str,
    decompose: impl for<'g> Fn(&[Tensor<'g>]) -> Option<Vec<Tensor<'g>>>,
    inputs: &[&Array],
) -> Vec<Array> {
    let trace = Trace::new();
    let count = {
        let tensors: Vec<Tensor<'_>> = inputs
            .iter()
            .enumerate()
            .map(|(i, a)| trace.input(&i.to_string(), a.ty.dtype, &a.ty.shape))
            .collect();
        let Some(outputs) = decompose(&tensors) else {
            panic!("the operation `{name}` has neither an evaluation nor a decomposition");
        };
        for (i, output) in outputs.iter().enumerate() {
            trace.output(&i.to_string(), *output);
        }
        outputs.len()
    };
    let graph = trace.finish();
    let named = inputs
        .iter()
        .enumerate()
        .map(|(i, a)| (i.to_string(), (*a).clone()))
        .collect();
    let mut results = evaluate(&graph, &named).expect("inputs are named and typed above");
    (0..count)
        .map(|i| results.remove(&i.to_string()).expect("every output is named"))
        .collect()
}
