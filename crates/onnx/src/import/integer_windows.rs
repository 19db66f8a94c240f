//! Convolutions of integers whose sums are the result: products of patches with the kernels, or, in groups whose sums
//! are exact in `f32`, convolutions of codes.

use lessen_base::Result;
use lessen_graph::ops::QuantizedConv2d;
use lessen_graph::{Array, Conv2dOptions, DType, Tensor, Type, concat};

use super::Value;
use super::call::{Call, Operators};
use super::coded_inputs::Weight;
use super::codes::Order;
use super::layout::{channels_first, channels_last};
use super::quantized::{Zero, integer_product, kernels, lacking};
use super::windows::{Windows, options};

pub(crate) const OPERATORS: Operators = &[("ConvInteger", conv_integer)];

/// The most taps of windows that overlap: each is a part of every patch.
const MOST_TAPS: usize = 64;

/// The most terms of sums that are below 2^24, so that they are exact in `f32`, and the most groups of longer sums.
const MOST_TERMS: usize = (1 << 24) / (255 * 128);
const MOST_GROUPS: usize = 64;

/// `ConvInteger(x, w, x_zero_point, w_zero_point)`.
fn conv_integer(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.codes(0)?;
    let zero = call.zero(2, x)?;
    let taps = call.unchanging(1)?.shape().to_vec();
    let size = x.tensor.shape();
    if size.len() < 3 || taps.len() != size.len() {
        return call.unknown("a convolution of other than one or two axes");
    }
    let windows = Windows::of(call, &size[2..], Some(&taps[2..]))?.of_two_axes();
    let groups = options(call, &windows)?.groups;
    if groups == 0 || taps[1].checked_mul(groups) != Some(size[1]) || !taps[0].is_multiple_of(groups) {
        return call.unknown("a convolution of integers in these groups");
    }
    let weight = call.shifted_weight(1, [None, Some(3)], Order::Kernels)?;
    let image = padded(call, (channels_last(call, x.tensor)?, zero), windows.padding())?;
    let y = if groups == 1 {
        product(call, image, &windows, (&weight, zero))?
    } else if weight.codes.shape()[1] <= MOST_TERMS {
        let options = Conv2dOptions {
            padding: [0; 4],
            ..options(call, &windows)?
        };
        let sums = convolved(call, (image, zero), (&weight, &taps), options)?;
        match &weight.shift {
            None => sums,
            Some(shift) => {
                let ones = call.ones(taps[0], weight.codes.shape()[1]);
                let of_pixels = convolved(call, (image, zero), (&ones, &taps), options)?;
                sums + of_pixels * call.shift(shift, DType::I32)
            }
        }
    } else if groups <= MOST_GROUPS {
        let outputs = taps[0] / groups;
        let mut all = Vec::with_capacity(groups);
        for group in 0..groups {
            let of_group = Weight {
                codes: weight.codes.slice(0, group * outputs, outputs),
                scale: Vec::new(),
                levels: weight.levels[group * outputs..(group + 1) * outputs].to_vec(),
                shift: (weight.shift.as_ref()).map(|shift| shift[group * outputs..(group + 1) * outputs].to_vec()),
            };
            let part = image.slice(3, group * taps[1], taps[1]);
            all.push(product(call, part, &windows, (&of_group, zero))?);
        }
        concat(&all, 3)
    } else {
        return call.unknown("a convolution of integers in this many groups");
    };
    Ok(vec![Value::Integers(channels_first(y, size.len() - 2))])
}

/// The sums of a convolution of images with the levels of kernels of these taps, which are exact in `f32`.
fn convolved(
    call: &mut Call<'_>,
    (image, zero): (Tensor, Zero),
    (weight, taps): (&Weight, &[usize]),
    options: Conv2dOptions,
) -> Result<Tensor> {
    let kernels = kernels(call, weight, taps)?;
    let (zero, bias) = match zero {
        Zero::Fixed(zero) => (zero, None),
        Zero::Computed(zero) => (0, Some(lacking(call, weight, zero))),
    };
    let [of_images, of_kernels] = [image.shape()[0], taps[0]].map(|count| call.trace.full(DType::F32, &[count], 1.0));
    let op = QuantizedConv2d::new(options, zero);
    let sums = image.quantized_conv2d(of_images, (kernels, of_kernels), bias, op);
    Ok(sums.cast(DType::I32))
}

/// The sums of products of windows of images with a weight.
fn product(call: &mut Call<'_>, image: Tensor, windows: &Windows, (weight, zero): (&Weight, Zero)) -> Result<Tensor> {
    let Some(patches) = patches(image, windows) else {
        return call.unknown("a convolution of integers with windows of this size");
    };
    Ok(integer_product(call, patches, weight, zero))
}

/// Images with rows above and below them and columns left and right of them that have the code of zero.
fn padded(
    call: &mut Call<'_>,
    (image, zero): (Tensor, Zero),
    [top, bottom, left, right]: [usize; 4],
) -> Result<Tensor> {
    if [top, bottom, left, right] == [0; 4] {
        return Ok(image);
    }
    let with = |zero: u8| image.pad(1, top, bottom, zero.into()).pad(2, left, right, zero.into());
    let zero = match zero {
        Zero::Fixed(zero) => return Ok(with(zero)),
        Zero::Computed(zero) => zero,
    };
    let [_, height, width, _] = image.shape()[..] else {
        return call.unknown("images of other than two axes");
    };
    let shape = [1, top + height + bottom, left + width + right, 1];
    let is_inside = |at: &[usize]| (top..top + height).contains(&at[1]) && (left..left + width).contains(&at[2]);
    let inside = Array::from_fn(Type::new(DType::Bool, &shape), |at| f64::from(u8::from(is_inside(at))));
    Ok(call.constant(inside).select(with(0), zero.reshape(&[1, 1, 1, 1])))
}

/// The pixels of each window of images `[N, H, W, C]`, tap after tap: `[N, OH, OW, KH KW C]`; none where there are no
/// windows, or too many taps.
fn patches(image: Tensor, windows: &Windows) -> Option<Tensor> {
    let [n, height, width, channels] = image.shape()[..] else {
        return None;
    };
    let count = |axis: usize, extent: usize| {
        let reach = (windows.kernel[axis] - 1)
            .checked_mul(windows.dilation[axis])?
            .checked_add(1)?;
        Some(extent.checked_sub(reach)? / windows.stride[axis] + 1)
    };
    let [rows, columns] = [count(0, height)?, count(1, width)?];
    let [kh, kw] = [windows.kernel[0], windows.kernel[1]];
    let of_patch = kh.checked_mul(kw)?.checked_mul(channels)?;
    if windows.stride == windows.kernel && windows.is_dense() {
        let whole = image.slice(1, 0, rows * kh).slice(2, 0, columns * kw);
        let taps = whole
            .reshape(&[n, rows, kh, columns, kw * channels])
            .permute(&[0, 1, 3, 2, 4]);
        return Some(taps.reshape(&[n, rows, columns, of_patch]));
    }
    if kh * kw > MOST_TAPS {
        return None;
    }
    // Each stride is whole, so that its first pixel can be taken.
    let [down, right] = [windows.stride[0], windows.stride[1]];
    let image = image.pad(1, 0, down - 1, 0.0).pad(2, 0, right - 1, 0.0);
    let tap = |i: usize, j: usize| {
        let lines = image.slice(1, i * windows.dilation[0], rows * down);
        let part = lines.slice(2, j * windows.dilation[1], columns * right);
        let apart = part.reshape(&[n, rows, down, columns, right, channels]);
        apart
            .slice(2, 0, 1)
            .slice(4, 0, 1)
            .reshape(&[n, rows, columns, channels])
    };
    let taps: Vec<Tensor> = (0..kh)
        .flat_map(|i| (0..kw).map(move |j| (i, j)))
        .map(|(i, j)| tap(i, j))
        .collect();
    Some(if taps.len() == 1 { taps[0] } else { concat(&taps, 3) })
}
