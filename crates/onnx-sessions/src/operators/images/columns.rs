//! Products of a matrix with columns that are gathered from windows: what convolutions consist of.

use std::ops::Range;

use super::windows::Windows;
use lessen_onnx::host::Number;

/// Columns of a panel, which are beside each other in memory.
const WIDE: usize = 8;
/// Rows that are computed at a time.
const TALL: usize = 4;
/// Elements of all panels at a time, as far as one panel has fewer.
const AT_A_TIME: usize = 1 << 18;

/// Columns in panels: element `row` of column `column` is at `(column / WIDE, row, column % WIDE)`.
pub(super) struct Panels<T> {
    depth: usize,
    columns: usize,
    all: Vec<T>,
}

/// Ranges of columns of this depth that are computed one after another.
pub(super) fn blocks(depth: usize, columns: usize) -> impl Iterator<Item = Range<usize>> {
    let step = (AT_A_TIME / depth.max(1)).max(WIDE) / WIDE * WIDE;
    (0..columns.div_ceil(step)).map(move |i| i * step..columns.min((i + 1) * step))
}

impl<T: Number> Panels<T> {
    /// Panels without elements yet.
    pub fn new() -> Panels<T> {
        Panels {
            depth: 0,
            columns: 0,
            all: Vec::new(),
        }
    }

    /// Sets all to zero.
    fn clear(&mut self, depth: usize, columns: usize) {
        (self.depth, self.columns) = (depth, columns);
        self.all.clear();
        self.all.resize(depth * columns.next_multiple_of(WIDE), T::ZERO);
    }

    /// Gathers one column for each of some windows, of the channels of an image: the rows are the elements of a window,
    /// channel by channel. Padding is zero.
    pub fn gather(&mut self, windows: &Windows, range: Range<usize>, image: &[T], channels: usize, taps: usize) {
        self.clear(channels * taps, range.len());
        let size = image.len() / channels.max(1);
        for row in 0..self.depth {
            let channel = &image[row / taps * size..][..size];
            let (depth, all) = (self.depth, &mut self.all);
            windows.visit(row % taps, range.clone(), |first, count, at, step| {
                let columns = first - range.start..first - range.start + count;
                for (column, x) in columns.zip(channel[at..].iter().step_by(step)) {
                    all[(column / WIDE * depth + row) * WIDE + column % WIDE] = *x;
                }
            });
        }
    }

    /// Takes some columns of a matrix.
    pub fn take(&mut self, matrix: &[T], depth: usize, columns: usize, range: Range<usize>) {
        self.clear(depth, range.len());
        for row in 0..depth {
            let line = &matrix[row * columns..][range.clone()];
            for (panel, part) in line.chunks(WIDE).enumerate() {
                self.all[(panel * depth + row) * WIDE..][..part.len()].copy_from_slice(part);
            }
        }
    }

    /// Sets columns from a function of the row and the column.
    pub fn set(&mut self, depth: usize, columns: usize, value: impl Fn(usize, usize) -> T) {
        self.clear(depth, columns);
        for column in 0..columns {
            for row in 0..depth {
                self.all[(column / WIDE * depth + row) * WIDE + column % WIDE] = value(row, column);
            }
        }
    }

    /// Adds the product of a matrix and these columns to an output: row `r` of the result goes to `out[r * stride..]`.
    pub fn add_product(&self, left: &[T], out: &mut [T], stride: usize) {
        if self.depth == 0 || self.columns == 0 {
            return;
        }
        for (panel, columns) in self.all.chunks_exact(self.depth * WIDE).enumerate() {
            let width = WIDE.min(self.columns - panel * WIDE);
            let mut put = |row: usize, sums: &[T; WIDE]| {
                let out = &mut out[row * stride + panel * WIDE..][..width];
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = out.plus(*sum);
                }
            };
            let tall = left.chunks_exact(self.depth * TALL);
            let rest = tall.remainder();
            let first_left = left.len() / self.depth / TALL * TALL;
            for (i, rows) in tall.enumerate() {
                let sums = tile::<T, TALL>(rows, columns, self.depth);
                for (r, sums) in sums.iter().enumerate() {
                    put(i * TALL + r, sums);
                }
            }
            for (i, row) in rest.chunks_exact(self.depth).enumerate() {
                let [sums] = tile::<T, 1>(row, columns, self.depth);
                put(first_left + i, &sums);
            }
        }
    }
}

/// Products of some rows with the columns of a panel.
fn tile<T: Number, const ROWS: usize>(rows: &[T], panel: &[T], depth: usize) -> [[T; WIDE]; ROWS] {
    let mut sums = [[T::ZERO; WIDE]; ROWS];
    let rows: [&[T]; ROWS] = std::array::from_fn(|r| &rows[r * depth..][..depth]);
    let (panel, _) = panel.as_chunks::<WIDE>();
    for (k, columns) in panel.iter().enumerate().take(depth) {
        for (row, sums) in rows.iter().zip(&mut sums) {
            let x = row[k];
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = sum.plus(x.times(*column));
            }
        }
    }
    sums
}

/// Adds columns, one for each of some windows, to the elements of an image that the windows meet; the rows of `columns`
/// are those of [`Panels::gather`], each with a stride.
pub(super) fn scatter<T: Number>(
    windows: &Windows,
    range: Range<usize>,
    columns: &[T],
    stride: usize,
    image: &mut [T],
    channels: usize,
    taps: usize,
) {
    let size = image.len() / channels.max(1);
    for row in 0..channels * taps {
        let channel = &mut image[row / taps * size..][..size];
        let line = &columns[row * stride..][..range.len()];
        windows.visit(row % taps, range.clone(), |first, count, at, step| {
            let line = &line[first - range.start..][..count];
            for (x, column) in channel[at..].iter_mut().step_by(step).zip(line) {
                *x = x.plus(*column);
            }
        });
    }
}
