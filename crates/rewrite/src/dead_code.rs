//! Dead code: removes nodes that no output and no assignment depends on.

use lessen_graph::{Def, Graph, NodeId, Type, Value, ValueId};

/// Removes every node that no output and no assignment depends on. All inputs stay.
pub fn eliminate_dead_code(graph: &Graph) -> Graph {
    without_dead_code(graph.clone())
}

/// As [`eliminate_dead_code`], of a graph that is not needed any more: nodes that stay are moved, not copied.
pub fn without_dead_code(mut graph: Graph) -> Graph {
    let keep = live_nodes(&graph);
    if keep.iter().all(|keep| *keep) && is_compact(&graph) {
        return graph;
    }
    let mut new = Numbering {
        values: Vec::with_capacity(graph.values.len()),
        old: std::mem::take(&mut graph.values),
        map: Vec::new(),
    };
    new.map = vec![ValueId(u32::MAX); new.old.len()];
    for (i, input) in graph.inputs.iter_mut().enumerate() {
        input.value = new.define(input.value, Def::Input(i));
    }
    let nodes = std::mem::take(&mut graph.nodes).into_iter().zip(keep);
    for mut node in nodes.filter_map(|(node, keep)| keep.then_some(node)) {
        let id = NodeId(graph.nodes.len() as u32);
        node.inputs.iter_mut().for_each(|v| *v = new.map[v.index()]);
        for (k, output) in node.outputs.iter_mut().enumerate() {
            *output = new.define(*output, Def::Node(id, k));
        }
        graph.nodes.push(node);
    }
    for output in &mut graph.outputs {
        output.value = new.map[output.value.index()];
    }
    for assign in &mut graph.assigns {
        assign.target = new.map[assign.target.index()];
        assign.value = new.map[assign.value.index()];
    }
    graph.values = new.values;
    graph
}

/// New numbers of the values that stay.
struct Numbering {
    values: Vec<Value>,
    old: Vec<Value>,
    /// For each old value that stays the new one.
    map: Vec<ValueId>,
}

impl Numbering {
    /// Gives an old value the next number.
    fn define(&mut self, old: ValueId, def: Def) -> ValueId {
        let value = ValueId(self.values.len() as u32);
        let ty = std::mem::replace(&mut self.old[old.index()].ty, Type::f32(&[]));
        self.values.push(Value { ty, def });
        self.map[old.index()] = value;
        value
    }
}

/// For each node whether an output or an assignment depends on it.
fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.values.len()];
    let outputs = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().map(|assign| assign.value);
    outputs.chain(assigned).for_each(|value| live[value.index()] = true);
    let mut keep = vec![false; graph.nodes.len()];
    for (keep, node) in keep.iter_mut().zip(&graph.nodes).rev() {
        if node.outputs.iter().any(|v| live[v.index()]) {
            *keep = true;
            node.inputs.iter().for_each(|v| live[v.index()] = true);
        }
    }
    keep
}

/// Whether values are numbered as a [`Rewriter`](crate::Rewriter) numbers them: inputs first, then the outputs of
/// nodes, in order.
fn is_compact(graph: &Graph) -> bool {
    let inputs = graph.inputs.iter().map(|input| input.value);
    let outputs = graph.nodes.iter().flat_map(|node| node.outputs.iter().copied());
    inputs.chain(outputs).eq((0..graph.values.len() as u32).map(ValueId))
}
