//! Nodes and initializers that nothing reads any more once a model is converted.

use std::collections::HashSet;

use crate::edit::Edits;
use crate::model::Model;
use crate::proto::NodeProto;

/// Removes nodes and initializers that something read before the conversion and nothing does after it.
pub(super) fn remove(model: &Model, edits: &mut Edits<'_>) {
    let before = reached(model, &[], |position| vec![model.nodes[position].proto.clone()]);
    let after = reached(model, &edits.front, |position| {
        edits.all_at(position, &model.nodes[position].proto)
    });
    for (position, node) in model.nodes.iter().enumerate() {
        let is_in = |names: &HashSet<String>| node.proto.output.iter().any(|name| names.contains(name));
        if is_in(&before) && !is_in(&after) {
            edits.removed.insert(position);
            edits.replaced.remove(&position);
        }
    }
    let unread = model
        .initializers
        .keys()
        .filter(|name| before.contains(*name) && !after.contains(*name));
    edits.dropped.extend(unread.cloned());
    edits.added.retain(|tensor| after.contains(&tensor.name));
    edits.changed.retain(|name, _| after.contains(name));
}

/// The names that outputs of the model follow from, where the nodes in front of all stand before those at its
/// positions.
fn reached(model: &Model, front: &[NodeProto], nodes: impl Fn(usize) -> Vec<NodeProto>) -> HashSet<String> {
    let mut reached: HashSet<String> = model.outputs.iter().map(|output| output.name.clone()).collect();
    for position in (0..model.nodes.len()).rev() {
        if enter(&nodes(position), &mut reached) {
            reached.extend(model.nodes[position].captured.iter().cloned());
        }
    }
    enter(front, &mut reached);
    reached
}

/// Enters the inputs of the nodes with a result that is read; whether there are any.
fn enter(nodes: &[NodeProto], reached: &mut HashSet<String>) -> bool {
    let mut is_live = false;
    for node in nodes.iter().rev() {
        if node.output.iter().any(|name| reached.contains(name)) {
            is_live = true;
            reached.extend(node.input.iter().filter(|name| !name.is_empty()).cloned());
        }
    }
    is_live
}
