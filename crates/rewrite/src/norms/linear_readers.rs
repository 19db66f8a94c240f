//! The linear layers that read a value, through operations that only move its elements.

use lessen_graph::Along;

use super::facts::{Facts, Lines, NodeInput};

/// A linear layer that reads a value.
#[derive(Clone, Debug)]
pub(crate) struct LinearReader {
    /// The weight, a state that only this layer reads, and the axis that is summed.
    pub weight: Lines,
    /// The same lines as the product reads them.
    pub operand: (Lines, NodeInput),
    /// The bias, a state that only this layer reads, and its axis along the layer's results; none where there is none.
    pub bias: Option<Lines>,
    /// The lines between the value and the product, with the node inputs that read them.
    pub path: Vec<(Lines, NodeInput)>,
}

/// The layers that read lines; none where anything else reads them.
pub(crate) fn linear_readers(facts: &Facts<'_>, lines: Lines) -> Option<Vec<LinearReader>> {
    let mut found = Vec::new();
    let mut open = vec![(lines, Vec::new())];
    while let Some((lines, path)) = open.pop() {
        if facts.is_result[lines.value.index()] {
            return None;
        }
        for &at in &facts.uses[lines.value.index()] {
            let node = &facts.graph.nodes[at.node.index()];
            let mut path = path.clone();
            path.push((lines, at));
            let (inputs, outputs) = (facts.graph.input_types(node), facts.graph.output_types(node));
            let contraction = facts.graph.ask(node, &inputs, &outputs).contraction(at.input);
            if let Some(contraction) = contraction.filter(|contraction| contraction.axis == lines.axis) {
                let (input, inner) = contraction.other;
                let operand = Lines::of(node.inputs[input], inner);
                let weight = facts.own_state_of(operand)?;
                let columns = facts.own_state_of(Lines::of(node.inputs[input], contraction.results))?;
                let ty = facts.graph.ty(weight.value);
                let is_matrix = ty.numel() == ty.shape[weight.axis] * ty.shape[columns.axis];
                if !is_matrix || weight.axis == columns.axis {
                    return None;
                }
                let output = node.outputs[0];
                let bias = bias_of(facts, Lines::of(output, facts.graph.ty(output).rank() - 1));
                let operand = (operand, NodeInput { node: at.node, input });
                found.push(LinearReader {
                    weight,
                    operand,
                    bias,
                    path,
                });
            } else if at.input == 0 && facts.moves(node) {
                for (output, &value) in node.outputs.iter().enumerate() {
                    let axis = facts.axis_after(at, output, lines.axis)?;
                    open.push((Lines::of(value, axis), path.clone()));
                }
            } else {
                return None;
            }
        }
    }
    Some(found)
}

/// The state that is added to lines, one number for each position, before anything else reads them.
fn bias_of(facts: &Facts<'_>, mut lines: Lines) -> Option<Lines> {
    loop {
        let at = facts.only_use(lines.value)?;
        let node = &facts.graph.nodes[at.node.index()];
        let (inputs, outputs) = (facts.graph.input_types(node), facts.graph.output_types(node));
        if facts.graph.ask(node, &inputs, &outputs).is_sum() {
            let other = node.inputs[1 - at.input];
            let bias = facts.own_state_of(Lines::of(other, lines.axis))?;
            let is_vector = facts.graph.ty(bias.value).numel() == facts.graph.ty(lines.value).shape[lines.axis];
            return is_vector.then_some(bias);
        }
        let [output] = node.outputs[..] else {
            return None;
        };
        let axis = facts
            .axis_after(at, 0, lines.axis)
            .filter(|_| at.input == 0 && facts.moves(node))?;
        debug_assert!(matches!(facts.along(Lines::of(output, axis)), Along::Linear(_)));
        lines = Lines::of(output, axis);
    }
}
