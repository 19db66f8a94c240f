//! Matrices and kernels that are restored from codes.

use lessen_graph::{Graph, Op, ValueId, ops};

/// The order of axes that makes `[O, C, KH, KW]` of `[O, KH, KW, C]`.
pub(super) const CHANNELS_FIRST: [usize; 4] = [0, 3, 1, 2];

/// The input of the operation that makes a value, where it is of this type.
fn input_of<O: Op + 'static>(graph: &Graph, value: ValueId) -> Option<(&O, ValueId)> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    Some((node.op.downcast_ref::<O>()?, node.inputs[0]))
}

/// The first value of a chain of reshapes that ends with a value.
fn without_reshapes(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some((_, input)) = input_of::<ops::Reshape>(graph, value) {
        value = input;
    }
    value
}

/// The codes and the scales that rows are restored from.
fn rows(graph: &Graph, value: ValueId) -> Option<[ValueId; 2]> {
    let node = &graph.nodes[graph.producer(value)?.index()];
    node.op
        .is::<ops::DequantizeRows>()
        .then(|| [node.inputs[0], node.inputs[1]])
}

/// A matrix of codes of 4 bits: how its rows are restored, its codes and scales, and whether the value is the
/// transpose.
pub(super) struct Grouped {
    pub op: ops::DequantizeGroups,
    pub parts: [ValueId; 2],
    pub is_turned: bool,
}

/// The codes of 4 bits that a matrix is restored from.
pub(super) fn grouped(graph: &Graph, value: ValueId) -> Option<Grouped> {
    let (own, is_turned) = match input_of::<ops::Permute>(graph, value) {
        Some((permute, own)) if permute.axes == [1, 0] => (own, true),
        _ => (value, false),
    };
    let node = &graph.nodes[graph.producer(own)?.index()];
    Some(Grouped {
        op: *node.op.downcast_ref::<ops::DequantizeGroups>()?,
        parts: [node.inputs[0], node.inputs[1]],
        is_turned,
    })
}

/// The codes and the scales that a matrix is restored from, with a scale for each of its rows.
pub(super) fn matrix(graph: &Graph, value: ValueId) -> Option<[ValueId; 2]> {
    let restored = without_reshapes(graph, value);
    (graph.ty(restored) == graph.ty(value)).then(|| rows(graph, restored))?
}

/// A matrix whose rows are kernels `[C, KH, KW]` of codes that are stored in the order of taps first, as a patch
/// embedding has it.
pub(super) struct Flattened {
    pub parts: [ValueId; 2],
    /// The shape `[O, KH, KW, C]` of the codes.
    pub shape: Vec<usize>,
}

/// The kernels whose elements a matrix has in its rows.
pub(super) fn flattened(graph: &Graph, value: ValueId) -> Option<Flattened> {
    let kernels_of = without_reshapes(graph, value);
    let [o, c, height, width] = graph.ty(kernels_of).shape[..] else {
        return None;
    };
    let is_flat = graph.ty(value).shape[..] == [o, c * height * width];
    let parts = is_flat.then(|| kernels(graph, kernels_of))??;
    let shape = vec![o, height, width, c];
    Some(Flattened { parts, shape })
}

/// The codes of the kernels `[O, C / G, KH, KW]` of a convolution, which are rows `[O, KH KW C / G]`, and their scales.
pub(super) fn kernels(graph: &Graph, value: ValueId) -> Option<[ValueId; 2]> {
    let [o, c, height, width] = graph.ty(value).shape[..] else {
        return None;
    };
    // Where taps or channels are one, both orders are the same.
    let own = match input_of::<ops::Permute>(graph, value) {
        Some((permute, own)) if permute.axes == CHANNELS_FIRST => own,
        _ if height * width == 1 => value,
        _ => return None,
    };
    let restored = without_reshapes(graph, own);
    let is_of_kernels = graph.ty(restored).shape[..] == [o, c * height * width];
    is_of_kernels.then(|| rows(graph, restored))?
}
