//! Operations of several ranks as a begin and an end, between which the program computes.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{Begun, Carrier, Ended, Graph, Node, Op, Phase, ValueId};
use lessen_rewrite::Rewriter;

/// The most operations that are begun and not ended: what a carrier holds of one is outside the plan.
const UNDER_WAY: usize = 2;

/// Replaces each operation of several ranks by one that begins it, where its inputs are there, and one that ends it,
/// just before its result is read or a third one begins. Tokens keep all of them in one order, which is the same on all
/// ranks.
///
/// # Errors
/// Such an operation without a carrier, or of another dtype than `f32`.
pub fn carry(graph: &Graph, carrier: Option<&Arc<dyn Carrier>>) -> Result<Graph> {
    let is_of_several = |node: &Node| node.op.ranks().is_some_and(|ranks| ranks.count > 1);
    let Some(first) = graph.nodes.iter().find(|node| is_of_several(node)) else {
        return Ok(graph.clone());
    };
    let Some(carrier) = carrier else {
        return Err(Error::user(format!(
            "the operation `{}` is of several ranks, which take part in steps of a training with a group alone",
            first.op.name()
        )));
    };
    let mut carrying = Carrying {
        rewriter: Rewriter::new(graph),
        under_way: VecDeque::new(),
        results: HashSet::new(),
        token: None,
    };
    for (number, node) in graph.nodes.iter().enumerate() {
        carrying.rewriter.stage = node.stage;
        carrying.end_before(node.phase);
        carrying.end_for(&node.inputs);
        if is_of_several(node) {
            if carrying.under_way.len() == UNDER_WAY {
                carrying.end_first();
            }
            let begun = Begun {
                op: node.op.clone(),
                number,
                inputs: node.inputs.len(),
                carrier: carrier.clone(),
            };
            carrying.begin(node, begun)?;
        } else {
            let inputs: Vec<ValueId> = node.inputs.iter().map(|v| carrying.rewriter.get(*v)).collect();
            carrying.rewriter.copy_with(node, &inputs, node.phase);
        }
    }
    while !carrying.under_way.is_empty() {
        carrying.end_first();
    }
    Ok(carrying.rewriter.finish())
}

struct Carrying<'a> {
    rewriter: Rewriter<'a>,
    under_way: VecDeque<(&'a Node, Begun)>,
    /// The results of operations that are begun.
    results: HashSet<ValueId>,
    /// The token of the operation before.
    token: Option<ValueId>,
}

impl<'a> Carrying<'a> {
    /// The inputs of a node, and the token of the operation before.
    fn inputs(&self, node: &Node) -> Vec<ValueId> {
        let own = node.inputs.iter().map(|v| self.rewriter.get(*v));
        own.chain(self.token).collect()
    }

    fn begin(&mut self, node: &'a Node, begun: Begun) -> Result<()> {
        let inputs = self.inputs(node);
        let types: Vec<_> = inputs.iter().map(|v| self.rewriter.new.ty(*v).clone()).collect();
        begun.infer(&types)?;
        let token = self
            .rewriter
            .push(Arc::new(begun.clone()), &inputs, node.phase, &node.scope);
        self.token = token.first().copied();
        self.results.extend(&node.outputs);
        self.under_way.push_back((node, begun));
        Ok(())
    }

    /// Ends the operation that was begun first.
    fn end_first(&mut self) {
        let Some((node, begun)) = self.under_way.pop_front() else {
            return;
        };
        let inputs = self.inputs(node);
        let ended = self
            .rewriter
            .push(Arc::new(Ended(begun)), &inputs, node.phase, &node.scope);
        for (old, new) in node.outputs.iter().zip(&ended) {
            self.results.remove(old);
            self.rewriter.set(*old, *new);
        }
        self.token = ended.last().copied();
    }

    /// Ends the operations of other phases.
    fn end_before(&mut self, phase: Phase) {
        while self.under_way.front().is_some_and(|(node, _)| node.phase != phase) {
            self.end_first();
        }
    }

    /// Ends the operations whose results are among these values.
    fn end_for(&mut self, values: &[ValueId]) {
        while values.iter().any(|v| self.results.contains(v)) {
            self.end_first();
        }
    }
}
