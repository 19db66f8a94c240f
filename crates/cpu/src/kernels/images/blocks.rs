//! Blocks of pixels of a result, and where the pixels lie that they read.

use std::collections::HashMap;
use std::ops::Range;

use super::reads::{Pixels, Reads};

/// Pixels of a block, a multiple of the rows of a product's register tiles.
pub(super) const BLOCK: usize = 120;

/// The most kinds of pixels that are told apart.
const KINDS: usize = 64;

/// What the blocks of a result read.
pub(super) struct Blocks {
    pixels: Pixels<usize>,
    /// Taps of a window along a row, and all of them.
    width: usize,
    taps: usize,
    /// Pixels of a kind read by the same taps. Where there are several kinds, a block has those of one kind side by
    /// side, so that the taps that read nothing can be left out: the kinds of rows and columns, and their number.
    kinds: Option<Kinds>,
}

struct Kinds {
    rows: Vec<usize>,
    columns: Vec<usize>,
    count: usize,
}

/// The pointers of a block.
pub(super) struct Pointers {
    /// For each tap and pixel, `BLOCK` apart, what it reads.
    pub(super) read: *const *const u8,
    /// Where each pixel is written.
    pub(super) written: *const *mut f32,
}

impl Blocks {
    /// Of what the pixels of a result read by the taps of windows of this height and width.
    pub(super) fn new(pixels: Pixels<usize>, taps: [usize; 2]) -> Blocks {
        let (rows, row_kinds, common_rows) = kinds(&pixels.rows);
        let (columns, column_kinds, common_columns) = kinds(&pixels.columns);
        let all = (rows.len() * columns.len()) as f64;
        let are_alike = (common_rows * common_columns) as f64 > 0.9 * all;
        let count = row_kinds * column_kinds;
        Blocks {
            kinds: (!are_alike && count <= KINDS).then(|| Kinds {
                rows: rows.iter().map(|kind| kind * column_kinds).collect(),
                columns,
                count,
            }),
            pixels,
            width: taps[1],
            taps: taps[0] * taps[1],
        }
    }

    /// Bytes of the pointers of a block.
    pub(super) fn scratch(taps: usize) -> usize {
        (taps + 1) * BLOCK * size_of::<usize>()
    }

    /// Writes the pointers of a block to `scratch`: to the channels of `x` that its pixels read, or to `zeros`, and to
    /// those of `y`, where the block begins, whose pixels are `row` elements apart.
    ///
    /// # Safety
    /// `scratch` has [`Blocks::scratch`].
    pub(super) unsafe fn point<N>(
        &self,
        block: Range<usize>,
        (x, zeros): (*const N, *const u8),
        (y, row): (*mut f32, usize),
        scratch: *mut u8,
    ) -> Pointers {
        let read = scratch.cast::<*const u8>();
        let written = scratch.cast::<*mut f32>().wrapping_add(self.taps * BLOCK);
        let mut places = self.places(&block);
        let columns = &self.pixels.columns;
        // SAFETY: the scratch has room for a pointer for each tap and pixel, and for each pixel.
        unsafe {
            for i in 0..self.taps * BLOCK {
                read.add(i).write(zeros);
            }
            let mut pixel = block.start;
            while pixel < block.end {
                let line = pixel / columns.len();
                let from = pixel - line * columns.len();
                let to = columns.len().min(from + block.end - pixel);
                let of_line = self.pixels.row(line);
                for column in from..to {
                    let place = places.next(self.kinds.as_ref(), line % self.pixels.rows.len(), column);
                    written
                        .add(place)
                        .write(y.wrapping_add((pixel - block.start + column - from) * row));
                    for above in of_line.rows {
                        let line = x.wrapping_add(of_line.image + above.at * of_line.line);
                        let pointers = read.add(above.by * self.width * BLOCK + place);
                        for beside in columns.of(column) {
                            let at = line.wrapping_add(beside.at * of_line.channels);
                            pointers.add(beside.by * BLOCK).write(at.cast());
                        }
                    }
                }
                pixel += to - from;
            }
        }
        Pointers { read, written }
    }

    /// Where the pixels of a block come in it.
    fn places(&self, block: &Range<usize>) -> Places {
        let mut places = Places { next: [0; KINDS] };
        let Some(kinds) = &self.kinds else {
            return places;
        };
        let (height, width) = (self.pixels.rows.len(), self.pixels.columns.len());
        let mut counts = [0; KINDS];
        let (mut line, mut column) = (block.start / width % height, block.start % width);
        for _ in block.clone() {
            counts[kinds.rows[line] + kinds.columns[column]] += 1;
            column += 1;
            if column == width {
                column = 0;
                line = if line + 1 == height { 0 } else { line + 1 };
            }
        }
        let mut first = 0;
        for kind in 0..kinds.count {
            places.next[kind] = first;
            first += counts[kind];
        }
        places
    }
}

/// The next place for each kind.
struct Places {
    next: [usize; KINDS],
}

impl Places {
    fn next(&mut self, kinds: Option<&Kinds>, line: usize, column: usize) -> usize {
        let next = &mut self.next[kinds.map_or(0, |kinds| kinds.rows[line] + kinds.columns[column])];
        *next += 1;
        *next - 1
    }
}

/// The kind of each row or column, the number of kinds, and how many are of the most common one.
fn kinds(reads: &Reads<usize>) -> (Vec<usize>, usize, usize) {
    let (mut found, mut counts) = (HashMap::new(), Vec::new());
    let kinds = (0..reads.len())
        .map(|i| {
            let taps: Vec<usize> = reads.of(i).iter().map(|read| read.by).collect();
            let new = found.len();
            let kind = *found.entry(taps).or_insert(new);
            counts.resize(found.len(), 0);
            counts[kind] += 1;
            kind
        })
        .collect();
    (kinds, found.len(), counts.into_iter().max().unwrap_or(0))
}
