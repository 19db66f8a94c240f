//! Products of integers: rows times a matrix that is stored as codes of 8 bits are computed from codes of the rows.
//!
//! | what | computed in |
//! |---|---|
//! | products with a matrix that [`DequantizeRows`](ops::DequantizeRows) restores | codes, sums as integers |
//! | rows of such a matrix that are gathered | codes, which become `f32` after it |
//! | everything else | as in the program |
//!
//! Rows of activations get their codes by their own largest magnitude, as [`QuantizeRows`](ops::QuantizeRows) says,
//! once for all products that read them. Rows that a model rounds to 127 levels of either sign of one scale, as
//! [`FakeQuantize`](ops::FakeQuantize) does, are codes already; it is lowered before.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_graph::{DType, Graph, Node, Op, Type, ValueId, numel, ops};

use lessen_rewrite::Rewriter;

use super::fixed_ranges::{codes_of, levels_of};

/// The graph whose products with matrices of codes read codes.
pub fn integers(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    let mut quantized = HashMap::new();
    for node in &graph.nodes {
        let new = product(graph, node, &mut rewriter, &mut quantized).or_else(|| gathered(graph, node, &mut rewriter));
        match new {
            Some(new) => rewriter.set(node.outputs[0], new),
            None => rewriter.copy(node),
        }
    }
    rewriter.finish()
}

/// The codes and the scales that a value is restored from.
fn coded(graph: &Graph, value: ValueId) -> Option<[ValueId; 2]> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    node.op
        .is::<ops::DequantizeRows>()
        .then(|| [node.inputs[0], node.inputs[1]])
}

/// The product of a node as one of codes, where its matrix has codes. The scales of a matrix `[K, N]` are those of `k`:
/// the rows are multiplied by them before they get codes.
fn product(
    graph: &Graph,
    node: &Node,
    rewriter: &mut Rewriter<'_>,
    quantized: &mut HashMap<ValueId, Vec<ValueId>>,
) -> Option<ValueId> {
    let matmul = node.op.downcast_ref::<ops::MatMul>()?;
    let [rows, matrix] = node.inputs[..] else { return None };
    let (a, b) = (graph.ty(rows), graph.ty(matrix));
    let [codes, scale] = coded(graph, matrix)?;
    let fits = matmul.is_linear(a, b) && a.dtype == DType::F32 && (1..=ops::QuantizedMatMul::MOST).contains(&a.last());
    if !fits {
        return None;
    }
    let push = |op: Arc<dyn Op>, inputs: &[ValueId], rewriter: &mut Rewriter<'_>| {
        rewriter.push(op, inputs, node.phase, &node.scope)
    };
    let (mut x, mut weight, mut weight_scale) = (rewriter.get(rows), rewriter.get(codes), rewriter.get(scale));
    if !matmul.transpose_b {
        let shape = a.shape.to_vec();
        let columns = Type::f32(&b.shape[1..]);
        let along = push(Arc::new(ops::Broadcast { shape }), &[weight_scale], rewriter)[0];
        let times = ops::Binary {
            kind: ops::BinaryKind::Mul,
        };
        x = push(Arc::new(times), &[x, along], rewriter)[0];
        weight = push(Arc::new(ops::Permute { axes: vec![1, 0] }), &[weight], rewriter)[0];
        let ones = ops::Full {
            ty: columns,
            value: 1.0,
        };
        weight_scale = push(Arc::new(ones), &[], rewriter)[0];
    }
    let levels = levels_of(graph, rows).filter(|_| matmul.transpose_b);
    let of_rows = match (quantized.get(&x), levels) {
        (Some(known), _) => known.clone(),
        (None, Some(levels)) => codes_of(graph, levels, node, rewriter),
        (None, None) => push(Arc::new(ops::QuantizeRows), &[x], rewriter),
    };
    let inputs = [of_rows[0], of_rows[1], weight, weight_scale];
    quantized.insert(x, of_rows);
    Some(push(Arc::new(ops::QuantizedMatMul), &inputs, rewriter)[0])
}

/// Rows of a table that has codes: their codes and scales are gathered.
fn gathered(graph: &Graph, node: &Node, rewriter: &mut Rewriter<'_>) -> Option<ValueId> {
    let is_table = node.op.is::<ops::Gather>() && graph.ty(node.inputs[0]).rank() == 2;
    let table = is_table.then(|| coded(graph, node.inputs[0]))??;
    // Without rows there is nothing to restore.
    if numel(&graph.ty(node.outputs[0]).shape) == 0 {
        return None;
    }
    let ids = rewriter.get(node.inputs[1]);
    let parts = table.map(|part| {
        let part = rewriter.get(part);
        rewriter.push(node.op.clone(), &[part, ids], node.phase, &node.scope)[0]
    });
    let restored = rewriter.push(Arc::new(ops::DequantizeRows), &parts, node.phase, &node.scope);
    Some(restored[0])
}
