//! Depthwise convolution: each channel has a kernel of its own. A pass over the image along the channels, which lie
//! side by side; memory binds it, so the sums of several pixels stay in registers while a tap of the kernel is there.

use lessen_graph::ops::Conv2dSizes;

use super::super::kernel::{Round, WholeKernel};
use super::super::widths::{load, store, widths};
use super::reads::{Pixels, Read, Row};
use crate::kernels::elementwise::cast::Float;
use crate::simd::{Level, dispatch, fma};

dispatch! {
    /// One row of the result: `y[j, c]` is the sum of `x[a, b, c] weight[tap, c]` over the pixels that column `j` reads
    /// and their taps, which are numbered row by row of `width` taps.
    ///
    /// # Safety
    /// `x` has the image that the row reads, `weight` a number for each tap and channel, and `y` the row; `y` overlaps
    /// nothing.
    unsafe fn depthwise_row[X: Float, Y: Float](
        row: &Row<'_, usize>, width: usize, x: *const X, weight: *const f32, y: *mut Y,
    ) = depthwise_row_body;
}

/// Number of pixels whose sums stay in registers, where there are 32 registers.
const PIXELS: usize = 4;

#[inline(always)]
unsafe fn depthwise_row_body<L: Level, X: Float, Y: Float>(
    row: &Row<'_, usize>,
    width: usize,
    x: *const X,
    weight: *const f32,
    y: *mut Y,
) {
    widths!(row.channels, |c, W| {
        let mut j = 0;
        while j < row.columns.len() {
            // SAFETY: the pixels lie within the row, the channels within a pixel.
            unsafe {
                let (x, weight, to) = (x.add(c), weight.add(c), y.add(j * row.channels + c));
                if L::REGISTER == 16 && row.columns.are_alike(j, PIXELS) {
                    let columns = std::array::from_fn(|p| row.columns.of(j + p));
                    pixels::<L, X, Y, PIXELS, W>(row, columns, width, x, weight, to);
                    j += PIXELS;
                } else {
                    pixels::<L, X, Y, 1, W>(row, [row.columns.of(j)], width, x, weight, to);
                    j += 1;
                }
            }
        }
    });
}

/// `W` channels of `P` pixels that read by the same taps.
#[inline(always)]
unsafe fn pixels<L: Level, X: Float, Y: Float, const P: usize, const W: usize>(
    row: &Row<'_, usize>,
    columns: [&[Read<usize>]; P],
    width: usize,
    x: *const X,
    weight: *const f32,
    y: *mut Y,
) {
    let channels = row.channels;
    let mut sums = [[0.0; W]; P];
    for read in row.rows {
        for k in 0..columns[0].len() {
            // SAFETY: the taps lie in the kernel, the columns in the image; all columns read by the same number of
            // taps.
            unsafe {
                let tap = read.by * width + columns[0].get_unchecked(k).by;
                let ws: [f32; W] = load(weight.add(tap * channels));
                for p in 0..P {
                    let column = columns[p].get_unchecked(k).at;
                    let xs: [X; W] = load(x.add(read.at * row.line + column * channels));
                    for i in 0..W {
                        sums[p][i] = fma::<L>(xs[i].wide(), ws[i], sums[p][i]);
                    }
                }
            }
        }
    }
    for p in 0..P {
        // SAFETY: the pixel is one of the row.
        unsafe { store(y.add(p * channels), sums[p].map(Y::nearest)) };
    }
}

/// The kernel of a depthwise convolution, and of its derivative for the image: weights in the order of taps first, as
/// `f32`.
pub(super) fn depthwise<X: Float, Y: Float>(sizes: Conv2dSizes, read: fn(Conv2dSizes) -> Pixels<usize>) -> WholeKernel {
    let (channels, width) = (sizes.inputs, sizes.columns.taps);
    let taps = sizes.rows.taps * width;
    WholeKernel::rounds(move |_| {
        let turn = Round {
            tasks: taps,
            run: Box::new(move |w, tap| {
                for c in 0..channels {
                    // SAFETY: see `Work`; the shared scratch has as many elements as the weight.
                    unsafe {
                        let weight = *w.dense::<X>(1).add(c * taps + tap);
                        *w.shared.cast::<f32>().add(tap * channels + c) = weight.wide();
                    }
                }
            }),
        };
        let rows = read(sizes).round(move |w, row| {
            // SAFETY: see `Work`; the round before has written the weights.
            unsafe {
                let x = w.dense::<X>(0).add(row.image);
                let y = w.outputs[0].cast::<Y>().add(row.to);
                depthwise_row(&row, width, x, w.shared.cast(), y);
            }
        });
        vec![turn, rows]
    })
    .with_shared(channels * taps * size_of::<f32>())
}
