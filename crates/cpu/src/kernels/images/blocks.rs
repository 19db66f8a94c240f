//! Blocks of pixels of a result, and where the pixels lie that they read.

use std::collections::HashMap;
use std::ops::Range;

use super::reads::{Pixels, Reads};
use crate::simd::{Level, dispatch};

/// The most pixels of a block, a multiple of the rows of a product's register tiles and of tiles of AMX.
pub(super) const BLOCK: usize = 96;

/// Divisor of the pixels of all blocks but the last one: rows of register tiles of any width.
const TILE: usize = 24;

/// The fewest blocks of a result, where its pixels fill several register tiles.
const FEWEST: usize = 4;

/// The most bytes of a table, which is read for each image.
const TABLE: usize = 256 << 10;

/// The fewest repetitions that are worth a table.
const REPETITIONS: usize = 4;

/// The most classes of pixels.
const CLASSES: usize = 64;

/// How the pixels of results are cut into blocks: each image, or each few small ones, at the same places, so that the
/// pixels that blocks read repeat themselves. It depends on the shape alone.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Pixels of all results.
    pixels: usize,
    /// Pixels after which the cuts repeat themselves: the pixels of an image, or of several.
    period: usize,
    /// Pixels of a block but the last of a period.
    len: usize,
}

impl Cut {
    /// The cut of `images` results of `image` pixels each.
    pub(super) fn of(images: usize, image: usize) -> Cut {
        let period = image * (BLOCK / image.max(1)).clamp(1, images.max(1));
        let pixels = images * image;
        let even = period.div_ceil(period.div_ceil(BLOCK).max(1));
        let shared = even.min(pixels.div_ceil(FEWEST));
        Cut {
            pixels,
            period: period.max(1),
            len: shared.next_multiple_of(TILE).min(BLOCK),
        }
    }

    /// Pixels of all results.
    pub(super) fn pixels(&self) -> usize {
        self.pixels
    }

    /// Blocks of a period.
    fn per_period(&self) -> usize {
        self.period.div_ceil(self.len)
    }

    /// Blocks of all pixels.
    pub(super) fn count(&self) -> usize {
        let rest = (self.pixels % self.period).div_ceil(self.len);
        self.pixels / self.period * self.per_period() + rest
    }

    /// The pixels of a block.
    pub(super) fn block(&self, number: usize) -> Range<usize> {
        let (period, place) = (number / self.per_period(), number % self.per_period());
        let start = period * self.period + place * self.len;
        start..(start + self.len).min((period + 1) * self.period).min(self.pixels)
    }

    /// Bytes of the table of pixels that the blocks of a period read by `taps` taps; 0 without a table.
    pub(super) fn table(&self, taps: usize) -> usize {
        let bytes = self.per_period() * table_of_block(taps) * size_of::<i32>();
        let is_worth = bytes <= TABLE && self.pixels >= REPETITIONS * self.period;
        if is_worth { bytes.next_multiple_of(64) } else { 0 }
    }
}

/// Numbers of a table for a block: for each tap and pixel, and for each pixel.
fn table_of_block(taps: usize) -> usize {
    (taps + 1) * BLOCK
}

/// The pixels that the blocks of a result read.
pub(super) struct Blocks {
    cut: Cut,
    pixels: Pixels<usize>,
    /// Taps of a window along a row, and all of them.
    width: usize,
    taps: usize,
    /// Classes of pixels, where there are several: a block has the pixels of one class side by side, so that taps that
    /// read nothing can be left out.
    classes: Option<PixelClasses>,
}

/// Pixels of a class are read by the same taps. The class of a pixel is the sum of its row's and its column's number.
struct PixelClasses {
    rows: Vec<usize>,
    columns: Vec<usize>,
    count: usize,
}

/// The pointers of a block.
pub(super) struct Pointers {
    /// For each tap and pixel the pixel that it reads; taps are `BLOCK` pointers apart.
    pub(super) read: *const *const u8,
    /// Where each pixel is written.
    pub(super) written: *const *mut f32,
}

impl Blocks {
    /// From the pixels that the pixels of a result read by the taps of windows of this height and width.
    pub(super) fn new(pixels: Pixels<usize>, taps: [usize; 2], cut: Cut) -> Blocks {
        let (rows, row_classes, common_rows) = classes(&pixels.rows);
        let (columns, column_classes, common_columns) = classes(&pixels.columns);
        let all = (rows.len() * columns.len()) as f64;
        let are_alike = (common_rows * common_columns) as f64 > 0.9 * all;
        let count = row_classes * column_classes;
        Blocks {
            classes: (!are_alike && count <= CLASSES).then(|| PixelClasses {
                rows: rows.iter().map(|class| class * column_classes).collect(),
                columns,
                count,
            }),
            cut,
            pixels,
            width: taps[1],
            taps: taps[0] * taps[1],
        }
    }

    /// Bytes of the pointers of a block.
    pub(super) fn scratch(taps: usize) -> usize {
        (taps + 1) * BLOCK * size_of::<usize>()
    }

    /// The tasks that fill a table of numbers of this size: one for each block of a period, or none where the table is
    /// of no use.
    pub(super) fn table_tasks<N>(&self) -> usize {
        let Pixels { from, channels, .. } = self.pixels;
        let images = self.cut.period / (self.pixels.rows.len() * self.pixels.columns.len()).max(1);
        let bytes = images * from[0] * from[1] * channels * size_of::<N>();
        let is_used = self.cut.table(self.taps) > 0 && i32::try_from(bytes).is_ok();
        if is_used { self.cut.per_period() } else { 0 }
    }

    /// Fills the part of the table for a block of a period: for each tap and pixel, bytes from the first image to the
    /// pixel that is read, or -1 for padding, and for each pixel its number in the block.
    ///
    /// # Safety
    /// `table` has [`Cut::table`], and nobody else accesses the part of the block.
    pub(super) unsafe fn fill<N>(&self, number: usize, table: *mut u8) {
        let table = table.cast::<i32>().wrapping_add(number * table_of_block(self.taps));
        let order = table.wrapping_add(self.taps * BLOCK);
        let offset = |at: usize| (at * size_of::<N>()) as i32;
        // SAFETY: the part has a number for each tap and pixel, and for each pixel.
        unsafe {
            (0..self.taps * BLOCK).for_each(|i| table.add(i).write(-1));
            self.visit(
                self.cut.block(number),
                |place, pixel| order.add(place).write(pixel as i32),
                |place, tap, at| table.add(tap * BLOCK + place).write(offset(at)),
            );
        }
    }

    /// Writes the pointers of a block to `scratch`: to the channels of `x` that its pixels read, or to `zeros`, and to
    /// its pixels in `y`, where the block begins and pixels are `row` elements apart. It reads the table if there is
    /// one.
    ///
    /// # Safety
    /// `scratch` has [`Blocks::scratch`], and [`Blocks::fill`] has filled the table.
    pub(super) unsafe fn point<N>(
        &self,
        number: usize,
        (x, zeros): (*const N, *const u8),
        (y, row): (*mut f32, usize),
        table: Option<*const u8>,
        scratch: *mut u8,
    ) -> Pointers {
        let read = scratch.cast::<*const u8>();
        let written = scratch.cast::<*mut f32>().wrapping_add(self.taps * BLOCK);
        let block = self.cut.block(number);
        // A block of fewer images than the table's has its pixels in another order.
        let is_whole = block.end.is_multiple_of(self.cut.period) || block.len() == self.cut.len;
        // SAFETY: the scratch has room for a pointer for each tap and pixel, and for each pixel, and the table has
        // numbers for these pointers.
        unsafe {
            if let Some(table) = table.filter(|_| is_whole) {
                let (period, place) = (number / self.cut.per_period(), number % self.cut.per_period());
                let image = self.pixels.from[0] * self.pixels.from[1] * self.pixels.channels;
                let images = self.cut.period / (self.pixels.rows.len() * self.pixels.columns.len());
                let x = x.wrapping_add(period * images * image).cast::<u8>();
                let table = table.cast::<i32>().add(place * table_of_block(self.taps));
                pointers(self.taps * BLOCK, table, x, zeros, read);
                let order = table.add(self.taps * BLOCK);
                for i in 0..block.len() {
                    written.add(i).write(y.wrapping_add(*order.add(i) as usize * row));
                }
            } else {
                (0..self.taps * BLOCK).for_each(|i| read.add(i).write(zeros));
                self.visit(
                    block,
                    |place, pixel| written.add(place).write(y.wrapping_add(pixel * row)),
                    |place, tap, at| read.add(tap * BLOCK + place).write(x.wrapping_add(at).cast()),
                );
            }
        }
        Pointers { read, written }
    }

    /// Calls `written` with the place in the block of each pixel and its number in it, and `read` with that place, a
    /// tap and the element that it reads.
    #[inline(always)]
    fn visit(&self, block: Range<usize>, written: impl Fn(usize, usize), read: impl Fn(usize, usize, usize)) {
        let mut places = self.places(&block);
        let columns = &self.pixels.columns;
        let mut pixel = block.start;
        while pixel < block.end {
            let line = pixel / columns.len();
            let from = pixel - line * columns.len();
            let to = columns.len().min(from + block.end - pixel);
            let of_line = self.pixels.row(line);
            for column in from..to {
                let place = places.next(self.classes.as_ref(), line % self.pixels.rows.len(), column);
                written(place, pixel - block.start + column - from);
                for above in of_line.rows {
                    let line = of_line.image + above.at * of_line.line;
                    for beside in columns.of(column) {
                        let tap = above.by * self.width + beside.by;
                        read(place, tap, line + beside.at * of_line.channels);
                    }
                }
            }
            pixel += to - from;
        }
    }

    /// Where the pixels of a block come in it.
    fn places(&self, block: &Range<usize>) -> Places {
        let mut places = Places { next: [0; CLASSES] };
        let Some(classes) = &self.classes else {
            return places;
        };
        let (height, width) = (self.pixels.rows.len(), self.pixels.columns.len());
        let mut counts = [0; CLASSES];
        let (mut line, mut column) = (block.start / width % height, block.start % width);
        for _ in block.clone() {
            counts[classes.rows[line] + classes.columns[column]] += 1;
            column += 1;
            if column == width {
                column = 0;
                line = if line + 1 == height { 0 } else { line + 1 };
            }
        }
        let mut first = 0;
        for class in 0..classes.count {
            places.next[class] = first;
            first += counts[class];
        }
        places
    }
}

dispatch! {
    /// Makes pointers of some numbers of a table: `x` plus that many bytes, or `zeros` where they are negative.
    ///
    /// # Safety
    /// The numbers are readable, and there is room for the pointers.
    unsafe fn pointers(
        count: usize, table: *const i32, x: *const u8, zeros: *const u8, to: *mut *const u8,
    ) = pointers_body;
}

#[inline(always)]
unsafe fn pointers_body<L: Level>(count: usize, table: *const i32, x: *const u8, zeros: *const u8, to: *mut *const u8) {
    for i in 0..count {
        // SAFETY: passed on.
        unsafe {
            let offset = *table.add(i);
            let there = x.wrapping_offset(offset as isize);
            to.add(i).write(if offset < 0 { zeros } else { there });
        }
    }
}

/// The next place of each class in a block.
struct Places {
    next: [usize; CLASSES],
}

impl Places {
    fn next(&mut self, classes: Option<&PixelClasses>, line: usize, column: usize) -> usize {
        let next = &mut self.next[classes.map_or(0, |classes| classes.rows[line] + classes.columns[column])];
        *next += 1;
        *next - 1
    }
}

/// The class of each row or column, the number of classes, and the size of the largest one.
fn classes(reads: &Reads<usize>) -> (Vec<usize>, usize, usize) {
    let (mut found, mut counts) = (HashMap::new(), Vec::new());
    let classes = (0..reads.len())
        .map(|i| {
            let taps: Vec<usize> = reads.of(i).iter().map(|read| read.by).collect();
            let new = found.len();
            let class = *found.entry(taps).or_insert(new);
            counts.resize(found.len(), 0);
            counts[class] += 1;
            class
        })
        .collect();
    (classes, found.len(), counts.into_iter().max().unwrap_or(0))
}
