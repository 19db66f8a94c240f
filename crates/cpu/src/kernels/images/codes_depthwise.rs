//! Depthwise convolution of codes: each channel has a kernel of its own. Products are summed up in `f32`, which is
//! exact as long as sums are below 2^24.

use lessen_graph::ops::Conv2dSizes;

use super::super::coded_factors::ZERO;
use super::super::kernel::{Round, WholeKernel};
use super::super::widths::{load, store, widths};
use super::reads::{Read, Row, of_windows};
use crate::simd::{Level, dispatch, fma};

/// The most taps whose sums, of products below 2^8 * 2^7, are exact in `f32`.
const MOST: usize = 1 << 9;

/// What a row is computed from.
#[derive(Clone, Copy)]
struct Operands {
    /// Taps of a row of the kernel.
    width: usize,
    /// The image.
    x: *const u8,
    /// A level for each tap and channel.
    weight: *const f32,
    /// An integer for each channel that is added to its sums; null without one.
    bias: *const i32,
    /// A scale for each channel, and that of the image.
    scale: *const f32,
    of_image: f32,
    /// The code of zero.
    zero: f32,
}

dispatch! {
    /// One row of the result.
    ///
    /// # Safety
    /// The operands have what the row reads, and `y` the row; `y` overlaps nothing.
    unsafe fn depthwise_row(row: &Row<'_, usize>, operands: Operands, y: *mut f32) = depthwise_row_body;
}

/// Pixels whose sums stay in registers, where there are 32 registers.
const PIXELS: usize = 4;

#[inline(always)]
unsafe fn depthwise_row_body<L: Level>(row: &Row<'_, usize>, operands: Operands, y: *mut f32) {
    widths!(row.channels, |c, W| {
        let mut j = 0;
        while j < row.columns.len() {
            // SAFETY: the pixels lie within the row, the channels within a pixel.
            unsafe {
                let to = y.add(j * row.channels + c);
                if L::REGISTER == 16 && row.columns.are_alike(j, PIXELS) {
                    let columns = std::array::from_fn(|p| row.columns.of(j + p));
                    pixels::<L, PIXELS, W>(row, columns, c, &operands, to);
                    j += PIXELS;
                } else {
                    pixels::<L, 1, W>(row, [row.columns.of(j)], c, &operands, to);
                    j += 1;
                }
            }
        }
    });
}

/// `W` channels from `c` on of `P` pixels that read by the same taps.
#[inline(always)]
unsafe fn pixels<L: Level, const P: usize, const W: usize>(
    row: &Row<'_, usize>,
    columns: [&[Read<usize>]; P],
    c: usize,
    operands: &Operands,
    y: *mut f32,
) {
    let channels = row.channels;
    let mut sums = [[0.0; W]; P];
    for read in row.rows {
        for k in 0..columns[0].len() {
            // SAFETY: the taps lie in the kernel, the columns in the image; all columns read by the same number of
            // taps.
            unsafe {
                let tap = read.by * operands.width + columns[0].get_unchecked(k).by;
                let ws: [f32; W] = load(operands.weight.add(tap * channels + c));
                for p in 0..P {
                    let column = columns[p].get_unchecked(k).at;
                    let xs: [u8; W] = load(operands.x.add(read.at * row.line + column * channels + c));
                    for i in 0..W {
                        sums[p][i] = fma::<L>(f32::from(xs[i]) - operands.zero, ws[i], sums[p][i]);
                    }
                }
            }
        }
    }
    // SAFETY: the channels have these numbers, and the pixels lie in the row.
    unsafe {
        let bias: [i32; W] = if operands.bias.is_null() {
            [0; W]
        } else {
            load(operands.bias.add(c))
        };
        let scale: [f32; W] = load(operands.scale.add(c));
        for p in 0..P {
            let mut all = [0.0; W];
            for i in 0..W {
                let sum = bias[i].wrapping_add(sums[p][i] as i32);
                all[i] = sum as f32 * (operands.of_image * scale[i]);
            }
            store(y.add(p * channels), all);
        }
    }
}

/// The kernel; none where sums may be inexact.
pub(super) fn depthwise(sizes: Conv2dSizes, zero: u8, has_bias: bool) -> Option<WholeKernel> {
    let (channels, width) = (sizes.inputs, sizes.columns.taps);
    let (taps, image_rows) = (sizes.rows.taps * width, sizes.rows.windows);
    if taps > MOST {
        return None;
    }
    let kernel = WholeKernel::rounds(move |_| {
        let turn = Round {
            tasks: 1,
            run: Box::new(move |w, _| {
                // SAFETY: see `Work`; the shared scratch has a number for each tap and channel.
                unsafe {
                    let to = w.shared.cast::<f32>();
                    for (c, tap) in (0..channels).flat_map(|c| (0..taps).map(move |tap| (c, tap))) {
                        let level = i32::from(*w.inputs[2].add(c * taps + tap)) - ZERO;
                        to.add(tap * channels + c).write(level as f32);
                    }
                }
            }),
        };
        let rows = of_windows(sizes).round(move |w, row| {
            // SAFETY: see `Work`; the round before has written the levels.
            unsafe {
                let image = row.to / (image_rows * row.columns.len() * channels);
                let operands = Operands {
                    width,
                    x: w.inputs[0].add(row.image),
                    weight: w.shared.cast(),
                    bias: if has_bias { w.inputs[4].cast() } else { std::ptr::null() },
                    scale: w.x(3),
                    of_image: *w.x(1).add(image),
                    zero: zero.into(),
                };
                depthwise_row(&row, operands, w.y(0).add(row.to));
            }
        });
        vec![turn, rows]
    });
    Some(kernel.with_shared(channels * taps * size_of::<f32>()))
}
