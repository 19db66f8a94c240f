//! Depthwise convolution of codes: each channel has a kernel of its own. Products are summed up in `f32`, which is
//! exact as long as sums are below 2^24, or by the instructions of words of codes where the machine has them.

use lessen_graph::ops::Conv2dSizes;

use super::super::kernel::{Round, WholeKernel};
use super::super::widths::{load, store, widths};
use super::reads::{Read, Row, of_windows};
use super::sums::OfCodes;
use crate::kernels::codes::factors::ZERO;
#[cfg(target_arch = "x86_64")]
use crate::kernels::x86::depthwise::Vnni;
#[cfg(target_arch = "x86_64")]
use crate::simd::Feature;
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
    /// The code of zero.
    zero: f32,
}

dispatch! {
    /// The sums of one row of the result.
    ///
    /// # Safety
    /// The operands have what the row reads, and `y` the row; `y` overlaps nothing.
    unsafe fn depthwise_row(row: &Row<'_, usize>, operands: Operands, y: *mut i32) = depthwise_row_body;
}

/// Pixels whose sums stay in registers, where there are 32 registers.
const PIXELS: usize = 4;

#[inline(always)]
unsafe fn depthwise_row_body<L: Level>(row: &Row<'_, usize>, operands: Operands, y: *mut i32) {
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
    y: *mut i32,
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
    for p in 0..P {
        let mut all = [0; W];
        for i in 0..W {
            all[i] = sums[p][i] as i32;
        }
        // SAFETY: the pixels lie in the row.
        unsafe { store(y.add(p * channels), all) };
    }
}

/// The kernel; none where sums may be inexact, or memory cannot be counted.
pub(super) fn depthwise(sizes: Conv2dSizes, of_codes: OfCodes) -> Option<WholeKernel> {
    let (channels, width, windows) = (sizes.inputs, sizes.columns.taps, sizes.columns.windows);
    let (taps, image_rows) = (sizes.rows.taps.checked_mul(width)?, sizes.rows.windows);
    if taps > MOST {
        return None;
    }
    let shared = channels.checked_mul(taps)?.checked_mul(size_of::<f32>())?;
    let scratch = channels.checked_mul(windows)?.checked_mul(size_of::<i32>())?;
    // Memory is the same on all machines.
    #[cfg(target_arch = "x86_64")]
    let (vnni, shared, scratch) = {
        let vnni = Vnni::new(sizes, of_codes)?;
        let [own_shared, own_scratch] = vnni.bytes();
        (vnni, shared.max(own_shared), scratch.max(own_scratch))
    };
    #[cfg(target_arch = "x86_64")]
    if Feature::Vnni.is_used() {
        let kernel = WholeKernel::rounds(move |_| vnni.rounds());
        return Some(kernel.with_shared(shared).with_scratch(scratch));
    }
    // Codes of zero are taken off term by term.
    let of_sums = OfCodes { zero: 0, ..of_codes };
    let kernel = WholeKernel::rounds(move |_| {
        let turn = Round {
            tasks: 1,
            run: Box::new(move |w, _| {
                // SAFETY: see `Work`; the shared scratch has a number for each tap and channel.
                unsafe {
                    let to = w.shared.cast::<f32>();
                    for (c, tap) in (0..channels).flat_map(|c| (0..taps).map(move |tap| (c, tap))) {
                        let level = i32::from(*w.dense::<u8>(2).add(c * taps + tap)) - ZERO;
                        to.add(tap * channels + c).write(level as f32);
                    }
                }
            }),
        };
        let rows = of_windows(sizes).round(move |w, row| {
            // SAFETY: see `Work`; the round before has written the levels, and the scratch has room for a row.
            unsafe {
                let operands = Operands {
                    width,
                    x: w.dense::<u8>(0).add(row.image),
                    weight: w.shared.cast(),
                    zero: of_codes.zero.into(),
                };
                let sums = w.scratch.cast::<i32>();
                depthwise_row(&row, operands, sums);
                let scale = *w.x(1).add(row.to / (image_rows * windows * channels));
                let scaling = of_sums.scaling(w, 0, std::ptr::null());
                for pixel in 0..windows {
                    let (sums, to) = (sums.add(pixel * channels), row.to + pixel * channels);
                    of_sums.write(0..channels, (scale, sums), scaling, (w.outputs[0], to));
                }
            }
        });
        vec![turn, rows]
    });
    Some(kernel.with_shared(shared).with_scratch(scratch))
}
