//! Operators on images: convolutions, pooling, norms of channels, resizing.

use lessen_base::Result;
use lessen_graph::ops::Conv2dGradInput;
use lessen_graph::{Pool2d, Tensor};

use super::Value;
use super::call::{Call, Operators, one};
use super::coded_source::Source;
use super::codes::Order;
use super::layout::{channels_first, channels_last, image_of, of_channels};
use super::windows::{Windows, options};

pub(crate) const OPERATORS: Operators = &[
    ("AveragePool", average_pool),
    ("BatchNormalization", batch_norm),
    ("Conv", conv),
    ("ConvTranspose", conv_transpose),
    ("DepthToSpace", depth_to_space),
    ("GlobalAveragePool", |call| global(call, Tensor::mean_axes)),
    ("GlobalMaxPool", |call| global(call, Tensor::max_axes)),
    ("GroupNormalization", group_norm),
    ("InstanceNormalization", instance_norm),
    ("MaxPool", max_pool),
    ("SpaceToDepth", space_to_depth),
];

/// A weight `[O, I, ...]` of one or two axes as of two.
fn weight_of_two_axes(call: &Call<'_>, weight: Tensor) -> Result<Tensor> {
    match weight.shape()[..] {
        [o, i, length] => Ok(weight.reshape(&[o, i, 1, length])),
        [_, _, _, _] => Ok(weight),
        _ => call.unknown("a weight of other than one or two axes"),
    }
}

/// Convolution of images, whose channels are moved to the last axis and back.
fn conv(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let (size, taps) = (x.shape(), call.ty(1)?.shape);
    if size.len() < 3 || taps.len() != size.len() {
        return call.unknown("a convolution of other than one or two axes");
    }
    let windows = Windows::of(call, &size[2..], Some(&taps[2..]))?.of_two_axes();
    let options = options(call, &windows)?;
    let of_file = Source::of(x);
    let x = channels_last(call, x)?;
    let of_program = match (Source::of(x), of_file) {
        (None, Some(source)) => Some(source.map(|codes| channels_last(call, codes))?),
        (source, _) => source,
    };
    if let Some(source) = of_program
        && let Some(weight) = call.restored_weight(1, Order::Kernels)
    {
        let y = source.convolution(call, &weight, (&taps, options), Some(2))?;
        return one(channels_first(y, size.len() - 2));
    }
    let weight = call.tensor(1)?;
    let (x, options) = options.padded(x);
    let mut y = x.conv2d(weight_of_two_axes(call, weight)?, options);
    if call.has(2) {
        y = y + call.tensor(2)?;
    }
    one(channels_first(y, size.len() - 2))
}

/// The derivative of a convolution by its images, applied to images.
fn conv_transpose(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (x, weight) = (call.tensor(0)?, call.tensor(1)?);
    let (size, taps) = (x.shape(), weight.shape());
    if size.len() < 3 || taps.len() != size.len() {
        return call.unknown("a convolution of other than one or two axes");
    }
    let has_own_size = call.node.attribute("output_shape").is_some();
    if has_own_size || !matches!(call.text("auto_pad").as_deref(), None | Some("" | "NOTSET" | "VALID")) {
        return call.unknown("padding that follows from the result's size");
    }
    let axes = size.len() - 2;
    let more = call.ints("output_padding").unwrap_or_else(|| vec![0; axes]);
    let windows = Windows::of(call, &size[2..], Some(&taps[2..]))?;
    let mut results = Vec::with_capacity(2);
    for axis in 0..axes {
        let more = more.get(axis).and_then(|&n| usize::try_from(n).ok());
        let [before, after] = windows.pads[axis];
        let reach = (windows.kernel[axis] - 1) * windows.dilation[axis] + 1;
        let all = size[2 + axis]
            .checked_sub(1)
            .and_then(|steps| steps.checked_mul(windows.stride[axis]))
            .and_then(|from| from.checked_add(reach + more?)?.checked_sub(before + after));
        match all {
            Some(all) => results.push(all),
            None => return call.unknown("a result of negative size"),
        }
    }
    if axes == 1 {
        results.insert(0, 1);
    }
    let windows = windows.of_two_axes();
    let derivative = Conv2dGradInput {
        size: [results[0], results[1]],
        options: options(call, &windows)?,
    };
    let weight = weight_of_two_axes(call, weight)?;
    let x = channels_last(call, x)?;
    let mut y = call.trace.apply1(derivative, &[x, weight]);
    if call.has(2) {
        y = y + call.tensor(2)?;
    }
    one(channels_first(y, axes))
}

/// Pooling by `f`, of one or two axes.
fn pooled(
    call: &mut Call<'_>,
    f: impl FnOnce(&Call<'_>, Tensor, Pool2d, bool) -> Result<Tensor>,
) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let size = x.shape();
    if size.len() < 3 {
        return call.unknown("pooling of other than one or two axes");
    }
    let windows = Windows::of(call, &size[2..], None)?.of_two_axes();
    if !windows.is_dense() {
        return call.unknown("pooling with dilations");
    }
    let pool = Pool2d {
        kernel: [windows.kernel[0], windows.kernel[1]],
        stride: [windows.stride[0], windows.stride[1]],
        padding: windows.padding(),
    };
    let reaches_beyond = windows.beyond.iter().any(|n| *n > 0);
    let x = channels_last(call, x)?;
    let y = f(call, x, pool, reaches_beyond)?;
    one(channels_first(y, size.len() - 2))
}

fn max_pool(call: &mut Call<'_>) -> Result<Vec<Value>> {
    pooled(call, |_, x, pool, _| Ok(x.max_pool2d(pool)))
}

fn average_pool(call: &mut Call<'_>) -> Result<Vec<Value>> {
    pooled(call, |call, x, pool, reaches_beyond| {
        let counts = call.int("count_include_pad", 0) != 0;
        if counts && reaches_beyond {
            return call.unknown("an average that counts some padding");
        }
        Ok(x.avg_pool2d(pool, counts))
    })
}

/// A function of each channel of an image.
fn global(call: &mut Call<'_>, f: impl Fn(Tensor, &[usize]) -> Tensor) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    if x.rank() < 3 {
        return call.unknown("pooling of no axes");
    }
    one(of_channels(x, f))
}

/// A number for each channel in the place of channels, which are axis 1 of `rank` axes.
fn by_channel(row: Tensor, rank: usize) -> Tensor {
    let mut shape = vec![1; rank];
    if let Some(channels) = shape.get_mut(1) {
        *channels = row.ty().numel();
    }
    row.reshape(&shape)
}

/// Normalization by fixed statistics.
fn batch_norm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    if call.int("training_mode", 0) != 0 || call.int("spatial", 1) == 0 {
        return call.unknown("a norm by statistics of the batch");
    }
    let x = call.tensor(0)?;
    let (scale, shift) = (call.tensor(1)?, call.tensor(2)?);
    let (mean, variance) = (call.tensor(3)?, call.tensor(4)?);
    let factor = scale * (variance + call.float("epsilon", 1e-5)).rsqrt();
    let shift = shift - mean * factor;
    if let Some(image) = image_of(x) {
        return one(image.map(|x| x * factor + shift));
    }
    let rank = x.rank();
    one(x * by_channel(factor, rank) + by_channel(shift, rank))
}

/// Normalization of groups of channels, each image by itself.
fn grouped(call: &mut Call<'_>, groups: usize, of_groups: bool) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let shape = x.shape();
    let (&[_, channels], rank) = (&shape[..2.min(shape.len())], shape.len()) else {
        return call.unknown("a norm of no channels");
    };
    if groups == 0 || channels % groups != 0 || x.ty().numel() == 0 {
        return call.unknown("a norm of groups that do not divide the channels");
    }
    let y = x.normalize_groups(groups, call.float("epsilon", 1e-5));
    let spread = |call: &mut Call<'_>, input: usize| -> Result<Tensor> {
        let row = call.tensor(input)?;
        if !of_groups {
            return Ok(by_channel(row, rank));
        }
        let each = channels / groups;
        let row = row
            .reshape(&[groups, 1])
            .broadcast_to(&[groups, each])
            .reshape(&[channels]);
        Ok(by_channel(row, rank))
    };
    let (scale, shift) = (spread(call, 1)?, spread(call, 2)?);
    one(y * scale + shift)
}

fn instance_norm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let channels = call.ty(0)?.shape.get(1).copied().unwrap_or(0);
    grouped(call, channels, false)
}

/// Before version 21 of the operators scales and shifts are of groups.
fn group_norm(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let groups = usize::try_from(call.int("num_groups", 0)).unwrap_or(0);
    let of_groups = call.opset < 21;
    grouped(call, groups, of_groups)
}

/// The extents of images `[N, C, H, W]` and the size of blocks.
fn blocks(call: &mut Call<'_>) -> Result<(Tensor, [usize; 4], usize)> {
    let x = call.tensor(0)?;
    let block = usize::try_from(call.int("blocksize", 0)).unwrap_or(0);
    match (<[usize; 4]>::try_from(x.shape()), block) {
        (Ok(shape), 1..=4096) => Ok((x, shape, block)),
        _ => call.unknown("blocks of this size"),
    }
}

fn depth_to_space(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (x, [n, c, h, w], b) = blocks(call)?;
    if c % (b * b) != 0 {
        return call.unknown("blocks that do not divide the channels");
    }
    let d = c / (b * b);
    let y = match call.text("mode").as_deref() {
        None | Some("DCR") => x.reshape(&[n, b, b, d, h, w]).permute(&[0, 3, 4, 1, 5, 2]),
        Some("CRD") => x.reshape(&[n, d, b, b, h, w]).permute(&[0, 1, 4, 2, 5, 3]),
        Some(_) => return call.unknown("an order of this name"),
    };
    one(y.reshape(&[n, d, h * b, w * b]))
}

fn space_to_depth(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (x, [n, c, h, w], b) = blocks(call)?;
    if h % b != 0 || w % b != 0 {
        return call.unknown("blocks that do not divide the image");
    }
    let y = x.reshape(&[n, c, h / b, b, w / b, b]).permute(&[0, 3, 5, 1, 2, 4]);
    one(y.reshape(&[n, c * b * b, h / b, w / b]))
}
