//! The gradient of a weight in `bf16`, whose words are two neighbouring pixels. Words of a block's rows are packed
//! once, and all taps read them.

use std::ops::Range;

use lessen_graph::ops::Conv2dSizes;

use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::x86::avx512::pair::pair;

/// Bytes of a word.
const WORD: usize = 4;

/// The most bytes of the words of a block.
const MOST: usize = 256 << 10;

/// The pixels of a block, about.
const PIXELS: usize = 256;

/// Blocks of whole rows of the result: some of one image, or all of several.
///
/// A row of the image has two runs of words: pixels 0 and 1, 2 and 3 and so on, and pixels -1 and 0, 1 and 2 and so on
/// up to the last pixel and the one after it. Pixels outside the image are zeros.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    sizes: Conv2dSizes,
    /// Channels that are packed at most.
    channels: usize,
    /// Images of a block, and rows of the result of each.
    images: usize,
    lines: usize,
}

/// A block.
#[derive(Clone)]
pub(super) struct PixelBlock {
    images: Range<usize>,
    lines: Range<usize>,
    /// The rows of the images that it reads.
    rows: Range<usize>,
}

impl Pairs {
    /// The blocks of a convolution whose windows are next to each other and whose rows have an even number of pixels.
    pub(super) fn of(sizes: Conv2dSizes, channels: usize) -> Option<Pairs> {
        let is_even = |size: usize| size > 0 && size.is_multiple_of(2);
        let is_plain = [sizes.rows, sizes.columns]
            .iter()
            .all(|s| s.stride == 1 && s.dilation == 1);
        if !is_plain || !is_even(sizes.columns.input) || !is_even(sizes.columns.windows) {
            return None;
        }
        let (height, width) = (sizes.rows.windows, sizes.columns.windows);
        let pairs = |lines: usize| Pairs {
            sizes,
            channels,
            images: if lines < height {
                1
            } else {
                (PIXELS / (height * width)).clamp(1, sizes.images)
            },
            lines,
        };
        let most = (PIXELS / width).clamp(1, height);
        (1..=most).rev().map(pairs).find(|pairs| pairs.bytes() <= MOST)
    }

    /// Pixels of a block, at most.
    pub(super) fn pixels(&self) -> usize {
        self.images * self.lines * self.sizes.columns.windows
    }

    /// Rows of an image that a block reads, at most.
    fn rows(&self) -> usize {
        (self.lines + self.sizes.rows.taps - 1).min(self.sizes.rows.input)
    }

    /// Bytes of a word of all channels.
    fn word(&self) -> usize {
        self.channels * WORD
    }

    /// Bytes of the words of a row of an image.
    fn row(&self) -> usize {
        (self.sizes.columns.input + 1) * self.word()
    }

    /// Bytes of a block: zeros, then the words.
    pub(super) fn bytes(&self) -> usize {
        (self.word() + self.images * self.rows() * self.row()).next_multiple_of(64)
    }

    /// Blocks of an image, or 1 where a block has several.
    fn per_image(&self) -> usize {
        self.sizes.rows.windows.div_ceil(self.lines)
    }

    /// The number of blocks.
    pub(super) fn count(&self) -> usize {
        self.sizes.images.div_ceil(self.images) * self.per_image()
    }

    pub(super) fn block(&self, number: usize) -> PixelBlock {
        let (image, line) = (
            number / self.per_image() * self.images,
            number % self.per_image() * self.lines,
        );
        let (slide, end) = (self.sizes.rows, self.sizes.rows.windows.min(line + self.lines));
        PixelBlock {
            images: image..self.sizes.images.min(image + self.images),
            lines: line..end,
            rows: line.saturating_sub(slide.before)
                ..slide.input.min((end + slide.taps - 1).saturating_sub(slide.before)),
        }
    }

    /// The pixels of the result of a block.
    pub(super) fn pixels_of(&self, block: &PixelBlock) -> Range<usize> {
        let (height, width) = (self.sizes.rows.windows, self.sizes.columns.windows);
        let pixel = |image: usize, line: usize| (image * height + line) * width;
        pixel(block.images.start, block.lines.start)..pixel(block.images.end - 1, block.lines.end)
    }

    /// Packs the rows of the images `x`, some channels of them.
    ///
    /// # Safety
    /// The CPU has AVX-512, `x` has the images, and `to` [`Pairs::bytes`].
    pub(super) unsafe fn pack(&self, block: &PixelBlock, (first, count): (usize, usize), x: *const Bf16, to: *mut u8) {
        let (height, width, channels) = (self.sizes.rows.input, self.sizes.columns.input, self.sizes.inputs);
        // SAFETY: passed on; a row has a word for each two pixels and one more.
        unsafe {
            to.write_bytes(0, self.word());
            let mut to = to.add(self.word());
            for (image, row) in block
                .images
                .clone()
                .flat_map(|i| block.rows.clone().map(move |row| (i, row)))
            {
                let line = x.wrapping_add((image * height + row) * width * channels + first);
                let pixel = |column: usize| line.wrapping_add(column * channels);
                let there = |column: usize| (column < width).then(|| pixel(column));
                for column in (0..width).step_by(2) {
                    pair(count, count, [there(column), there(column + 1)], to.cast());
                    to = to.add(self.word());
                }
                for column in (0..=width).step_by(2) {
                    pair(
                        count,
                        count,
                        [column.checked_sub(1).map(pixel), there(column)],
                        to.cast(),
                    );
                    to = to.add(self.word());
                }
            }
        }
    }

    /// Writes a pointer to each word that a tap reads for the pixels of a block.
    ///
    /// # Safety
    /// `packed` was written by [`Pairs::pack`], and `to` has room for half as many pointers as the block has pixels.
    pub(super) unsafe fn point(&self, block: &PixelBlock, tap: usize, packed: *const u8, to: *mut *const u8) {
        let (rows, columns) = (self.sizes.rows, self.sizes.columns);
        let (down, right) = (tap / columns.taps, tap % columns.taps);
        let words = columns.windows / 2;
        // The first word of a row is of the columns `shift` and `shift + 1`.
        let shift = right as isize - columns.before as isize;
        let (run, skipped, len) = match shift.rem_euclid(2) {
            0 => (0, shift / 2, columns.input / 2),
            _ => (columns.input / 2, (shift + 1) / 2, columns.input / 2 + 1),
        };
        let zeros = packed;
        let mut to = to;
        for image in 0..block.images.len() {
            for line in block.lines.clone() {
                let row = rows.position(line, down).map(|row| row - block.rows.start);
                for word in 0..words as isize {
                    let place = usize::try_from(word + skipped).ok().filter(|place| *place < len);
                    let pointer = row.zip(place).map_or(zeros, |(row, place)| {
                        let line = (image * block.rows.len() + row) * self.row();
                        packed.wrapping_add(self.word() + line + (run + place) * self.word())
                    });
                    // SAFETY: passed on.
                    unsafe {
                        to.write(pointer);
                        to = to.add(1);
                    }
                }
            }
        }
    }
}
