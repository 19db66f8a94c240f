//! The sum of the parts of a sum over rows: in slices of the rows, as a plan may cut them, and in pairs of slices where
//! there are many.

use std::ops::Range;

use crate::kernels::sums::pairwise::Pairwise;
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
