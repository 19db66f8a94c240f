//! Depthwise convolution of codes by VNNI. A word has the codes of a channel in four rows of the image, one below the
//! other, and a vector of 512 bits, or two of 256, has the words of 16 channels: an instruction adds up the products of
//! four taps of each. The words of a row of the result are written first, then each pixel adds up the words of its
//! columns.

use std::arch::x86_64::*;
use std::sync::Arc;

use lessen_graph::ops::Conv2dSizes;

use super::avx512::depthwise::Wide;
use super::byte_products::{CodeProducts, Evex, Vex};
use super::depthwise_words::{VECTOR, WORD, Words};
use crate::kernels::codes::factors::ZERO;
use crate::kernels::codes::sums::Scaling;
use crate::kernels::codes::to_code::ToCode;
use crate::kernels::images::reads::{Row, of_windows};
use crate::kernels::images::sums::OfCodes;
use crate::kernels::kernel::{Round, Work};
use crate::kernels::map::Map;
use crate::simd::V3;

/// A depthwise convolution of codes.
#[derive(Clone, Copy)]
pub(crate) struct Vnni {
    sizes: Conv2dSizes,
    of_codes: OfCodes,
    /// Words of a column of a window, and words of all its taps.
    planes: usize,
    taps: usize,
    /// Channels in whole vectors.
    channels: usize,
    /// Columns of an image and one of padding.
    columns: usize,
    /// Bytes of the words of the weight and of the words of a row.
    weight: usize,
    row: usize,
}

impl Vnni {
    /// None where memory cannot be counted.
    pub(crate) fn new(sizes: Conv2dSizes, of_codes: OfCodes) -> Option<Vnni> {
        let planes = sizes.rows.taps.div_ceil(WORD);
        let taps = planes.checked_mul(sizes.columns.taps)?;
        let channels = sizes.inputs.checked_next_multiple_of(VECTOR)?;
        let columns = sizes.columns.input.checked_add(1)?;
        let words = |count: usize| count.checked_mul(channels)?.checked_mul(WORD);
        // The sums of the levels lie after the weight.
        words(taps.checked_add(1)?)?;
        Some(Vnni {
            sizes,
            of_codes,
            planes,
            taps,
            channels,
            columns,
            weight: words(taps)?,
            row: words(planes.checked_mul(columns)?)?,
        })
    }

    /// Bytes that all workers share, and bytes of each.
    pub(crate) fn bytes(&self) -> [usize; 2] {
        [self.weight + self.channels * size_of::<i32>(), self.row]
    }

    /// The rounds: the weight is arranged in words, and rows of the result are computed.
    pub(crate) fn rounds(self) -> Vec<Round> {
        let turn = Round {
            tasks: 1,
            // SAFETY: see `Work`; the shared scratch has room for the words and the sums.
            run: Box::new(move |w, _| unsafe { self.arrange(w.dense(2), w.shared) }),
        };
        let pixels = of_windows(self.sizes);
        let width = self.sizes.columns.taps;
        // The column that each tap of each pixel reads, the one of padding where it reads none.
        let mut read = vec![self.columns - 1; pixels.columns.len() * width];
        for pixel in 0..pixels.columns.len() {
            for column in pixels.columns.of(pixel) {
                read[pixel * width + column.by] = column.at;
            }
        }
        let read = Arc::new(read);
        let image = self.sizes.rows.windows * self.sizes.columns.windows * self.sizes.inputs;
        let rows = pixels.round(move |w, row| {
            // SAFETY: see `Work`; the round before has arranged the weight, the scratch has room for the words of a
            // row, and the machine has the instructions.
            unsafe {
                self.words(&row, w.dense::<u8>(0).add(row.image), w.scratch);
                let scale = *w.x(1).add(row.to / image);
                self.sums(w, scale, row.to, &read);
            }
        });
        vec![turn, rows]
    }

    /// Writes the words of the weight, `[column of taps][plane][channel]`, and after them the sums of the levels.
    ///
    /// # Safety
    /// `weight` has the codes `[C, KH, KW, 1]`, and `to` room for the words and the sums.
    unsafe fn arrange(&self, weight: *const u8, to: *mut u8) {
        let (rows, width) = (self.sizes.rows.taps, self.sizes.columns.taps);
        // SAFETY: passed on.
        unsafe {
            to.write_bytes(0, self.bytes()[0]);
            let levels = to.add(self.weight).cast::<i32>();
            for channel in 0..self.sizes.inputs {
                let mut sum = 0;
                for (row, column) in (0..rows).flat_map(|row| (0..width).map(move |column| (row, column))) {
                    let level = i32::from(*weight.add((channel * rows + row) * width + column)) - ZERO;
                    let word = (column * self.planes + row / WORD) * self.channels + channel;
                    to.add(word * WORD + row % WORD).cast::<i8>().write(level as i8);
                    sum += level;
                }
                levels.add(channel).write(sum);
            }
        }
    }

    /// Writes the words of the columns that a row of the result reads, `[plane][column][channel]`; rows and columns of
    /// padding have the code of zero.
    ///
    /// # Safety
    /// The CPU has SSE2; `x` is the row's image, and `to` has room for the words.
    unsafe fn words(&self, row: &Row<'_, usize>, x: *const u8, to: *mut u8) {
        let mut lines = [std::ptr::null::<u8>(); WORD];
        for plane in 0..self.planes {
            lines.fill(std::ptr::null());
            for read in row.rows.iter().filter(|read| read.by / WORD == plane) {
                lines[read.by % WORD] = x.wrapping_add(read.at * row.line);
            }
            // SAFETY: the lines lie in the image; passed on.
            unsafe {
                let to = to.add(plane * self.columns * self.channels * WORD);
                for column in 0..self.columns - 1 {
                    let from = lines.map(|line| {
                        if line.is_null() {
                            line
                        } else {
                            line.wrapping_add(column * row.channels)
                        }
                    });
                    self.column(from, row.channels, to.add(column * self.channels * WORD));
                }
                let padding = to.add((self.columns - 1) * self.channels * WORD);
                padding.write_bytes(self.of_codes.zero, self.channels * WORD);
            }
        }
    }

    /// Writes the words of a column's channels from four pixels; one that is null has codes of zero.
    ///
    /// # Safety
    /// The CPU has SSE2; the pixels have the channels, and `to` room for the words.
    #[inline(always)]
    unsafe fn column(&self, from: [*const u8; WORD], channels: usize, to: *mut u8) {
        let mut c = 0;
        while c < channels {
            let some = (channels - c).min(VECTOR);
            // SAFETY: passed on; only the pixel's channels are read.
            unsafe {
                let [a, b, d, e] = from.map(|pixel| {
                    if pixel.is_null() {
                        _mm_set1_epi8(self.of_codes.zero as i8)
                    } else if some == VECTOR {
                        _mm_loadu_si128(pixel.add(c).cast())
                    } else {
                        let mut codes = [0u8; VECTOR];
                        codes.as_mut_ptr().copy_from_nonoverlapping(pixel.add(c), some);
                        _mm_loadu_si128(codes.as_ptr().cast())
                    }
                });
                let (low, high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
                let (low_next, high_next) = (_mm_unpacklo_epi8(d, e), _mm_unpackhi_epi8(d, e));
                let words = [
                    _mm_unpacklo_epi16(low, low_next),
                    _mm_unpackhi_epi16(low, low_next),
                    _mm_unpacklo_epi16(high, high_next),
                    _mm_unpackhi_epi16(high, high_next),
                ];
                for (i, word) in words.into_iter().enumerate() {
                    _mm_storeu_si128(to.add(c * WORD).cast::<__m128i>().add(i), word);
                }
            }
            c += VECTOR;
        }
    }

    /// Computes a row of the result, which begins at element `to`, from its words.
    ///
    /// # Safety
    /// The CPU has the instructions; see [`Work`].
    unsafe fn sums(&self, w: &Work<'_>, scale: f32, to: usize, read: &[usize]) {
        // SAFETY: passed on.
        unsafe {
            let levels = w.shared.add(self.weight).cast::<i32>();
            let scaling = self.of_codes.scaling(w, 0, levels);
            let all = Channels {
                words: w.scratch,
                weight: w.shared,
                read,
                scale,
                scaling,
            };
            match self.of_codes.codes {
                None => self.write(&all, Numbers(w.y(0).add(to))),
                Some(codes) => self.write(&all, Codes(codes, w.outputs[0].add(to))),
            }
        }
    }

    /// Computes a row of the result and writes it.
    ///
    /// # Safety
    /// As for [`Vnni::sums`].
    unsafe fn write<W: Write>(&self, all: &Channels<'_>, to: W) {
        // SAFETY: passed on.
        unsafe {
            match CodeProducts::used() {
                CodeProducts::Wide => self.wide(all, to),
                CodeProducts::Vex => self.by_vex(all, to),
                _ => self.by_evex(all, to),
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx2,fma")]
    unsafe fn wide<W: Write>(&self, all: &Channels<'_>, to: W) {
        // SAFETY: passed on.
        unsafe { self.vectors::<Wide, W>(all, to) }
    }

    #[target_feature(enable = "avx2,fma,avxvnni")]
    unsafe fn by_vex<W: Write>(&self, all: &Channels<'_>, to: W) {
        // SAFETY: passed on.
        unsafe { self.vectors::<Vex, W>(all, to) }
    }

    #[target_feature(enable = "avx2,fma,avx512vnni,avx512vl")]
    unsafe fn by_evex<W: Write>(&self, all: &Channels<'_>, to: W) {
        // SAFETY: passed on.
        unsafe { self.vectors::<Evex, W>(all, to) }
    }

    #[inline(always)]
    unsafe fn vectors<V: Words, W: Write>(&self, all: &Channels<'_>, to: W) {
        for c in (0..self.sizes.inputs).step_by(VECTOR) {
            // SAFETY: passed on.
            unsafe {
                match (self.taps, self.planes) {
                    (3, 1) => self.vector::<V, 3, W>(all, c, to),
                    (5, 1) => self.vector::<V, 5, W>(all, c, to),
                    _ => self.vector::<V, 0, W>(all, c, to),
                }
            }
        }
    }

    /// The channels of a vector of all pixels. `T` is the number of a window's columns, of one word each, whose weights
    /// stay in registers, or 0.
    #[inline(always)]
    unsafe fn vector<V: Words, const T: usize, W: Write>(&self, all: &Channels<'_>, c: usize, to: W) {
        let channels = self.sizes.inputs;
        // SAFETY: passed on; the channels have their scaling.
        unsafe {
            if channels - c >= VECTOR {
                let columns = all.scaling.columns::<VECTOR>(c, all.scale);
                self.pixels::<V, T>(all, c, |pixel, sums| {
                    to.write(columns.numbers(sums), pixel * channels + c)
                });
            } else {
                self.pixels::<V, T>(all, c, |pixel, sums| {
                    for (c, sum) in (c..channels).zip(sums) {
                        let columns = all.scaling.columns::<1>(c, all.scale);
                        to.write(columns.numbers([sum]), pixel * channels + c);
                    }
                });
            }
        }
    }

    /// Tells the sums of a vector's channels of each pixel.
    #[inline(always)]
    unsafe fn pixels<V: Words, const T: usize>(
        &self,
        all: &Channels<'_>,
        c: usize,
        mut each: impl FnMut(usize, [i32; VECTOR]),
    ) {
        let (row, width) = (self.channels * WORD, self.sizes.columns.taps);
        // SAFETY: passed on; words and weights have whole vectors of channels.
        unsafe {
            let (weight, words) = (all.weight.add(c * WORD), all.words.add(c * WORD));
            let mut weights = [V::zeros(); T];
            for (tap, to) in weights.iter_mut().enumerate() {
                *to = V::load(weight.add(tap * row));
            }
            for pixel in 0..self.sizes.columns.windows {
                let columns = all.read.as_ptr().add(pixel * width);
                let mut sum = V::zeros();
                for tap in 0..T {
                    sum = V::add(sum, V::load(words.add(*columns.add(tap) * row)), weights[tap]);
                }
                if T == 0 {
                    for tap in 0..self.taps {
                        let (column, plane) = (tap / self.planes, tap % self.planes);
                        let word = words.add((plane * self.columns + *columns.add(column)) * row);
                        sum = V::add(sum, V::load(word), V::load(weight.add(tap * row)));
                    }
                }
                each(pixel, V::sums(sum));
            }
        }
    }
}

/// What the channels of a row are computed from.
struct Channels<'a> {
    words: *const u8,
    weight: *const u8,
    /// The column that each tap of each pixel reads.
    read: &'a [usize],
    /// The scale of the image.
    scale: f32,
    scaling: Scaling,
}

/// Where numbers are written.
trait Write: Copy {
    /// Writes numbers at an element.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn write<const W: usize>(self, numbers: [f32; W], at: usize);
}

/// Numbers themselves.
#[derive(Clone, Copy)]
struct Numbers(*mut f32);

/// Their codes.
#[derive(Clone, Copy)]
struct Codes(ToCode, *mut u8);

impl Write for Numbers {
    #[inline(always)]
    unsafe fn write<const W: usize>(self, numbers: [f32; W], at: usize) {
        // SAFETY: passed on.
        unsafe { self.0.add(at).cast::<[f32; W]>().write_unaligned(numbers) }
    }
}

impl Write for Codes {
    #[inline(always)]
    unsafe fn write<const W: usize>(self, numbers: [f32; W], at: usize) {
        let mut codes = [0; W];
        for i in 0..W {
            codes[i] = self.0.map::<V3>(numbers[i]);
        }
        // SAFETY: passed on.
        unsafe { self.1.add(at).cast::<[u8; W]>().write_unaligned(codes) }
    }
}
