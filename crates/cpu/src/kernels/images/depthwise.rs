//! Depthwise convolution: each channel has a kernel of its own. A pass over the image along the channels, which lie
//! side by side; memory binds it, so the sums of several pixels stay in registers while a tap of the kernel is there.

use lessen_graph::ops::Conv2dSizes;

use super::super::kernel::{Phase, WholeKernel};
use super::super::widths::{load, store, widths};
use super::reads::{Pixels, Read, Row};
use crate::simd::{Level, dispatch, fma};

dispatch! {
    /// One row of the result: `y[j, c]` is the sum of `x[a, b, c] weight[tap, c]` over the pixels that column `j` reads
    /// and their taps, which are numbered row by row of `width` taps.
    ///
    /// # Safety
    /// `x` has the image that the row reads, `weight` a number for each tap and channel, and `y` the row; `y` overlaps
    /// nothing.
    unsafe fn depthwise_row(
        row: &Row<'_, usize>, width: usize, x: *const f32, weight: *const f32, y: *mut f32,
    ) = depthwise_row_body;
}

/// Pixels whose sums stay in registers, where there are 32 of these.
const PIXELS: usize = 4;

#[inline(always)]
unsafe fn depthwise_row_body<L: Level>(
    row: &Row<'_, usize>,
    width: usize,
    x: *const f32,
    weight: *const f32,
    y: *mut f32,
) {
    widths!(row.channels, |c, W| {
        let mut j = 0;
        while j < row.columns.len() {
            // SAFETY: the pixels lie within the row, the channels within a pixel.
            unsafe {
                let (x, weight, to) = (x.add(c), weight.add(c), y.add(j * row.channels + c));
                if L::REGISTER == 16 && row.columns.are_alike(j, PIXELS) {
                    let columns = std::array::from_fn(|p| row.columns.of(j + p));
                    pixels::<L, PIXELS, W>(row, columns, width, x, weight, to);
                    j += PIXELS;
                } else {
                    pixels::<L, 1, W>(row, [row.columns.of(j)], width, x, weight, to);
                    j += 1;
                }
            }
        }
    });
}

/// `W` channels of `P` pixels that read by the same taps.
#[inline(always)]
unsafe fn pixels<L: Level, const P: usize, const W: usize>(
    row: &Row<'_, usize>,
    columns: [&[Read<usize>]; P],
    width: usize,
    x: *const f32,
    weight: *const f32,
    y: *mut f32,
) {
    let channels = row.channels;
    let mut sums = [[0.0; W]; P];
    for read in row.rows {
        for k in 0..columns[0].len() {
            // SAFETY: the taps are those of the kernel, the columns those of the image; all of the columns read by as
            // many taps.
            unsafe {
                let tap = read.by * width + columns[0].get_unchecked(k).by;
                let ws: [f32; W] = load(weight.add(tap * channels));
                for p in 0..P {
                    let column = columns[p].get_unchecked(k).at;
                    let xs: [f32; W] = load(x.add(read.at * row.line + column * channels));
                    for i in 0..W {
                        sums[p][i] = fma::<L>(xs[i], ws[i], sums[p][i]);
                    }
                }
            }
        }
    }
    for p in 0..P {
        // SAFETY: the pixel is one of the row.
        unsafe { store(y.add(p * channels), sums[p]) };
    }
}

/// The kernel of a depthwise convolution, and of its derivative for the image: weights in the order of taps first.
pub(super) fn depthwise(sizes: Conv2dSizes, read: fn(Conv2dSizes) -> Pixels<usize>) -> WholeKernel {
    let (channels, width) = (sizes.inputs, sizes.columns.taps);
    let taps = sizes.rows.taps * width;
    WholeKernel::phases(move |_| {
        let turn = Phase {
            tasks: taps,
            run: Box::new(move |w, tap| {
                for c in 0..channels {
                    // SAFETY: see `Work`; the shared scratch has as many elements as the weight.
                    unsafe { *w.shared.cast::<f32>().add(tap * channels + c) = *w.x(1).add(c * taps + tap) };
                }
            }),
        };
        let rows = read(sizes).phase(move |w, row| {
            // SAFETY: see `Work`; the phase before has written the weights.
            unsafe {
                let (x, y) = (w.x(0).add(row.image), w.y(0).add(row.to));
                depthwise_row(&row, width, x, w.shared.cast(), y);
            }
        });
        vec![turn, rows]
    })
    .with_shared(channels * taps * size_of::<f32>())
}
