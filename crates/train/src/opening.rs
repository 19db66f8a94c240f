//! Updates of accumulated gradients at the beginning of the next step: the sums of gradients wait in their states, and
//! the first micro-batch of the next step begins with the update. So it reads parameters that the update has just
//! written (Jiang et al. 2021 call that forward-fusion), and nothing but the sums has to wait.

use lessen_base::{Error, Result};
use lessen_compile::passes::pending;
use lessen_graph::{Assign, Graph, InputKind, ValueId};

/// The update with the data inputs of the step before, such as its learning rate, under the names of
/// [`pending`].
pub(crate) fn waiting(update: &Graph) -> Graph {
    let mut waiting = update.clone();
    waiting.outputs.clear();
    let data = waiting.inputs.iter_mut().filter(|input| input.kind == InputKind::Data);
    data.for_each(|input| input.name = pending(&input.name));
    waiting
}

/// The graph of an update, followed by a micro-batch that reads the new values of the states.
///
/// # Errors
/// A state of two types.
pub(crate) fn opening(update: &Graph, batch: &Graph) -> Result<Graph> {
    let mut all = waiting(update);
    let mut map: Vec<Option<ValueId>> = vec![None; batch.values.len()];
    let mut targets = map.clone();
    for input in &batch.inputs {
        let known = all
            .inputs
            .iter()
            .find(|own| own.name == input.name)
            .map(|own| own.value);
        let target = match known {
            Some(target) if all.ty(target) == batch.ty(input.value) => target,
            Some(_) => {
                return Err(Error::user(format!(
                    "the state `{}` has two types; give one of them another name",
                    input.name
                )));
            }
            None => all.add_input(&input.name, input.kind, batch.ty(input.value).clone())?,
        };
        let assigned = all.assigns.iter().find(|assign| assign.target == target);
        map[input.value.index()] = Some(assigned.map_or(target, |assign| assign.value));
        targets[input.value.index()] = Some(target);
    }
    let unknown = || Error::internal("a micro-batch reads a value that is not there");
    for node in &batch.nodes {
        let inputs = node.inputs.iter().map(|value| map[value.index()].ok_or_else(unknown));
        let inputs: Vec<ValueId> = inputs.collect::<Result<_>>()?;
        let outputs = all.copy_node(batch, node, &inputs, node.phase)?;
        for (old, new) in node.outputs.iter().zip(outputs) {
            map[old.index()] = Some(*new);
        }
    }
    for assign in &batch.assigns {
        let target = targets[assign.target.index()].ok_or_else(unknown)?;
        let value = map[assign.value.index()].ok_or_else(unknown)?;
        all.assigns.retain(|own| own.target != target);
        all.assigns.push(Assign { target, value });
    }
    for output in &batch.outputs {
        let value = map[output.value.index()].ok_or_else(unknown)?;
        all.outputs.push(lessen_graph::Output {
            value,
            ..output.clone()
        });
    }
    Ok(all)
}
