//! Images and sequences in the order in which kernels read them. PyTorch's are `[N, C, ..]`, a program's are
//! `[N, .., C]`. A tracer that can work on either order does so on the value before the permutation, and puts the
//! permutation after its result. Where one permutation meets its inverse, none is left.

use lessen_graph::Tensor;
use lessen_graph::ops::Permute;
use lessen_graph::ops::shape::broadcast::common_shape;

/// The order of axes that makes `[N, C, ..]` of `[N, .., C]`.
pub fn channels_first_order(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// The order of axes that makes `[N, .., C]` of `[N, C, ..]`.
pub fn channels_last_order(rank: usize) -> Vec<usize> {
    std::iter::once(0).chain(2..rank).chain([1]).collect()
}

/// The axis of `[N, .., C]` that an axis of `[N, C, ..]` is.
pub fn own_axis(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        1 => rank - 1,
        axis => axis - 1,
    }
}

/// The value `[N, .., C]` of which a value `[N, C, ..]` is a permutation, if it is one.
pub fn image_of(x: Tensor) -> Option<Tensor> {
    let (trace, rank) = (x.trace(), x.rank());
    if rank < 3 {
        return None;
    }
    let input = trace.with_graph(|graph| {
        let node = &graph.nodes[graph.producer(x.id())?.index()];
        let is_image = node.op.downcast_ref::<Permute>()?.axes == channels_first_order(rank);
        is_image.then(|| node.inputs[0])
    })?;
    Some(trace.tensor(input))
}

/// A value `[N, C, ..]` as `[N, .., C]`.
pub fn channels_last(x: Tensor) -> Tensor {
    image_of(x).unwrap_or_else(|| x.permute(&channels_last_order(x.rank())))
}

/// The reverse of [`channels_last`].
pub fn channels_first(x: Tensor) -> Tensor {
    x.permute(&channels_first_order(x.rank()))
}

/// A function of single elements, on the image of a value where there is one.
pub fn through(x: Tensor, f: impl FnOnce(Tensor) -> Tensor) -> Tensor {
    match image_of(x) {
        Some(image) => channels_first(f(image)),
        None => f(x),
    }
}

/// A function of the elements of two values, on their images where the permutation can be left out.
pub fn through_both(a: Tensor, b: Tensor, f: impl FnOnce(Tensor, Tensor) -> Tensor) -> Tensor {
    let rank = a.rank().max(b.rank());
    let images = match (image_of(a), image_of(b)) {
        (Some(x), Some(y)) if a.rank() == b.rank() => Some((x, y)),
        (Some(x), None) => few(b, rank).filter(|_| a.rank() == rank).map(|y| (x, y)),
        (None, Some(y)) => few(a, rank).filter(|_| b.rank() == rank).map(|x| (x, y)),
        _ => None,
    };
    match images {
        Some((x, y)) if common_shape(&x.shape(), &y.shape()).is_some() => channels_first(f(x, y)),
        _ => f(a, b),
    }
}

/// A value whose elements all lie along one of the axes, or in images, as it is broadcast to `[N, .., C]`.
fn few(x: Tensor, rank: usize) -> Option<Tensor> {
    let shape = x.shape();
    if shape.len() > rank || shape.iter().filter(|extent| **extent != 1).count() > 1 {
        return None;
    }
    let mut own = vec![1; rank];
    own[rank - shape.len()..].copy_from_slice(&shape);
    let turned: Vec<usize> = channels_last_order(rank).into_iter().map(|axis| own[axis]).collect();
    Some(x.reshape(&turned))
}

/// A function of an axis, on the image of a value where there is one.
pub fn along(x: Tensor, axis: usize, f: impl FnOnce(Tensor, isize) -> Tensor) -> Tensor {
    match image_of(x) {
        Some(image) => channels_first(f(image, own_axis(axis, x.rank()) as isize)),
        None => f(x, axis as isize),
    }
}
