//! Slices: a stage runs slice by slice of the rows where that saves memory. Values inside it, such as the hidden layer
//! of an MLP and its gradient, then exist for one slice at a time.
//!
//! The nodes of a stage are divided into *levels*. In a sliced level, each slice of a result depends only on the same
//! slice of the level's inputs. Nodes that need all rows run between two sliced levels. Sums over rows (gradients of
//! weights and biases) are accumulated slice by slice, in the order in which devices add them up anyway, so no bit of
//! any result changes.

mod cut;
mod levels;
mod roles;
mod writer;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lessen_graph::{Graph, NodeId, Phase};

use self::cut::{Cut, Division, Slicing};
use self::writer::Writer;
use super::materialize;
use crate::target::Target;

/// Runs these stages in slices; none where that saves no memory in any of them.
pub(crate) fn by_slices(graph: &Graph, stages: &BTreeSet<u32>, target: &dyn Target) -> Option<Graph> {
    if stages.is_empty() {
        return None;
    }
    let mut members: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        if node.phase == Phase::Backward && stages.contains(&node.stage) {
            members.entry(node.stage).or_default().push(NodeId(i as u32));
        }
    }
    members.values_mut().for_each(|nodes| keep_connected(graph, nodes));
    let divided = members.into_values().filter_map(|nodes| {
        let division = Division::of(graph, &nodes, target)?;
        Some((nodes, division))
    });
    let divided: Vec<(Vec<NodeId>, Division)> = divided.collect();
    if divided.is_empty() {
        return None;
    }
    let slicing = Slicing::new(graph, target);
    let cut = divided
        .iter()
        .filter_map(|(nodes, division)| slicing.cut(nodes, *division));
    let cut: Vec<Cut> = cut.collect();
    if cut.is_empty() {
        return None;
    }
    let mut writer = Writer::new(&slicing);
    for piece in pieces(graph, &cut)? {
        match piece {
            Piece::Node(id) => writer.node(id),
            Piece::Stage(at) => writer.stage(&cut[at]),
        }
    }
    Some(materialize(&writer.finish(), target))
}

/// Drops nodes that neither read another node of the stage nor are read by one: a view of an input that only a later
/// stage reads would move the whole stage past the nodes that the later one waits for.
fn keep_connected(graph: &Graph, nodes: &mut Vec<NodeId>) {
    let members: BTreeSet<NodeId> = nodes.iter().copied().collect();
    let mut connected: BTreeSet<NodeId> = BTreeSet::new();
    for &id in nodes.iter() {
        let producers = graph.nodes[id.index()].inputs.iter();
        let producers = producers
            .filter_map(|&v| graph.producer(v))
            .filter(|p| members.contains(p));
        for producer in producers {
            connected.extend([producer, id]);
        }
    }
    nodes.retain(|id| connected.contains(id));
}

/// A part of the new order that runs in one piece.
enum Piece {
    Node(NodeId),
    /// A stage, by its position.
    Stage(usize),
}

/// The order of all nodes in which sliced stages run in one piece; none where there is no such order.
fn pieces(graph: &Graph, cut: &[Cut]) -> Option<Vec<Piece>> {
    let members = cut.iter().enumerate();
    let stage_of: HashMap<NodeId, usize> = members
        .flat_map(|(at, cut)| cut.nodes().map(move |id| (id, at)))
        .collect();
    // A piece is known by the position of its last node.
    let last = |cut: &Cut| cut.nodes().map(NodeId::index).max();
    let ends: Vec<usize> = cut.iter().filter_map(last).collect();
    let piece_of = |id: NodeId| stage_of.get(&id).map_or(id.index(), |&at| ends[at]);
    let mut waits: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate() {
        let own = piece_of(NodeId(i as u32));
        let before = waits.entry(own).or_default();
        for producer in node.inputs.iter().filter_map(|v| graph.producer(*v)) {
            let other = piece_of(producer);
            if other != own && before.insert(other) {
                waiting.entry(other).or_default().push(own);
            }
        }
    }
    let mut ready: BTreeSet<usize> = waits
        .iter()
        .filter(|(_, from)| from.is_empty())
        .map(|(&at, _)| at)
        .collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(at) = ready.pop_first() {
        let id = NodeId(at as u32);
        order.push(stage_of.get(&id).map_or(Piece::Node(id), |&stage| Piece::Stage(stage)));
        for next in waiting.remove(&at).unwrap_or_default() {
            let from = waits.get_mut(&next).expect("a piece");
            from.remove(&at);
            if from.is_empty() {
                ready.insert(next);
            }
        }
    }
    (order.len() == waits.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_graph::{DType, Trace};

    #[test]
    fn a_view_that_only_a_later_stage_reads_belongs_to_no_slice() {
        let trace = Trace::new();
        let (x, y) = (
            trace.input("x", DType::F32, &[4, 6]),
            trace.input("y", DType::F32, &[4]),
        );
        trace.output("view", x.reshape(&[24]));
        trace.output("z", y.tanh().exp());
        let graph = trace.finish();
        let mut nodes: Vec<NodeId> = (0..graph.nodes.len() as u32).map(NodeId).collect();
        keep_connected(&graph, &mut nodes);
        let names: Vec<&str> = nodes.iter().map(|id| graph.nodes[id.index()].op.name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(!names.contains(&"reshape"), "{names:?}");
    }
}
