//! Sums of products of codes, where the left factor is numbers from 0 to 255 and the right factor its levels, codes
//! less 128: they have the left factor's code of zero times the sum of the levels of the right factor's column too
//! much, which [`Scaling`] takes off.

use std::ops::Range;

use super::coded_factors::ZERO;
use super::rows::Rows;
use crate::simd::{Level, dispatch};

/// The code of a number.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct Code(pub(crate) u8);

/// Writes the sum of the levels, code less 128, of each of some columns of a factor of `k` codes.
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

/// What becomes of sums of products of codes, column by column.
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
    /// Makes elements of the result of some columns of a row's sums: `(sum - zero levels + bias) (scale of_column) +
    /// added`, or the integer in the parentheses alone. `to` may be where the sums are.
    ///
    /// # Safety
    /// The sums and the elements have these columns, which nobody else accesses; pointers that are not null have a
    /// number for each column.
    pub(crate) unsafe fn scaled(
        columns: Range<usize>, scale: f32, sums: *const i32, scaling: Scaling, to: *mut f32,
    ) = scaled_body;
}

#[inline(always)]
unsafe fn scaled_body<L: Level>(columns: Range<usize>, scale: f32, sums: *const i32, scaling: Scaling, to: *mut f32) {
    // SAFETY: passed on.
    unsafe {
        let sum = |j: usize| (*sums.add(j)).wrapping_sub(scaling.zero.wrapping_mul(*scaling.levels.add(j)));
        let with_bias = |j: usize| sum(j).wrapping_add(*scaling.bias.add(j));
        if scaling.scale.is_null() {
            let to = to.cast::<i32>();
            if scaling.bias.is_null() {
                columns.for_each(|j| to.add(j).write(sum(j)));
            } else {
                columns.for_each(|j| to.add(j).write(with_bias(j)));
            }
            return;
        }
        let times = |j: usize, sum: i32| sum as f32 * (scale * *scaling.scale.add(j));
        match (scaling.bias.is_null(), scaling.added.is_null()) {
            (true, true) => columns.for_each(|j| to.add(j).write(times(j, sum(j)))),
            (false, true) => columns.for_each(|j| to.add(j).write(times(j, with_bias(j)))),
            (true, false) => columns.for_each(|j| to.add(j).write(times(j, sum(j)) + *scaling.added.add(j))),
            (false, false) => columns.for_each(|j| to.add(j).write(times(j, with_bias(j)) + *scaling.added.add(j))),
        }
    }
}
