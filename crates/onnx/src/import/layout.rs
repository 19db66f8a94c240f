//! Images in the order in which kernels read them. A file's images are `[N, C, H, W]`, or `[N, C, W]` of one axis; a
//! program's are `[N, H, W, C]`, those of one axis with `H = 1`. A tracer that can work on either order does so on the
//! image before the permutation, and puts the permutation after its result. Where one permutation meets its inverse,
//! none is left.

use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_graph::ops::{Permute, Reshape};

use super::call::Call;

/// The order of axes that makes `[N, C, H, W]` of `[N, H, W, C]`.
const TO_FILE: [usize; 4] = [0, 3, 1, 2];

/// The order of axes that makes `[N, H, W, C]` of `[N, C, H, W]`.
const TO_PROGRAM: [usize; 4] = [0, 2, 3, 1];

/// The image `[N, H, W, C]` of which a value of a file is a permutation.
#[derive(Clone, Copy)]
pub(crate) struct Image {
    /// The image.
    pub tensor: Tensor,
    /// Axes of the file's value: 4, or 3 where the image has rows alone.
    rank: usize,
}

impl Image {
    /// What a function makes of the image, as the file has it. The function keeps the number of axes.
    pub fn map(self, f: impl FnOnce(Tensor) -> Tensor) -> Tensor {
        restored(f(self.tensor), self.rank)
    }

    /// The axis of the image that an axis of the file's value is.
    pub fn axis(self, axis: usize) -> usize {
        match (axis, self.rank) {
            (0, _) => 0,
            (1, _) => 3,
            (axis, 3) => axis,
            (axis, _) => axis - 1,
        }
    }
}

/// The image that a value `[N, C, H, W]` or `[N, C, W]` is a permutation of, if it is one.
pub(crate) fn image_of(x: Tensor) -> Option<Image> {
    let (trace, rank) = (x.trace(), x.rank());
    let input = trace.with_graph(|graph| {
        let mut permuted = x.id();
        if rank == 3 {
            let node = &graph.nodes[graph.producer(permuted)?.index()];
            node.op.downcast_ref::<Reshape>()?;
            permuted = node.inputs[0];
        }
        let node = &graph.nodes[graph.producer(permuted)?.index()];
        let is_image = node.op.downcast_ref::<Permute>()?.axes == TO_FILE;
        is_image.then(|| node.inputs[0])
    })?;
    let tensor = trace.tensor(input);
    if rank == 3 {
        let [n, h, w, c] = <[usize; 4]>::try_from(tensor.shape()).ok()?;
        if h != 1 || x.shape() != [n, c, w] {
            return None;
        }
    }
    Some(Image { tensor, rank })
}

/// An image `[N, H, W, C]` as the file has it: with `rank` axes.
pub(crate) fn restored(image: Tensor, rank: usize) -> Tensor {
    let y = image.permute(&TO_FILE);
    match (rank, &y.shape()[..]) {
        (3, &[n, c, _, w]) => y.reshape(&[n, c, w]),
        _ => y,
    }
}

/// A function of each channel of an image, over all axes from the third on, which stay with one element.
pub(super) fn of_channels(x: Tensor, f: impl Fn(Tensor, &[usize]) -> Tensor) -> Tensor {
    let mut shape = x.shape();
    let axes: Vec<usize> = (2..shape.len()).collect();
    axes.iter().for_each(|axis| shape[*axis] = 1);
    let reduced = match image_of(x) {
        Some(image) => f(image.tensor, &[1, 2]),
        None => f(x, &axes),
    };
    reduced.reshape(&shape)
}

/// A function of single elements, on the image of a value where there is one.
pub(super) fn through(x: Tensor, f: impl Fn(Tensor) -> Tensor) -> Tensor {
    match image_of(x) {
        Some(image) => image.map(f),
        None => f(x),
    }
}

/// A function of the elements of two values, on their images where the permutation can be left out.
pub(super) fn through_both(a: Tensor, b: Tensor, f: impl Fn(Tensor, Tensor) -> Tensor) -> Tensor {
    let images = match (image_of(a), image_of(b)) {
        (Some(a), Some(b)) if a.rank == b.rank => Some((a, a.tensor, b.tensor)),
        (Some(a), None) => few(b, a.rank).map(|b| (a, a.tensor, b)),
        (None, Some(b)) => few(a, b.rank).map(|a| (b, a, b.tensor)),
        _ => None,
    };
    match images {
        Some((image, a, b)) => image.map(|_| f(a, b)),
        None => f(a, b),
    }
}

/// A value whose elements all lie along one of the axes of a file's image of `rank` axes, such as a number for each
/// channel, as it is broadcast to `[N, H, W, C]`.
fn few(x: Tensor, rank: usize) -> Option<Tensor> {
    let shape = x.shape();
    if shape.len() > rank || shape.iter().filter(|extent| **extent != 1).count() > 1 {
        return None;
    }
    let mut own = vec![1; rank];
    own[rank - shape.len()..].copy_from_slice(&shape);
    if rank == 3 {
        own.insert(2, 1);
    }
    Some(x.reshape(&TO_PROGRAM.map(|axis| own[axis])))
}

/// Images `[N, C, ...]` of one or two axes as `[N, H, W, C]`.
pub(super) fn channels_last(call: &Call<'_>, x: Tensor) -> Result<Tensor> {
    if let Some(image) = image_of(x) {
        return Ok(image.tensor);
    }
    let shape = x.shape();
    match shape[..] {
        [n, c, length] => Ok(x.reshape(&[n, c, 1, length]).permute(&TO_PROGRAM)),
        [_, _, _, _] => Ok(x.permute(&TO_PROGRAM)),
        _ => call.unknown("images of other than one or two axes"),
    }
}

/// The reverse of [`channels_last`], for images of `axes` axes.
pub(super) fn channels_first(y: Tensor, axes: usize) -> Tensor {
    restored(y, axes + 2)
}
