//! Constant folding: elementwise functions of constants are computed now, arithmetic with neutral elements vanishes,
//! and a filled tensor becomes one scalar seen through a broadcast, which takes no memory.

use std::sync::Arc;

use lessen_graph::ops::{
    Binary, BinaryKind, Broadcast, Cast, Compare, Full, Identity, Reshape, Select, Unary,
};
use lessen_graph::{Array, Graph, Node, Op, Type, ValueId};

use crate::rewrite::Rewriter;

/// Folds constants and neutral elements.
pub fn fold_constants(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    // Values of the new graph whose elements are all one known number.
    let mut splat: Vec<Option<f64>> = vec![None; graph.values.len()];
    for node in &graph.nodes {
        let known: Vec<Option<f64>> = node.inputs.iter().map(|v| splat[v.index()]).collect();
        let ty = graph.ty(node.outputs[0]);
        if let Some(value) = folded(graph, node, &known, ty) {
            splat[node.outputs[0].index()] = Some(value);
            let new = filled(&mut rewriter, node, ty, value);
            rewriter.set(node.outputs[0], new);
        } else if let Some(input) = neutral(node, &known, ty.dtype.is_float()) {
            let new = rewriter.get(node.inputs[input]);
            rewriter.set(node.outputs[0], new);
        } else {
            rewriter.copy(node);
        }
    }
    rewriter.finish(graph)
}

/// The number that all elements of a node's only output have, if it is known.
fn folded(graph: &Graph, node: &Node, known: &[Option<f64>], ty: &Type) -> Option<f64> {
    let any = node.op.as_any();
    if let Some(full) = any.downcast_ref::<Full>() {
        return Some(full.value);
    }
    let foldable = any.is::<Unary>()
        || any.is::<Binary>()
        || any.is::<Compare>()
        || any.is::<Cast>()
        || any.is::<Select>()
        || any.is::<Identity>()
        || any.is::<Broadcast>()
        || any.is::<Reshape>();
    if !foldable || known.iter().any(Option::is_none) {
        return None;
    }
    // One element stands for all.
    let arrays: Vec<Array> = node
        .inputs
        .iter()
        .zip(known)
        .map(|(&v, value)| Array::full(Type::new(graph.ty(v).dtype, &[]), value.expect("checked")))
        .collect();
    if any.is::<Broadcast>() || any.is::<Reshape>() {
        return Some(arrays[0].data[0]);
    }
    let scalar = Type::new(ty.dtype, &[]);
    Some(node.op.eval(&arrays.iter().collect::<Vec<_>>(), &[scalar])[0].item())
}

/// A scalar constant and, where the shape needs it, a broadcast of it.
fn filled(rewriter: &mut Rewriter, node: &Node, ty: &Type, value: f64) -> ValueId {
    let scalar = Full {
        ty: Type::new(ty.dtype, &[]),
        value,
    };
    let scalar = rewriter.push(Arc::new(scalar), &[], node.phase, &node.scope)[0];
    if ty.shape.is_empty() {
        return scalar;
    }
    let wide: Arc<dyn Op> = Arc::new(Broadcast {
        shape: ty.shape.clone(),
    });
    rewriter.push(wide, &[scalar], node.phase, &node.scope)[0]
}

/// The position of the input that a node returns unchanged.
fn neutral(node: &Node, known: &[Option<f64>], float: bool) -> Option<usize> {
    let any = node.op.as_any();
    if any.is::<Identity>() {
        return Some(0);
    }
    // Whole numbers have one zero.
    let zero = |known: Option<f64>, negative: bool| {
        known.is_some_and(|x| x == 0.0 && (x.is_sign_negative() == negative || !float))
    };
    match any.downcast_ref::<Binary>()?.kind {
        BinaryKind::Mul if known[1] == Some(1.0) => Some(0),
        BinaryKind::Mul if known[0] == Some(1.0) => Some(1),
        // -0 + 0 is 0: only the other zero leaves every number as it is.
        BinaryKind::Add if zero(known[1], true) => Some(0),
        BinaryKind::Add if zero(known[0], true) => Some(1),
        BinaryKind::Sub if zero(known[1], false) => Some(0),
        BinaryKind::Div if known[1] == Some(1.0) => Some(0),
        _ => None,
    }
}
