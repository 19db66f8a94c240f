//! Types of the operands of nodes, collected once for all that ask for them.

use lessen_graph::{Graph, Type};

/// The types of what each node of a graph reads and returns.
pub(crate) struct NodeTypes {
    types: Vec<Type>,
    /// For each node where its inputs and its outputs begin in `types`; the outputs end where the next node begins.
    begins: Vec<(usize, usize)>,
}

impl NodeTypes {
    pub fn of(graph: &Graph) -> NodeTypes {
        let mut types = Vec::with_capacity(2 * graph.values.len());
        let mut begins = Vec::with_capacity(graph.nodes.len() + 1);
        for node in &graph.nodes {
            let inputs = types.len();
            types.extend(node.inputs.iter().map(|&v| graph.ty(v).clone()));
            begins.push((inputs, types.len()));
            types.extend(node.outputs.iter().map(|&v| graph.ty(v).clone()));
        }
        begins.push((types.len(), types.len()));
        NodeTypes { types, begins }
    }

    /// The types of the inputs and of the outputs of the node of this position.
    pub fn of_node(&self, node: usize) -> (&[Type], &[Type]) {
        let ((inputs, outputs), (end, _)) = (self.begins[node], self.begins[node + 1]);
        (&self.types[inputs..outputs], &self.types[outputs..end])
    }
}
