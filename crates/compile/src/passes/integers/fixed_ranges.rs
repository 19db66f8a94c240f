//! Codes of rows that a model rounds to the levels of a scale of its own, known before it runs.

use std::sync::Arc;

use lessen_graph::{DType, Graph, Node, Op, Type, ValueId, ops};

use lessen_rewrite::Rewriter;

/// The last code of either sign.
const LAST: f64 = 127.0;

/// The code of zero.
const ZERO: f64 = 128.0;

/// Whole numbers from -127 to 127, and the scale `f32[]` that they are multiplied by, where a value is made of them as
/// the decomposition of [`FakeQuantize`](ops::FakeQuantize) makes it.
pub(super) fn levels_of(graph: &Graph, value: ValueId) -> Option<[ValueId; 2]> {
    let producer = |value| Some(&graph.nodes[graph.producer(value)?.index()]);
    let product = producer(value)?;
    let times = product.op.downcast_ref::<ops::Binary>()?;
    let [levels, whole] = product.inputs[..] else {
        return None;
    };
    let (clamped, wide) = (producer(levels)?, producer(whole)?);
    let clamp = clamped.op.downcast_ref::<ops::Clamp>()?;
    let rounded = producer(clamped.inputs[0])?.op.downcast_ref::<ops::Unary>()?;
    let scale = wide.op.is::<ops::Broadcast>().then(|| wide.inputs[0])?;
    let fits = times.kind == ops::BinaryKind::Mul
        && [clamp.low, clamp.high] == [-LAST, LAST]
        && rounded.kind == ops::UnaryKind::Round
        && graph.ty(scale).rank() == 0
        && graph.ty(value).dtype == DType::F32;
    fits.then_some([levels, scale])
}

/// The codes of such levels, which are `u8` of the shape `rows`, and a scale `f32[..]` for each row, as
/// [`QuantizeRows`](ops::QuantizeRows) has them: NaN for a row with NaN.
pub(super) fn codes_of(
    graph: &Graph,
    [levels, scale]: [ValueId; 2],
    rows: &[usize],
    node: &Node,
    rewriter: &mut Rewriter<'_>,
) -> [ValueId; 2] {
    let last = rows.len() - 1;
    let lead = rows[..last].to_vec();
    let has_rows = graph.ty(levels).shape[..] == *rows;
    let [mut levels, scale] = [levels, scale].map(|value| rewriter.get(value));
    let mut push = |op: Arc<dyn Op>, inputs: &[ValueId]| rewriter.push(op, inputs, node.phase, &node.scope)[0];
    let number = |value| {
        let ty = Type::f32(&[]);
        Arc::new(ops::Full { ty, value })
    };
    let binary = |kind| Arc::new(ops::Binary { kind });
    let wide = |shape: &[usize]| Arc::new(ops::Broadcast { shape: shape.to_vec() });
    if !has_rows {
        levels = push(Arc::new(ops::Reshape { shape: rows.to_vec() }), &[levels]);
    }

    let zero = push(number(ZERO), &[]);
    let zero = push(wide(rows), &[zero]);
    let shifted = push(binary(ops::BinaryKind::Add), &[levels, zero]);
    let codes = push(Arc::new(ops::Cast { dtype: DType::U8 }), &[shifted]);

    // Levels are finite or NaN: their sum times 0 is 0, or NaN for a row with NaN.
    let sum = ops::Reduce {
        kind: ops::ReduceKind::Sum,
        axes: vec![last],
    };
    let sums = push(Arc::new(sum), &[levels]);
    let nothing = push(number(0.0), &[]);
    let nothing = push(wide(&lead), &[nothing]);
    let marks = push(binary(ops::BinaryKind::Mul), &[sums, nothing]);
    let scales = push(wide(&lead), &[scale]);
    let scales = push(binary(ops::BinaryKind::Add), &[scales, marks]);
    [codes, scales]
}
