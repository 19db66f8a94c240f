//! Entries by which the tests of this crate reach its private parts. They are no part of the interface.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lessen_base::Result;
use lessen_compile::Plan;

use crate::bind::Binder;
use crate::constants::Constants;
use crate::kernels::layouts::Reads;
use crate::kernels::row_kernel::Arg;
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::{self, Pairwise, in_runs};
use crate::simd::{CpuSet, Level, dispatch};
use crate::slices::SliceSums;
use crate::tiles;

/// Terms that [`sum_in_runs`] adds one after another.
pub const RUN: usize = pairwise::RUN;

/// Levels of pairs in [`sum_of_ones`].
pub const LEVELS: usize = pairwise::LEVELS;

/// The number of threads that a text names, as `LESSEN_THREADS` is read.
pub fn threads_of(text: &str) -> Result<usize> {
    crate::pool::threads_of(text)
}

/// The set of instructions that a text names, of what a machine has, as `LESSEN_CPU` is read.
pub fn set_of(text: &str, machine: CpuSet) -> Result<CpuSet> {
    crate::cpu_set::set_of(text, machine)
}

/// Greatest number of tasks of each step of a plan for `threads` threads; steps without work are left out.
pub fn tasks_of_steps(plan: &Plan, threads: usize) -> Result<Vec<usize>> {
    let constants = Constants::of(plan)?;
    let binder = Binder {
        plan,
        constants: &constants.offsets,
    };
    Ok(binder.bind()?.iter().filter_map(|step| step.tasks(threads)).collect())
}

/// Transposes 64 by 64 bits.
pub fn transpose_bits(words: &mut [u64; 64]) {
    crate::kernels::attention::dropout::transpose(words);
}

/// The sum of `n` terms in runs, whose sums are added in pairs.
pub fn sum_in_runs(n: usize, term: impl Fn(usize) -> f32) -> f32 {
    let [[sum]] = in_runs!(n, RUN, |run| {
        let mut sums = [[0.0]];
        for i in run {
            sums[0][0] += term(i);
        }
        sums
    });
    sum
}

/// The sum of numbers in an iterator, in runs.
pub fn sum_of(numbers: impl Iterator<Item = f32>) -> f32 {
    pairwise::sum_of(numbers)
}

/// The sum of `runs` runs of a single one.
pub fn sum_of_ones(runs: usize) -> f32 {
    let mut all = Pairwise::<1, 1>::new();
    (0..runs).for_each(|_| all.add(&[[1.0]]));
    all.total()[0][0]
}

/// Rows of a tile of a sum over `rows` rows.
pub fn tile_rows(rows: usize) -> usize {
    tiles::tile_rows(rows)
}

/// Number of slices into which a plan may cut `rows` rows; none where there is only one.
pub fn slices(rows: usize) -> Option<usize> {
    tiles::slices(rows)
}

/// The sum over the tiles of `rows` rows, with one number for each tile, as a sum over rows adds them.
pub fn sum_of_tiles(rows: usize, number: impl Fn(usize) -> f32) -> f32 {
    let tile = tile_rows(rows);
    let numbers: Vec<f32> = (0..rows.div_ceil(tile)).map(number).collect();
    let mut to = [f32::NAN];
    SliceSums::new(tile).sum(rows, 0..numbers.len(), &|p: usize| &numbers[p..p + 1], &mut to);
    to[0]
}

/// For each of 64 numbers a bit: whether it is not below zero.
pub fn not_below_zero(x: &[f32; 64]) -> u64 {
    // SAFETY: the numbers are readable; `dispatch` calls the level of the CPU.
    unsafe { bits(x) }
}

dispatch! {
    unsafe fn bits(x: &[f32; 64]) -> u64 = bits_body;
}

#[inline(always)]
unsafe fn bits_body<L: Level>(x: &[f32; 64]) -> u64 {
    // SAFETY: the caller has the level's instructions.
    unsafe { L::not_below_zero(x) }
}

/// For each of the three `bf16` parts of some numbers a tile of 16 lines by 32 `k`, and whether every number has a
/// finite first part. The numbers are `lines` lines of `data`, `line` elements apart, along `depth` `k`, `k` elements
/// apart. They are packed as a right factor if `pairs`, else as a left factor. None where the machine has no tiles.
///
/// # Panics
/// Where the lines are not in `data`, or are more than 16, or their `k` more than 32.
pub fn parts_of_tiles(
    data: &[f32],
    (line, k): (usize, usize),
    (lines, depth): (usize, usize),
    pairs: bool,
) -> Option<(bool, Vec<[[f32; 32]; 16]>)> {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::kernels::x86::amx::split::{self, Order};

        let order = if pairs { Order::Pairs } else { Order::Lines };
        split::parts_of(data, (line, k), (lines, depth), order)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (data, line, k, lines, depth, pairs);
        None
    }
}

/// For each pair of layouts, those that a kernel has declared for an input and those as which it asks for it: their
/// names, whether it is given the input, and whether the declared ones are among the asked ones.
pub fn inputs_as_declared() -> Vec<(String, bool, bool)> {
    let mut element = 1f32;
    let rows = Rows::scalar(std::ptr::from_mut(&mut element).cast());
    let declared = [
        Reads::Dense,
        Reads::Rows,
        Reads::Runs,
        Reads::Matrix,
        Reads::MatrixOfRuns,
        Reads::RowsOrColumns,
        Reads::DenseLastAxis,
        Reads::Any,
        Reads::Packed,
    ];
    let of = |declared: Reads| {
        let arg = Arg::new(rows, 1, declared);
        let ways: [(Reads, &dyn Fn()); 6] = [
            (Reads::Rows, &|| _ = arg.rows::<f32>()),
            (Reads::Runs, &|| _ = arg.runs::<f32>()),
            (Reads::Matrix, &|| _ = arg.matrix::<f32>()),
            (Reads::RowsOrColumns, &|| _ = arg.rows_or_columns::<f32>()),
            (Reads::Dense, &|| _ = arg.dense::<f32>()),
            (Reads::Packed, &|| _ = arg.packed::<f32>()),
        ];
        ways.map(|(asked, get)| {
            let is_given = catch_unwind(AssertUnwindSafe(get)).is_ok();
            (
                format!("{declared:?} as {asked:?}"),
                is_given,
                declared.are_among(asked),
            )
        })
    };
    declared.into_iter().flat_map(of).collect()
}
