//! The linear layers that read a value, through operations that only move its elements.

use lessen_graph::Along;

use super::facts::{Facts, Runs, Use};

/// A linear layer that reads a value.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    /// The layer's weight, a state that only it reads, and the axis that is added up.
    pub weight: Runs,
    /// The same runs where the product reads them.
    pub operand: (Runs, Use),
    /// Its bias, a state that only it reads, and the axis of the layer's results; none where it has none.
    pub bias: Option<Runs>,
    /// The runs that are read on the way from the value to the product, with their uses.
    pub path: Vec<(Runs, Use)>,
}

/// The layers that read runs; none where something else does.
pub(crate) fn destinations(facts: &Facts<'_>, runs: Runs) -> Option<Vec<Destination>> {
    let mut found = Vec::new();
    let mut open = vec![(runs, Vec::new())];
    while let Some((runs, path)) = open.pop() {
        if facts.is_result[runs.value.index()] {
            return None;
        }
        for &at in &facts.uses[runs.value.index()] {
            let node = &facts.graph.nodes[at.node.index()];
            let types = facts.graph.input_types(node);
            let mut path = path.clone();
            path.push((runs, at));
            let contraction = node.op.contraction(at.input, &types);
            if let Some(contraction) = contraction.filter(|contraction| contraction.axis == runs.axis) {
                let (input, inner) = contraction.other;
                let operand = Runs::of(node.inputs[input], inner);
                let weight = facts.own_state_of(operand)?;
                let columns = facts.own_state_of(Runs::of(node.inputs[input], contraction.results))?;
                let ty = facts.graph.ty(weight.value);
                let is_matrix = ty.numel() == ty.shape[weight.axis] * ty.shape[columns.axis];
                if !is_matrix || weight.axis == columns.axis {
                    return None;
                }
                let output = node.outputs[0];
                let bias = bias_of(facts, Runs::of(output, facts.graph.ty(output).rank() - 1));
                let operand = (operand, Use { node: at.node, input });
                found.push(Destination {
                    weight,
                    operand,
                    bias,
                    path,
                });
            } else if at.input == 0 && facts.moves(node) {
                for (output, &value) in node.outputs.iter().enumerate() {
                    let axis = facts.axis_after(at, output, runs.axis)?;
                    open.push((Runs::of(value, axis), path.clone()));
                }
            } else {
                return None;
            }
        }
    }
    Some(found)
}

/// The state that is added to runs, once for each position, before anything else reads them.
fn bias_of(facts: &Facts<'_>, mut runs: Runs) -> Option<Runs> {
    loop {
        let at = facts.only_use(runs.value)?;
        let node = &facts.graph.nodes[at.node.index()];
        if node.op.is_sum() {
            let other = node.inputs[1 - at.input];
            let bias = facts.own_state_of(Runs::of(other, runs.axis))?;
            let is_vector = facts.graph.ty(bias.value).numel() == facts.graph.ty(runs.value).shape[runs.axis];
            return is_vector.then_some(bias);
        }
        let [output] = node.outputs[..] else {
            return None;
        };
        let axis = facts
            .axis_after(at, 0, runs.axis)
            .filter(|_| at.input == 0 && facts.moves(node))?;
        debug_assert!(matches!(facts.along(Runs::of(output, axis)), Along::Linear(_)));
        runs = Runs::of(output, axis);
    }
}
