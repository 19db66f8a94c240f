//! Inversion of blocks: the entry of a block that no later block reads is computed from the block's output, as in the
//! additive coupling of reversible networks (`y = x + f(z)` gives `x = y - f(z)`).

use std::collections::HashSet;

use lessen_graph::{NodeId, Operand, Phase, ValueId};

use super::blocks::Blocks;
use crate::passes::Inverted;
use crate::passes::remat::{Forward, SMALLEST};

/// The inversion of a block.
#[derive(Clone)]
pub(super) struct Inversion {
    /// The inverted entry: the block before passes it on, and this block is the last to read it in the forward phase.
    pub value: ValueId,
    /// Its bytes.
    pub bytes: usize,
    /// Declared error of the inversion rule.
    pub error: f64,
    /// The operation that computes the entry, and its operands.
    pub how: Inverted,
}

impl Inversion {
    /// For each block its inversion, if it has one whose declared error is at most `allowed`. The inverted value is an
    /// entry of this block and at most of the block before.
    pub fn of_blocks(forward: &Forward<'_>, blocks: &Blocks, allowed: f64) -> Vec<Option<Inversion>> {
        let mut nodes = vec![Vec::new(); blocks.count];
        for (i, node) in forward.graph.nodes.iter().enumerate() {
            if let (Phase::Forward, Some(block)) = (node.phase, blocks.of_node[i]) {
                nodes[block].push(NodeId(i as u32));
            }
        }
        let of_block = |(block, nodes): (usize, &Vec<NodeId>)| {
            let leads = |block: Option<usize>, v: &ValueId| {
                block.is_some_and(|block| blocks.entries.get(block).is_some_and(|entries| entries.contains(v)))
            };
            let before = |steps: usize| block.checked_sub(steps);
            let ends = |v: &&ValueId| !leads(Some(block + 1), v) && !leads(before(2), v) && leads(before(1), v);
            let passed = blocks.entries.get(block + 1)?;
            (blocks.entries[block].iter().filter(ends)).find_map(|&value| {
                let (how, error) = inverted(forward, nodes, value, passed, allowed)?;
                let stage = block;
                Some(Inversion {
                    value,
                    bytes: forward.graph.ty(value).bytes(),
                    error,
                    how: Inverted { stage, ..how },
                })
            })
        };
        nodes.iter().enumerate().map(of_block).collect()
    }
}

/// The inversion of a value from the values that its block passes on, by one operation, and its declared error.
fn inverted(
    forward: &Forward<'_>,
    nodes: &[NodeId],
    value: ValueId,
    passed: &[ValueId],
    allowed: f64,
) -> Option<(Inverted, f64)> {
    let graph = forward.graph;
    if forward.base(value) != value || graph.ty(value).bytes() < SMALLEST {
        return None;
    }
    let mut follows = HashSet::from([value]);
    for id in nodes {
        let node = &graph.nodes[id.index()];
        if node.inputs.iter().any(|v| follows.contains(v)) {
            follows.extend(&node.outputs);
        }
    }
    nodes.iter().find_map(|id| {
        let node = &graph.nodes[id.index()];
        let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
        let input = node.inputs.iter().position(|&v| v == value)?;
        let output = node.outputs[0];
        let rule = graph.ask(node, &inputs, &outputs).inverse(input)?;
        let is_admitted = rule.error <= allowed && rule.condition.is_none() && passed.contains(&output);
        let operands: Option<Vec<ValueId>> = rule.operands.iter().map(|o| o.value(node, node)).collect();
        let operands = operands.filter(|_| is_admitted)?;
        let is_known = |(operand, v): (&Operand, &ValueId)| {
            *operand == Operand::ForwardOutput(0) || matches!(operand, Operand::ForwardInput(_)) && !follows.contains(v)
        };
        let (op, stage) = (rule.op, 0);
        let is_known = rule.operands.iter().zip(&operands).all(is_known);
        is_known.then_some((Inverted { op, operands, stage }, rule.error))
    })
}
