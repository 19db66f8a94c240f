//! Images in the order in which kernels read them. A file's images are `[N, C, H, W]`, a program's `[N, H, W, C]`: a
//! tracer that can work on either order does so on the image behind the permutation, and puts the permutation after its
//! result. Where one permutation meets its inverse, none is left.

use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_graph::ops::Permute;

use super::call::Call;

/// The order of axes that makes `[N, C, H, W]` of `[N, H, W, C]`.
const TO_FILE: [usize; 4] = [0, 3, 1, 2];

/// The order of axes that makes `[N, H, W, C]` of `[N, C, H, W]`.
const TO_PROGRAM: [usize; 4] = [0, 2, 3, 1];

/// The image `[N, H, W, C]` that a value `[N, C, H, W]` is a permutation of, if it is one.
pub(super) fn behind(x: Tensor<'_>) -> Option<Tensor<'_>> {
    let trace = x.trace();
    let input = trace.with_graph(|graph| {
        let node = &graph.nodes[graph.producer(x.id())?.index()];
        let permute = node.op.downcast_ref::<Permute>()?;
        (permute.axes == TO_FILE).then(|| node.inputs[0])
    })?;
    Some(trace.tensor(input))
}

/// An image `[N, H, W, C]` as the file has it.
pub(super) fn restored(image: Tensor<'_>) -> Tensor<'_> {
    image.permute(&TO_FILE)
}

/// The axis of `[N, H, W, C]` that an axis of `[N, C, H, W]` is.
pub(super) fn axis_behind(axis: usize) -> usize {
    [0, 3, 1, 2].get(axis).copied().unwrap_or(axis)
}

/// A function of single elements, on the image behind a value where there is one.
pub(super) fn through<'g>(x: Tensor<'g>, f: impl Fn(Tensor<'g>) -> Tensor<'g>) -> Tensor<'g> {
    match behind(x) {
        Some(image) => restored(f(image)),
        None => f(x),
    }
}

/// A function of the elements of two values, on the images behind them where the permutation can be left out.
pub(super) fn through_both<'g>(
    a: Tensor<'g>,
    b: Tensor<'g>,
    f: impl Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>,
) -> Tensor<'g> {
    let images = match (behind(a), behind(b)) {
        (Some(a), Some(b)) => Some((a, b)),
        (Some(a), None) => few(b).map(|b| (a, b)),
        (None, Some(b)) => few(a).map(|a| (a, b)),
        (None, None) => None,
    };
    match images {
        Some((a, b)) => restored(f(a, b)),
        None => f(a, b),
    }
}

/// A value whose elements all lie along one of the axes of an image, such as a number for each channel, as it is
/// broadcast to `[N, H, W, C]`.
fn few(x: Tensor<'_>) -> Option<Tensor<'_>> {
    let shape = x.shape();
    if shape.len() > 4 || shape.iter().filter(|extent| **extent != 1).count() > 1 {
        return None;
    }
    let mut own = [1; 4];
    own[4 - shape.len()..].copy_from_slice(&shape);
    Some(x.reshape(&TO_PROGRAM.map(|axis| own[axis])))
}

/// Images `[N, C, ...]` of one or two axes as `[N, H, W, C]`.
pub(super) fn channels_last<'g>(call: &Call<'_, 'g>, x: Tensor<'g>) -> Result<Tensor<'g>> {
    if let Some(image) = behind(x) {
        return Ok(image);
    }
    let shape = x.shape();
    match shape[..] {
        [n, c, length] => Ok(x.reshape(&[n, c, 1, length]).permute(&TO_PROGRAM)),
        [_, _, _, _] => Ok(x.permute(&TO_PROGRAM)),
        _ => call.unknown("images of other than one or two axes"),
    }
}

/// The reverse of [`channels_last`], for images of `axes` axes.
pub(super) fn channels_first(y: Tensor<'_>, axes: usize) -> Tensor<'_> {
    let y = restored(y);
    match (axes, &y.shape()[..]) {
        (1, &[n, c, _, length]) => y.reshape(&[n, c, length]),
        _ => y,
    }
}
