//! Codes of 8 bits that are written by what computes their numbers: a convolution or product of codes, or a sum of two
//! arrays of them, writes codes where its numbers become codes alone, and what only limits numbers within the range of
//! their codes is left out.

use std::sync::Arc;

use lessen_graph::{Graph, Node, Op, ValueId, ops};

use crate::Rewriter;
use crate::dead_code::without_dead_code;

/// How far from the middle between two codes a limit is that both `f32` and `f64` round to the same code.
const MARGIN: f64 = 1e-3;

/// The graph whose convolutions, products and sums of codes write codes where these are all that is read of them.
pub fn write_codes(graph: &Graph) -> Graph {
    if !graph.nodes.iter().any(|node| node.op.is::<ops::QuantizeLinear>()) {
        return graph.clone();
    }
    fused(&without_dead_code(unlimited(graph)))
}

/// Codes are made of numbers before limits that they have by themselves.
fn unlimited(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    for node in &graph.nodes {
        let Some(codes) = node.op.downcast_ref::<ops::QuantizeLinear>() else {
            rewriter.copy(node);
            continue;
        };
        let mut numbers = node.inputs[0];
        while let Some(before) = before_limits(graph, numbers, codes) {
            numbers = before;
        }
        let inputs = [rewriter.get(numbers)];
        rewriter.copy_with(node, &inputs, node.phase);
    }
    rewriter.finish()
}

/// The numbers of which an operation makes a value with the same codes.
fn before_limits(graph: &Graph, value: ValueId, codes: &ops::QuantizeLinear) -> Option<ValueId> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    let (low, high) = match node.op.downcast_ref::<ops::Clamp>() {
        Some(clamp) => (clamp.low, clamp.high),
        None if node.op.is::<ops::Relu>() => (0.0, f64::INFINITY),
        None => return None,
    };
    let code = |x: f64| x / codes.scale + f64::from(codes.zero);
    let has_all = code(low) <= 0.5 - MARGIN && code(high) >= 254.5 + MARGIN;
    has_all.then(|| node.inputs[0])
}

/// An operation of codes that writes the codes of its numbers instead, and its inputs.
fn with_codes(graph: &Graph, node: &Node, codes: ops::QuantizeLinear) -> Option<(Arc<dyn Op>, Vec<ValueId>)> {
    let result = Some(codes);
    if let Some(op) = node.op.downcast_ref::<ops::QuantizedConv2d>() {
        let new = || -> Arc<dyn Op> { Arc::new(ops::QuantizedConv2d { result, ..*op }) };
        return op.result.is_none().then(|| (new(), node.inputs.clone()));
    }
    if let Some(op) = node.op.downcast_ref::<ops::QuantizedMatMul>() {
        let new = || -> Arc<dyn Op> { Arc::new(ops::QuantizedMatMul { result, ..*op }) };
        return op.result.is_none().then(|| (new(), node.inputs.clone()));
    }
    let sum = node.op.downcast_ref::<ops::Binary>()?;
    let (left, a) = restored(graph, node.inputs[0])?;
    let (right, b) = restored(graph, node.inputs[1])?;
    (sum.kind == ops::BinaryKind::Add).then(|| (Arc::new(ops::AddCodes::new(left, right, codes)) as _, vec![a, b]))
}

/// How a value is restored from codes, and the codes.
fn restored(graph: &Graph, value: ValueId) -> Option<(ops::DequantizeLinear, ValueId)> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    Some((*node.op.downcast_ref::<ops::DequantizeLinear>()?, node.inputs[0]))
}

/// Convolutions, products and sums whose numbers are read as codes alone write the codes.
fn fused(graph: &Graph) -> Graph {
    let mut uses = vec![0usize; graph.values.len()];
    let read = graph.nodes.iter().flat_map(|node| node.inputs.iter().copied());
    let kept = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().map(|assign| assign.value);
    read.chain(kept)
        .chain(assigned)
        .for_each(|value| uses[value.index()] += 1);
    let mut rewriter = Rewriter::new(graph);
    for node in &graph.nodes {
        let fused = node.op.downcast_ref::<ops::QuantizeLinear>().and_then(|codes| {
            let numbers = node.inputs[0];
            let before = &graph.nodes[graph.producer(numbers)?.index()];
            let (op, inputs) = with_codes(graph, before, *codes).filter(|_| uses[numbers.index()] == 1)?;
            Some((before, op, inputs))
        });
        let Some((before, op, inputs)) = fused else {
            rewriter.copy(node);
            continue;
        };
        let inputs: Vec<ValueId> = inputs.iter().map(|&input| rewriter.get(input)).collect();
        let new = rewriter.push(op, &inputs, before.phase, &before.scope)[0];
        rewriter.set(node.outputs[0], new);
    }
    without_dead_code(rewriter.finish())
}
