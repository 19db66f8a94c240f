//! Products of integers: rows times a matrix that is stored as codes of 8 bits, and images with a kernel that is, are
//! computed from codes of the rows and images.
//!
//! | what | computed in |
//! |---|---|
//! | products with a matrix that [`DequantizeRows`](ops::DequantizeRows) restores | codes, sums as integers |
//! | products with a matrix whose rows are such kernels, as of a patch embedding | codes, sums as integers |
//! | convolutions with a kernel that it restores, other than depthwise ones | codes, sums as integers |
//! | rows of such a matrix that are gathered | codes, which become `f32` after it |
//! | everything else | as in the program |
//!
//! What [`DequantizeLinear`](ops::DequantizeLinear) restores has codes already. Other rows of activations get their
//! codes by their own largest magnitude, as [`QuantizeRows`](ops::QuantizeRows) says, and images by that of the image,
//! once for all products that read them. Rows and images that a model rounds to 127 levels of either sign of one scale,
//! as [`FakeQuantize`](ops::FakeQuantize) does, are codes already; it is lowered before.

mod coded;
mod fixed_ranges;
mod images;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;

use lessen_graph::{Graph, Node, Op, ValueId, ops};

use lessen_rewrite::Rewriter;

/// The graph whose products with matrices and kernels of codes read codes.
pub fn integers(graph: &Graph) -> Graph {
    let mut writer = Writer {
        graph,
        rewriter: Rewriter::new(graph),
        codes: HashMap::new(),
    };
    for node in &graph.nodes {
        match writer.of_codes(node) {
            Some(new) => writer.rewriter.set(node.outputs[0], new),
            None => writer.rewriter.copy(node),
        }
    }
    writer.rewriter.finish()
}

/// Codes of rows or images, with their scales and the code of zero.
#[derive(Clone, Copy)]
struct Codes {
    codes: ValueId,
    scale: ValueId,
    zero: u8,
}

/// A graph while it is rewritten.
struct Writer<'g> {
    graph: &'g Graph,
    rewriter: Rewriter<'g>,
    /// The codes of values of the new graph, as rows or as images.
    codes: HashMap<(ValueId, bool), Codes>,
}

impl Writer<'_> {
    /// What a node becomes, where it becomes something of codes.
    fn of_codes(&mut self, node: &Node) -> Option<ValueId> {
        self.product(node)
            .or_else(|| self.convolution(node))
            .or_else(|| self.gathered(node))
    }

    /// Adds an operation for a node; returns its first result.
    fn push(&mut self, node: &Node, op: impl Op + 'static, inputs: &[ValueId]) -> ValueId {
        self.rewriter.push(Arc::new(op), inputs, node.phase, &node.scope)[0]
    }

    /// A number in an array of `f32`.
    fn full(&mut self, node: &Node, shape: &[usize], value: f64) -> ValueId {
        let ty = lessen_graph::Type::f32(shape);
        self.push(node, ops::Full { ty, value }, &[])
    }

    /// The codes that a value of the old graph is restored from, with a scale for each of `shape`.
    fn restored(&mut self, node: &Node, value: ValueId, shape: &[usize]) -> Option<Codes> {
        let producer = &self.graph.nodes[self.graph.producer(value)?.index()];
        let of = producer.op.downcast_ref::<ops::DequantizeLinear>()?;
        Some(Codes {
            codes: self.rewriter.get(producer.inputs[0]),
            scale: self.full(node, shape, of.scale),
            zero: of.zero,
        })
    }
}
