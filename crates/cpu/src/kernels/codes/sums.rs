//! Sums of products of codes. The left factor holds codes from 0 to 255, the right factor levels: codes less 128. A sum
//! of their products is too large by the left factor's code of zero times the sum of the levels of its column;
//! [`Scaling`] subtracts this product.

use std::ops::Range;

use super::factors::ZERO;
use super::to_code::ToCode;
use crate::kernels::map::Map;
use crate::kernels::rows::Rows;
use crate::kernels::widths::{load, store, widths};
use crate::simd::{Level, dispatch};

/// The code of a number.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct Code(pub(crate) u8);

/// Writes a sum of levels, code less 128, for each of these columns of a factor of `k` codes each.
///
/// # Safety
/// The codes of each column are readable in these strides, and `to` has a number for each column, which nobody else
/// accesses.
pub(crate) unsafe fn column_sums(columns: Range<usize>, k: usize, weight: Rows<u8>, to: *mut i32) {
    for column in columns {
        // SAFETY: passed on.
        unsafe {
            let first = weight.at(column);
            let sum: i32 = if weight.col == 1 {
                std::slice::from_raw_parts(first, k)
                    .iter()
                    .map(|code| i32::from(*code))
                    .sum()
            } else {
                (0..k).map(|i| i32::from(*first.add(i * weight.col))).sum()
            };
            to.add(column).write(sum - ZERO * k as i32);
        }
    }
}

/// The step from sums of products of codes to elements of the result, column by column.
#[derive(Clone, Copy)]
pub(crate) struct Scaling {
    /// The code of zero of the left factor.
    pub(crate) zero: i32,
    /// The sums of the levels of each column of the right factor.
    pub(crate) levels: *const i32,
    /// An integer for each column that is added to its sums; null without one.
    pub(crate) bias: *const i32,
    /// A scale for each column; null where the result is the sums.
    pub(crate) scale: *const f32,
    /// A number for each column that is added to the scaled sums; null without one.
    pub(crate) added: *const f32,
}

dispatch! {
    /// Writes elements of a row of the result from the sums of some columns: `(sum - zero levels + bias) (scale
    /// of_column) + added`, or without scales the integer in the first parentheses. `to` may be where the sums are.
    ///
    /// # Safety
    /// The sums and the elements have these columns, which nobody else accesses; pointers that are not null have a
    /// number for each column.
    pub(crate) unsafe fn scaled(
        columns: Range<usize>, scale: f32, sums: *const i32, scaling: Scaling, to: *mut f32,
    ) = scaled_body;

    /// Writes the codes of these elements.
    ///
    /// # Safety
    /// As for [`scaled`]; the codes lie apart from the sums.
    pub(crate) unsafe fn scaled_to_codes(
        columns: Range<usize>, scale: f32, sums: *const i32, scaling: Scaling, codes: ToCode, to: *mut u8,
    ) = scaled_to_codes_body;
}

impl Scaling {
    /// The step for `W` columns from `j` on, prepared for many rows of one scale.
    ///
    /// # Safety
    /// As for [`scaled`], with scales.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) unsafe fn columns<const W: usize>(&self, j: usize, scale: f32) -> Columns<W> {
        let mut all = Columns {
            // Adding -0 changes no number, not even the sign of a zero.
            added: [-0.0; W],
            // SAFETY: passed on.
            offset: unsafe { self.integers(j, [0; W]) },
            scale: [0.0; W],
        };
        // SAFETY: passed on.
        unsafe {
            let scales: [f32; W] = load(self.scale.add(j));
            for i in 0..W {
                all.scale[i] = scale * scales[i];
            }
            if !self.added.is_null() {
                all.added = load(self.added.add(j));
            }
        }
        all
    }

    /// The integers that the sums of `W` columns from `j` on become before scaling.
    ///
    /// # Safety
    /// As for [`scaled`].
    #[inline(always)]
    unsafe fn integers<const W: usize>(&self, j: usize, sums: [i32; W]) -> [i32; W] {
        let mut all = sums;
        // SAFETY: passed on.
        unsafe {
            if self.zero != 0 {
                let levels: [i32; W] = load(self.levels.add(j));
                for i in 0..W {
                    all[i] = all[i].wrapping_sub(self.zero.wrapping_mul(levels[i]));
                }
            }
            if !self.bias.is_null() {
                let bias: [i32; W] = load(self.bias.add(j));
                for i in 0..W {
                    all[i] = all[i].wrapping_add(bias[i]);
                }
            }
        }
        all
    }

    /// The elements of the result in `W` columns from `j` on.
    ///
    /// # Safety
    /// As for [`scaled`], with scales.
    #[inline(always)]
    unsafe fn numbers<const W: usize>(&self, j: usize, scale: f32, sums: *const i32) -> [f32; W] {
        // SAFETY: passed on.
        unsafe {
            let integers: [i32; W] = self.integers(j, load(sums.add(j)));
            let scales: [f32; W] = load(self.scale.add(j));
            let mut all = [0.0; W];
            for i in 0..W {
                all[i] = integers[i] as f32 * (scale * scales[i]);
            }
            if !self.added.is_null() {
                let added: [f32; W] = load(self.added.add(j));
                for i in 0..W {
                    all[i] += added[i];
                }
            }
            all
        }
    }
}

/// The step from sums to elements of the result for `W` columns and one scale.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Columns<const W: usize> {
    /// The integers that are added to the sums.
    offset: [i32; W],
    scale: [f32; W],
    added: [f32; W],
}

#[cfg(target_arch = "x86_64")]
impl<const W: usize> Columns<W> {
    /// The elements of the result from the sums of a row, with the bits of [`Scaling::numbers`].
    #[inline(always)]
    pub(crate) fn numbers(&self, sums: [i32; W]) -> [f32; W] {
        let mut all = [0.0; W];
        for i in 0..W {
            all[i] = sums[i].wrapping_add(self.offset[i]) as f32 * self.scale[i] + self.added[i];
        }
        all
    }
}

#[inline(always)]
unsafe fn scaled_body<L: Level>(columns: Range<usize>, scale: f32, sums: *const i32, scaling: Scaling, to: *mut f32) {
    widths!(columns.len(), |c, W| {
        let j = columns.start + c;
        // SAFETY: passed on; the columns are read before any of them is written.
        unsafe {
            if scaling.scale.is_null() {
                store(to.add(j).cast(), scaling.integers::<W>(j, load(sums.add(j))));
            } else {
                store(to.add(j), scaling.numbers::<W>(j, scale, sums));
            }
        }
    });
}

#[inline(always)]
unsafe fn scaled_to_codes_body<L: Level>(
    columns: Range<usize>,
    scale: f32,
    sums: *const i32,
    scaling: Scaling,
    codes: ToCode,
    to: *mut u8,
) {
    widths!(columns.len(), |c, W| {
        let j = columns.start + c;
        // SAFETY: passed on.
        unsafe {
            let numbers = scaling.numbers::<W>(j, scale, sums);
            let mut all = [0; W];
            for i in 0..W {
                all[i] = codes.map::<L>(numbers[i]);
            }
            store(to.add(j), all);
        }
    });
}
