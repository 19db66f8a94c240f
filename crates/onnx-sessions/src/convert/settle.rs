//! Names and nodes of a converted model once all changes are known: what nothing reads any more vanishes, and a value
//! without its last element keeps the name of the value that it stands for where nothing reads all elements.

use std::collections::{HashMap, HashSet};

use lessen_onnx::Model;
use lessen_onnx::edit::Edits;
use lessen_onnx::proto::NodeProto;

/// Removes nodes and initializers that something read before the conversion and nothing does after it, and new ones
/// that nothing reads. `shortened` holds names of the model, each with the new name of the value that lacks its last
/// element.
pub(super) fn settle(model: &Model, shortened: &[(String, String)], edits: &mut Edits<'_>) {
    let before = before(model);
    let after = After::of(model, &before, edits);
    for (position, node) in model.nodes.iter().enumerate() {
        if !after.is_live[position] {
            edits.removed.insert(position);
            edits.replaced.remove(&position);
        }
        let outputs = node.proto.output.iter().filter(|name| !name.is_empty());
        let is_gone = |name: &&String| !after.is_live[position] || !after.defined.contains(*name);
        edits.retyped.extend(outputs.filter(is_gone).cloned());
    }
    let after = after.read;
    let unread = model
        .initializers
        .keys()
        .filter(|name| before.contains(*name) && !after.contains(*name));
    edits.dropped.extend(unread.cloned());
    let is_read = |node: &NodeProto| node.output.iter().any(|name| after.contains(name));
    edits.front.retain(is_read);
    for nodes in [&mut edits.before, &mut edits.after, &mut edits.replaced] {
        nodes.values_mut().for_each(|nodes| nodes.retain(is_read));
        nodes.retain(|_, nodes| !nodes.is_empty());
    }
    edits.added.retain(|tensor| after.contains(&tensor.name));
    let renamed = |name: &String, beside: &Option<String>| beside.as_ref().map_or_else(|| name.clone(), String::clone);
    edits
        .changed
        .retain(|name, changed| after.contains(&renamed(name, &changed.beside)));
    let old: HashMap<&str, &str> = shortened
        .iter()
        .filter(|(old, _)| !after.contains(old))
        .map(|(old, short)| (short.as_str(), old.as_str()))
        .collect();
    rename(model, &old, edits);
    edits.name_nodes(model);
}

/// Gives values the names in `old`, which nothing else has any more.
fn rename(model: &Model, old: &HashMap<&str, &str>, edits: &mut Edits<'_>) {
    let put = |name: &mut String| {
        if let Some(old) = old.get(name.as_str()) {
            *name = old.to_string();
        }
    };
    for node in edits.new_nodes() {
        node.input.iter_mut().chain(&mut node.output).for_each(put);
    }
    edits
        .renamed
        .values_mut()
        .chain(edits.renamed_outputs.values_mut())
        .for_each(put);
    let is_other = |name: Option<&String>, new: &String| name != Some(new);
    let nodes = &model.nodes;
    edits
        .renamed
        .retain(|(position, input), new| is_other(nodes[*position].proto.input.get(*input), new));
    edits
        .renamed_outputs
        .retain(|(position, output), new| is_other(nodes[*position].proto.output.get(*output), new));
    for (name, changed) in &mut edits.changed {
        if changed
            .beside
            .as_ref()
            .is_some_and(|short| old.contains_key(short.as_str()))
        {
            changed.beside = None;
            // An initializer takes the place of a constant node.
            let giver = nodes.iter().position(|node| node.proto.output.contains(name));
            edits.removed.extend(giver);
            edits.dropped.remove(name);
        }
    }
    edits.retyped.extend(old.values().map(|name| name.to_string()));
}

/// The names that outputs of the model follow from.
fn before(model: &Model) -> HashSet<String> {
    let mut read: HashSet<String> = model.outputs.iter().map(|output| output.name.clone()).collect();
    for node in model.nodes.iter().rev() {
        if enter(&node.proto, &mut read) {
            read.extend(node.captured.iter().cloned());
        }
    }
    read
}

/// A model after its changes.
struct After {
    /// The names that outputs follow from, or nodes that no output followed from before, which stay.
    read: HashSet<String>,
    /// The names of all results of nodes.
    defined: HashSet<String>,
    /// For each position whether its node, or what replaces it, is read.
    is_live: Vec<bool>,
}

impl After {
    fn of(model: &Model, before: &HashSet<String>, edits: &Edits<'_>) -> After {
        let mut read: HashSet<String> = model.outputs.iter().map(|output| output.name.clone()).collect();
        let mut is_live = vec![false; model.nodes.len()];
        let mut defined = HashSet::new();
        for (position, node) in model.nodes.iter().enumerate().rev() {
            let was_read = node.proto.output.iter().any(|name| before.contains(name));
            let own = match edits.replaced.get(&position) {
                Some(nodes) => nodes.clone(),
                None if edits.removed.contains(&position) => Vec::new(),
                None => vec![edits.with_other_names(position, &node.proto)],
            };
            let added = |nodes: Option<&Vec<NodeProto>>, read: &mut HashSet<String>| {
                nodes.into_iter().flatten().rev().for_each(|node| {
                    enter(node, read);
                });
            };
            added(edits.after.get(&position), &mut read);
            if !was_read {
                read.extend(own.iter().flat_map(|node| &node.output).cloned());
            }
            for node in own.iter().rev() {
                is_live[position] |= enter(node, &mut read) || (!was_read && node.output.iter().all(String::is_empty));
            }
            if is_live[position] {
                read.extend(node.captured.iter().cloned());
            }
            added(edits.before.get(&position), &mut read);
            let nodes = own.iter().chain(edits.after.get(&position).into_iter().flatten());
            defined.extend(nodes.flat_map(|node| &node.output).cloned());
        }
        for node in edits.front.iter().rev() {
            enter(node, &mut read);
        }
        After { read, defined, is_live }
    }
}

/// Enters the inputs of a node if a result of it is read; whether one is.
fn enter(node: &NodeProto, read: &mut HashSet<String>) -> bool {
    let is_live = node.output.iter().any(|name| !name.is_empty() && read.contains(name));
    if is_live {
        read.extend(node.input.iter().filter(|name| !name.is_empty()).cloned());
    }
    is_live
}
