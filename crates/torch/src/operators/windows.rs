//! Convolutions and pooling.

use lessen_base::Result;
use lessen_graph::ops::pooling::reached_beyond;
use lessen_graph::{Conv2dOptions, Pool2d, Tensor};

use crate::call::{Call, Operators, one};
use crate::images::{channels_first, channels_last, image_of};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("adaptive_avg_pool1d", adaptive_average),
    ("adaptive_avg_pool2d", adaptive_average),
    ("adaptive_max_pool2d", adaptive_max),
    ("avg_pool1d", average_pool),
    ("avg_pool2d", average_pool),
    ("conv1d", conv),
    ("conv2d", conv),
    ("conv_transpose1d", conv_transpose),
    ("conv_transpose2d", conv_transpose),
    ("max_pool1d", max_pool),
    ("max_pool2d", max_pool),
];

/// Sizes for height and width; of sequences the one for the width, where the height has `alone`.
fn sizes(call: &mut Call<'_, '_>, name: &str, alone: usize, default: [usize; 2]) -> Result<[usize; 2]> {
    match (call.sizes(name)?.as_slice(), call.x()?.rank()) {
        ([], _) => Ok(default),
        ([width], 3) => Ok([alone, *width]),
        ([both], _) => Ok([*both; 2]),
        ([height, width], 4) => Ok([*height, *width]),
        _ => call.lacks("windows of other than one or two axes"),
    }
}

/// Images `[N, H, W, C]` of images or of sequences, whose height is 1.
fn images(call: &Call<'_, '_>) -> Result<Tensor> {
    let x = call.x()?;
    match x.shape()[..] {
        [_, _, _] => Ok(channels_last(x).unsqueeze(1)),
        [_, _, _, _] => Ok(channels_last(x)),
        _ => call.lacks("windows of other than batches of one or two axes; add the axis of the batch"),
    }
}

/// The reverse of [`images`].
fn restored(call: &Call<'_, '_>, y: Tensor) -> Result<Value> {
    if call.x()?.rank() == 4 {
        return one(channels_first(y));
    }
    let shape = y.shape();
    one(channels_first(y.reshape(&[shape[0], shape[2], shape[3]])))
}

fn of_two_axes(weight: Tensor) -> Tensor {
    if weight.rank() == 3 {
        weight.unsqueeze(2)
    } else {
        weight
    }
}

/// Pixels around images: given, or as many as keep their size.
fn padding(call: &mut Call<'_, '_>, weight: Tensor, dilation: [usize; 2]) -> Result<[usize; 4]> {
    match call.text("padding").as_deref() {
        Some("valid") => Ok([0; 4]),
        Some(_) => {
            let kernel = &of_two_axes(weight).shape()[2..];
            let all = [0, 1].map(|axis| dilation[axis] * (kernel[axis] - 1));
            Ok([all[0] / 2, all[0] - all[0] / 2, all[1] / 2, all[1] - all[1] / 2])
        }
        None => {
            let [height, width] = sizes(call, "padding", 0, [0; 2])?;
            Ok([height, height, width, width])
        }
    }
}

fn options(call: &mut Call<'_, '_>, weight: Tensor) -> Result<Conv2dOptions> {
    let dilation = sizes(call, "dilation", 1, [1; 2])?;
    Ok(Conv2dOptions {
        stride: sizes(call, "stride", 1, [1; 2])?,
        padding: padding(call, weight, dilation)?,
        dilation,
        groups: call.size("groups", 1)?,
        ..Conv2dOptions::default()
    })
}

fn conv(call: &mut Call<'_, '_>) -> Result<Value> {
    let weight = call.tensor("weight")?;
    let (x, options) = options(call, weight)?.padded(images(call)?);
    let y = x.conv2d(of_two_axes(weight), options);
    let y = call.optional("bias")?.map_or(y, |bias| y + bias);
    restored(call, y)
}

fn conv_transpose(call: &mut Call<'_, '_>) -> Result<Value> {
    let weight = call.tensor("weight")?;
    let options = options(call, weight)?;
    let more = sizes(call, "output_padding", 0, [0; 2])?;
    let y = images(call)?.conv_transpose2d(of_two_axes(weight), options, more);
    let y = call.optional("bias")?.map_or(y, |bias| y + bias);
    restored(call, y)
}

/// The windows of pooling, and how many pixels beyond the padding windows of `ceil_mode` reach.
fn pool(call: &mut Call<'_, '_>) -> Result<(Pool2d, [usize; 2])> {
    let kernel = sizes(call, "kernel_size", 1, [1; 2])?;
    let stride = sizes(call, "stride", 1, kernel)?;
    let [height, width] = sizes(call, "padding", 0, [0; 2])?;
    let mut padding = [height, height, width, width];
    if sizes(call, "dilation", 1, [1; 2])? != [1; 2] {
        return call.lacks("pooling with dilations");
    }
    let mut beyond = [0; 2];
    if call.truth("ceil_mode") {
        let shape = images(call)?.shape();
        for axis in 0..2 {
            let pads = [padding[2 * axis]; 2];
            beyond[axis] = reached_beyond(shape[1 + axis], pads, kernel[axis], stride[axis]);
            padding[2 * axis + 1] += beyond[axis];
        }
    }
    Ok((
        Pool2d {
            kernel,
            stride,
            padding,
        },
        beyond,
    ))
}

fn max_pool(call: &mut Call<'_, '_>) -> Result<Value> {
    let (pool, _) = pool(call)?;
    let y = images(call)?.max_pool2d(pool);
    restored(call, y)
}

fn average_pool(call: &mut Call<'_, '_>) -> Result<Value> {
    let (pool, beyond) = pool(call)?;
    let counts = !matches!(call.value("count_include_pad"), Value::Bool(false));
    let has_padding = pool.padding.iter().any(|n| *n > 0);
    if call.has("divisor_override") || (counts && has_padding && beyond != [0; 2]) {
        return call.lacks("averages of such windows; set count_include_pad=False and leave divisor_override out");
    }
    let y = images(call)?.avg_pool2d(pool, counts);
    restored(call, y)
}

fn adaptive_average(call: &mut Call<'_, '_>) -> Result<Value> {
    let size = adaptive_size(call)?;
    let x = images(call)?;
    let y = if size == [1, 1] {
        let shape = x.shape();
        x.mean_axes(&[1, 2]).reshape(&[shape[0], 1, 1, shape[3]])
    } else if size[..] == x.shape()[1..3] {
        x
    } else {
        x.adaptive_avg_pool2d(size)
    };
    restored(call, y)
}

/// The size of a result; where an axis has none, it stays.
fn adaptive_size(call: &mut Call<'_, '_>) -> Result<[usize; 2]> {
    let shape = images(call)?.shape();
    let given = match call.value("output_size") {
        Value::List(values) => values,
        value => vec![value],
    };
    let at = |axis: usize, place: usize| {
        let own = given.get(place).or(given.first()).and_then(Value::number);
        own.map_or(shape[1 + axis], |own| own as usize)
    };
    Ok(if call.x()?.rank() == 3 {
        [1, at(1, 0)]
    } else {
        [at(0, 0), at(1, 1)]
    })
}

fn adaptive_max(call: &mut Call<'_, '_>) -> Result<Value> {
    let size = adaptive_size(call)?;
    let x = images(call)?;
    let shape = x.shape();
    if !shape[1].is_multiple_of(size[0]) || !shape[2].is_multiple_of(size[1]) {
        return call.lacks("adaptive windows of several sizes; use a size that divides the image");
    }
    let kernel = [shape[1] / size[0], shape[2] / size[1]];
    let y = x.max_pool2d(Pool2d {
        kernel,
        stride: kernel,
        padding: [0; 4],
    });
    let y = match (image_of(call.x()?), call.x()?.rank()) {
        (_, 4) => channels_first(y),
        _ => return call.lacks("adaptive windows of sequences; use max_pool1d"),
    };
    Ok(Value::List(vec![Value::Tensor(y)]))
}
