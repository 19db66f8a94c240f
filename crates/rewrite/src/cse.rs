//! Common subexpressions: of nodes with equal operations and inputs, the first one serves all.
//!
//! Nodes are merged within one phase only: a node that backward repeats is a recomputation, which is there so that the
//! forward value need not be kept.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use lessen_graph::{Graph, Node, Op, Phase, ValueId};

use crate::rewriter::Rewriter;

/// Properties that two nodes must share before their operations are compared.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    phase: Phase,
    op: TypeId,
    fingerprint: u64,
    inputs: Vec<ValueId>,
}

impl Key {
    fn of(node: &Node, inputs: Vec<ValueId>) -> Key {
        let op: &dyn Op = node.op.as_ref();
        Key {
            phase: node.phase,
            op: (op as &dyn Any).type_id(),
            fingerprint: op.fingerprint(),
            inputs,
        }
    }
}

/// Merges equal nodes of the same phase.
pub fn eliminate_common_subexpressions(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    let mut seen: HashMap<Key, Vec<&Node>> = HashMap::new();
    for node in &graph.nodes {
        let inputs = node.inputs.iter().map(|&v| rewriter.get(v)).collect();
        let others = seen.entry(Key::of(node, inputs)).or_default();
        let same = |other: &&&Node| {
            let has_types = |(a, b): (&ValueId, &ValueId)| graph.ty(*a) == graph.ty(*b);
            let is_same = other.op.same(node.op.as_ref()) && other.outputs.len() == node.outputs.len();
            is_same && other.outputs.iter().zip(&node.outputs).all(has_types)
        };
        match others.iter().find(same) {
            Some(first) => {
                for (&old, &same) in node.outputs.iter().zip(&first.outputs) {
                    let new = rewriter.get(same);
                    rewriter.set(old, new);
                }
            }
            None => {
                rewriter.copy(node);
                others.push(node);
            }
        }
    }
    rewriter.finish()
}
