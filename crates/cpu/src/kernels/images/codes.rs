//! Convolution of images of codes with a weight of codes `[O, KH, KW, C / G]`: products of pixels in their place with
//! the packed weight, or of patches with it where it lies. A depthwise convolution has a kernel of its own. Sums are
//! exact, so all give the same bits.

use lessen_graph::ops::{self, Conv2dSizes, Slide};

use super::super::kernel::{Kernel, Round, Types, WholeKernel, Work};
use super::super::map::map;
use super::super::rows::Rows;
use super::super::zeros::zeros;
use super::codes_depthwise::depthwise;
use super::convolution::{is_depthwise, joined};
use super::direct::direct;
use super::products::Products;
use super::reads::{Pixels, of_windows};
use super::sums::{OfCodes, Sums};
use crate::kernels::codes::factors::Factors;
use crate::kernels::codes::quantized_matmul::{quantized_matmul, scratch_bytes};
use crate::kernels::codes::sums::Code;
use crate::kernels::codes::to_code::ToCode;

/// The most pixels whose patches are written at once, and the most bytes of them.
const PIXELS: usize = 64;
const BYTES: usize = 128 << 10;

/// The kernel of [`ops::QuantizedConv2d`].
pub(in super::super) fn quantized_conv2d_kernel(op: &ops::QuantizedConv2d, types: &Types<'_>) -> Option<Kernel> {
    let sizes = op.sizes(types.inputs).ok()?;
    let has_bias = types.inputs.len() == 5;
    let of_codes = OfCodes {
        zero: op.zero,
        has_bias,
        codes: op.result.map(ToCode::of),
    };
    // Images without pixels may have results all the same: of padding, whose sums are biases, or codes of zeros.
    let are_zeros = types.any_empty() && !has_bias && op.result.is_none();
    if types.outputs[0].numel() == 0 || are_zeros {
        return zeros(types).into();
    }
    if let Some(kernel) = (is_depthwise(sizes) && !types.any_empty())
        .then(|| depthwise(sizes, of_codes))
        .flatten()
    {
        return kernel.into();
    }
    let (inputs, outputs) = (sizes.group_inputs(), sizes.group_outputs());
    let taps = [sizes.rows.taps, sizes.columns.taps];
    let row = taps[0] * taps[1] * inputs;
    let products = Products {
        taps,
        images: sizes.images,
        image: sizes.rows.windows * sizes.columns.windows,
        joined: joined(sizes),
        groups: sizes.groups,
        inputs,
        outputs,
        tap_stride: inputs,
        group_stride: outputs * row,
        input_stride: 1,
        output_stride: row,
    };
    let of_runs = Conv2dSizes {
        columns: Slide {
            taps: sizes.columns.taps / products.joined,
            ..sizes.columns
        },
        ..sizes
    };
    let sums = Sums::of_codes(of_codes, products);
    let other = patches(sizes, products, of_codes);
    if types.any_empty() {
        return other.into();
    }
    direct::<Code>((products, sums, op.zero), move || of_windows(of_runs), other).into()
}

/// The kernel that writes patches, in blocks of pixels of one image.
fn patches(sizes: Conv2dSizes, p: Products, of_codes: OfCodes) -> WholeKernel {
    let row = p.count() * p.inputs;
    let block = (BYTES / row.max(1)).clamp(1, PIXELS);
    let of_image = p.image.div_ceil(block);
    // Numbers that become codes lie after the patches.
    let patches = (block * row).next_multiple_of(64);
    let numbers = of_codes.codes.map_or(0, |_| block * p.outputs * size_of::<f32>());
    let levels = (patches + numbers).next_multiple_of(64);
    WholeKernel::rounds(move |_| {
        let read = of_windows(sizes);
        let run = move |w: &Work<'_>, task: usize| {
            let (image, first) = (task / of_image, task % of_image * block);
            let pixels = image * p.image + first..image * p.image + p.image.min(first + block);
            for group in 0..p.groups {
                let channel = group * p.outputs;
                // SAFETY: see `Work`; the scratch has room for the patches of a block, and the task's pixels are its
                // own.
                unsafe {
                    for (i, pixel) in pixels.clone().enumerate() {
                        let to = w.scratch.add(i * row);
                        write_patch(&read, p, (pixel, group), w.dense(0), of_codes.zero, to);
                    }
                    let factors = Factors {
                        k: row,
                        zero: of_codes.zero,
                        codes: Rows::dense(w.scratch, row),
                        scale: Rows::scalar(w.x(1).add(image).cast_mut()),
                        weight: Rows::dense(w.dense::<u8>(2).add(group * p.group_stride).cast_mut(), row),
                        weight_scale: w.x(3).add(channel),
                        bias: if of_codes.has_bias {
                            w.dense::<i32>(4).add(channel)
                        } else {
                            std::ptr::null()
                        },
                    };
                    let (count, all) = (pixels.len(), p.groups * p.outputs);
                    let levels = w.scratch.add(levels);
                    let first = pixels.start * all + channel;
                    let Some(codes) = of_codes.codes else {
                        let y = Rows {
                            ptr: w.y(0).add(first),
                            row: all,
                            col: 1,
                        };
                        quantized_matmul(count, 0..p.outputs, factors, y, levels);
                        continue;
                    };
                    let from = Rows::dense(w.scratch.add(patches).cast::<f32>(), p.outputs);
                    quantized_matmul(count, 0..p.outputs, factors, from, levels);
                    let to = Rows {
                        ptr: w.outputs[0].add(first),
                        row: all,
                        col: 1,
                    };
                    map(codes, count, p.outputs, from, to);
                }
            }
        };
        vec![Round {
            tasks: p.images * of_image,
            run: Box::new(run),
        }]
    })
    .with_scratch(levels + scratch_bytes(row))
}

/// Writes the codes of a group that a pixel reads, tap after tap.
///
/// # Safety
/// `x` has the images, and `to` room for the patch.
unsafe fn write_patch(
    read: &Pixels<usize>,
    p: Products,
    (pixel, group): (usize, usize),
    x: *const u8,
    zero: u8,
    to: *mut u8,
) {
    let row = read.row(pixel / read.columns.len());
    let columns = row.columns.of(pixel % read.columns.len());
    // SAFETY: the pixels that are read lie in the image, and their taps in the patch.
    unsafe {
        to.write_bytes(zero, p.count() * p.inputs);
        for (line, column) in row.rows.iter().flat_map(|line| columns.iter().map(move |c| (line, c))) {
            let tap = line.by * p.taps[1] + column.by;
            let from = x.add(row.image + line.at * row.line + column.at * row.channels + group * p.inputs);
            from.copy_to_nonoverlapping(to.add(tap * p.inputs), p.inputs);
        }
    }
}
