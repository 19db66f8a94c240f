//! Sums of many terms with the error of few: runs of at most [`RUN`] terms are added up one after another, and the sums
//! of runs in pairs (Higham 1993, The accuracy of floating point summation). The order depends on the number of terms
//! alone.

use std::mem::MaybeUninit;

/// Terms that are added up one after another.
pub(crate) const RUN: usize = 128;

/// Levels of pairs; more runs than these hold are added up one after another at the highest.
pub(crate) const LEVELS: usize = 16;

/// The sums of `K` times `W` lanes: at each level the sums of runs that could not yet be paired.
pub(crate) struct Pairwise<const K: usize, const W: usize> {
    /// Level `i` is written where bit `i` of the number of runs is set, the highest where any bit from its own on is.
    levels: [MaybeUninit<[[f32; W]; K]>; LEVELS],
    runs: usize,
}

impl<const K: usize, const W: usize> Pairwise<K, W> {
    pub(crate) fn new() -> Pairwise<K, W> {
        Pairwise {
            levels: [const { MaybeUninit::uninit() }; LEVELS],
            runs: 0,
        }
    }

    /// The sums of a level, if it has some.
    #[inline(always)]
    fn level(&self, level: usize) -> Option<&[[f32; W]; K]> {
        let runs = self.runs >> level;
        let is_written = if level + 1 < LEVELS { runs & 1 == 1 } else { runs > 0 };
        // SAFETY: `add` has written the level.
        is_written.then(|| unsafe { self.levels[level].assume_init_ref() })
    }

    /// Adds the sums of a run.
    #[inline(always)]
    pub(crate) fn add(&mut self, run: &[[f32; W]; K]) {
        let mut sums = *run;
        let mut level = 0;
        while let Some(others) = self.level(level) {
            add_to(&mut sums, others);
            if level + 1 == LEVELS {
                break;
            }
            level += 1;
        }
        self.levels[level].write(sums);
        self.runs += 1;
    }

    /// The sums of all runs.
    #[inline(never)]
    pub(crate) fn total(&self) -> [[f32; W]; K] {
        let mut levels = (0..LEVELS).filter_map(|level| self.level(level));
        let mut sums = levels.next().copied().unwrap_or([[0.0; W]; K]);
        levels.for_each(|others| add_to(&mut sums, others));
        sums
    }
}

#[inline(always)]
fn add_to<const K: usize, const W: usize>(sums: &mut [[f32; W]; K], others: &[[f32; W]; K]) {
    for k in 0..K {
        for i in 0..W {
            sums[k][i] += others[k][i];
        }
    }
}

/// The sum of numbers.
pub(crate) fn sum_of(numbers: impl Iterator<Item = f32>) -> f32 {
    let mut all = Pairwise::<1, 1>::new();
    let (mut run, mut terms) = (0.0, 0);
    for x in numbers {
        if terms == RUN {
            all.add(&[[run]]);
            (run, terms) = (0.0, 0);
        }
        run += x;
        terms += 1;
    }
    all.add(&[[run]]);
    all.total()[0][0]
}

/// The sums of `$n` terms. The block sums up one run of the terms, `$run`, to `[[f32; W]; K]`; a run has `$length`
/// terms.
macro_rules! in_runs {
    ($n:expr, $length:expr, |$run:ident| $sums:block) => {{
        let (count, length): (usize, usize) = ($n, $length);
        let mut first = 0;
        let mut all = None;
        loop {
            let end = count.min(first + length);
            let $run = first..end;
            let sums = $sums;
            if first == 0 && end == count {
                break sums;
            }
            let all = all.get_or_insert_with($crate::kernels::sums::pairwise::Pairwise::new);
            all.add(&sums);
            if end == count {
                break all.total();
            }
            first = end;
        }
    }};
}
pub(crate) use in_runs;

/// `$k` sums of a row of `$c` elements in lanes: the block adds elements `$j..$j + $len` to `$sums`.
macro_rules! sums_of_row {
    ($c:expr, |$j:ident, $len:ident, $sums:ident: $k:literal| $block:block) => {{
        let columns: usize = $c;
        let chunks = columns.div_ceil($crate::simd::LANES);
        $crate::kernels::sums::pairwise::in_runs!(chunks, $crate::kernels::sums::pairwise::RUN, |run| {
            let from = run.start * $crate::simd::LANES;
            let of_run = columns.min(run.end * $crate::simd::LANES) - from;
            let mut $sums = [[0.0f32; $crate::simd::LANES]; $k];
            $crate::simd::chunks!(of_run, |at, $len| {
                let $j = from + at;
                $block
            });
            $sums
        })
    }};
}
pub(crate) use sums_of_row;
