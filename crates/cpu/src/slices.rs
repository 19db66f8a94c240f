//! The sum of the parts of a sum over rows: in slices of the rows, as a plan may cut them, and in pairs of slices where
//! there are many.

use std::ops::Range;

use crate::kernels::pairwise::Pairwise;
use crate::tiles::{SLICE_ROWS, slices, tile_rows};

/// Columns that are added up at a time.
pub(crate) const COLUMNS: usize = 512;

/// The most slices that are added up one after another.
const FEW: usize = 32;

/// Sums of parts, one part for each tile of `tile` rows.
#[derive(Clone, Copy)]
pub(crate) struct SliceSums {
    tile: usize,
}

impl SliceSums {
    pub(crate) fn new(tile: usize) -> SliceSums {
        SliceSums { tile: tile.max(1) }
    }

    /// Writes the sum of the parts of `rows` rows to `to`, which has at most [`COLUMNS`] elements; `part` gives the
    /// elements of a part.
    pub(crate) fn sum<'a>(&self, rows: usize, parts: Range<usize>, part: &impl Fn(usize) -> &'a [f32], to: &mut [f32]) {
        let n = to.len();
        to.fill(0.0);
        if let Some(count) = slices(rows).filter(|_| tile_rows(rows) == self.tile) {
            let (rows, of_slice) = (rows / count, parts.len() / count);
            for slice in 0..count {
                let mut sums = [0.0; COLUMNS];
                let first = parts.start + slice * of_slice;
                self.sum(rows, first..first + of_slice, part, &mut sums[..n]);
                add(to, &sums[..n]);
            }
            return;
        }
        let in_slice = (SLICE_ROWS / self.tile).max(1);
        let of_slice = |first: usize| {
            let mut sums = [0.0; COLUMNS];
            (first..parts.end.min(first + in_slice)).for_each(|p| add(&mut sums[..n], part(p)));
            sums
        };
        let firsts = parts.clone().step_by(in_slice);
        if parts.len().div_ceil(in_slice) <= FEW {
            firsts.for_each(|first| add(to, &of_slice(first)[..n]));
            return;
        }
        let mut all = Pairwise::<1, COLUMNS>::new();
        firsts.for_each(|first| all.add(&[of_slice(first)]));
        to.copy_from_slice(&all.total()[0][..n]);
    }
}

fn add(to: &mut [f32], x: &[f32]) {
    to.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum over the tiles of `rows` rows, with one number for each tile.
    fn sum(rows: usize, number: impl Fn(usize) -> f32) -> f32 {
        let tile = tile_rows(rows);
        let numbers: Vec<f32> = (0..rows.div_ceil(tile)).map(number).collect();
        let mut to = [f32::NAN];
        let part = |p: usize| &numbers[p..p + 1];
        SliceSums::new(tile).sum(rows, 0..numbers.len(), &part, &mut to);
        to[0]
    }

    #[test]
    fn every_part_is_added_once() {
        for rows in [
            1usize,
            600,
            1024,
            2048,
            5000,
            16_384,
            24_576,
            40_000,
            1 << 17,
            1_000_000,
        ] {
            let parts = rows.div_ceil(tile_rows(rows));
            assert_eq!(sum(rows, |_| 1.0), parts as f32, "{rows} rows");
            assert_eq!(sum(rows, |p| p as f32), (0..parts).sum::<usize>() as f32, "{rows} rows");
        }
    }

    #[test]
    fn the_sum_of_slices_of_a_plan_is_the_sum_of_all_rows() {
        let number = |p: usize| 1.0 / (p as f32 + 1.5);
        for rows in [2048, 8192, 16_384, 24_576, 1 << 17, 3 << 18] {
            let count = slices(rows).expect("even slices");
            let of_slice = rows / count / tile_rows(rows);
            let slice = |s: usize| sum(rows / count, |p| number(s * of_slice + p));
            let in_slices = (1..count).fold(slice(0), |sum, s| sum + slice(s));
            assert_eq!(sum(rows, number), in_slices, "{rows} rows in {count} slices");
        }
    }

    #[test]
    fn many_parts_keep_six_digits() {
        for rows in [1_000_000usize, 1 << 20, 999_424] {
            let parts = rows.div_ceil(tile_rows(rows));
            let exact = parts as f64 * f64::from(12.8f32);
            let error = (f64::from(sum(rows, |_| 12.8)) - exact).abs() / exact;
            assert!(error < 2e-6, "{rows} rows: {error:.1e}");
        }
    }
}
