//! Roles: how a node on slices reads its inputs and writes its outputs.

use lessen_graph::{Graph, Node, OnSlices, OutRole, Role, RowWise, Type, ValueId};

/// How a node on slices reads its inputs and writes its outputs.
pub(super) struct Roles {
    /// The number of its rows; none where it accepts any number of rows.
    pub rows: Option<usize>,
    /// For each input whether every slice reads it whole.
    pub whole: Vec<bool>,
    /// For each output whether it is a sum over rows.
    pub sums: Vec<bool>,
}

impl Roles {
    /// Roles of a node; none where the node cannot work on `slices` slices.
    pub fn of(graph: &Graph, node: &Node, slices: usize) -> Option<Roles> {
        let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
        let asked = graph.ask(node, &inputs, &outputs);
        let (rows, reads, writes) = match (asked.on_slices((0, slices)), asked.row_wise()) {
            (OnSlices::No, _) => return None,
            (OnSlices::Roles(_, reads, writes), _) => (None, reads, writes),
            (_, RowWise::Rows { rows, inputs, outputs }) => (Some(rows), inputs, outputs),
            (_, RowWise::Elementwise) => {
                let role = |ty: &Type| if ty.rank() == 0 { Role::Whole } else { Role::Rows };
                (
                    None,
                    inputs.iter().map(role).collect(),
                    vec![OutRole::Rows; outputs.len()],
                )
            }
            (_, RowWise::No) => return None,
        };
        Some(Roles {
            rows,
            whole: reads.iter().map(|role| *role == Role::Whole).collect(),
            sums: writes.iter().map(|role| *role == OutRole::Sum).collect(),
        })
    }

    /// The outputs of a node that are sums.
    pub fn summed(&self, node: &Node) -> Vec<ValueId> {
        let outputs = node.outputs.iter().zip(&self.sums);
        outputs.filter(|(_, is_sum)| **is_sum).map(|(&v, _)| v).collect()
    }
}
