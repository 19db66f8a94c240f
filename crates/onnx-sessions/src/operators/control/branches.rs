//! Branches, and bodies that run once for each member of a sequence.

use std::sync::Arc;

use lessen_base::Result;

use lessen_onnx::host::{Data, HostCall, HostOperators, HostValue};

pub(crate) const OPERATORS: HostOperators = &[("", "If", choose), ("", "SequenceMap", map)];

fn choose(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let branch = if truth(call, call.value(0)?)? {
        "then_branch"
    } else {
        "else_branch"
    };
    let body = call.body(branch)?;
    if body.graph.output.len() < call.node.output.len() {
        return call.refused(format!("its {branch} has too few outputs"));
    }
    call.bodies.run(&body, Vec::new())
}

/// The one truth value of an array.
///
/// # Errors
/// A value that is none.
pub(super) fn truth(call: &HostCall<'_>, value: &HostValue) -> Result<bool> {
    match value.tensor().map(|tensor| tensor.data()) {
        Some(Data::Bool(truths)) if truths.len() == 1 => Ok(truths[0]),
        _ => call.refused("its condition is not one truth value"),
    }
}

fn map(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let body = call.body("body")?;
    let HostValue::Sequence(first) = call.value(0)? else {
        return call.refused("its first input is no sequence");
    };
    let count = call.inputs.len();
    let (takes, gives) = (body.graph.input.len(), body.graph.output.len());
    if takes != count || gives < call.node.output.len() {
        return call.refused(format!("its body takes {takes} inputs and gives {gives} outputs"));
    }
    let mut outputs = vec![Vec::with_capacity(first.len()); gives];
    for number in 0..first.len() {
        let mut inputs = Vec::with_capacity(count);
        for position in 0..count {
            inputs.push(match call.value(position)? {
                HostValue::Sequence(all) if all.len() == first.len() => all[number].clone(),
                HostValue::Sequence(_) => return call.refused("its sequences have several lengths"),
                other => other.clone(),
            });
        }
        for (output, value) in outputs.iter_mut().zip(call.bodies.run(&body, inputs)?) {
            output.push(value);
        }
    }
    let sequences = outputs.into_iter().map(|all| HostValue::Sequence(Arc::new(all)));
    Ok(sequences.collect())
}
