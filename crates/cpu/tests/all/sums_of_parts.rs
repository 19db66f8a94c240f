//! Sums of many terms, in runs and in slices of rows.

use lessen_cpu::test_entries::{LEVELS, RUN, slices, sum_in_runs, sum_of, sum_of_ones, sum_of_tiles, tile_rows};

#[test]
fn all_terms_are_added_whatever_their_number() {
    for n in [0, 1, 127, 128, 129, 255, 256, 257, 1000, 128 * 127, 100_001] {
        assert_eq!(sum_in_runs(n, |_| 1.0), n as f32);
        assert_eq!(sum_of((0..n).map(|_| 1.0)), n as f32);
        let last = sum_in_runs(n, |i| if i + 1 == n { 1.0 } else { 0.0 });
        assert_eq!(last, if n == 0 { 0.0 } else { 1.0 });
    }
}

#[test]
fn few_terms_are_added_one_after_another() {
    let term = |i: usize| 1.0 / (i as f32 + 1.5);
    for n in [2, 3, RUN] {
        assert_eq!(sum_in_runs(n, term), (0..n).map(term).fold(0.0, |a, b| a + b));
    }
}

#[test]
fn more_runs_than_levels_pair_are_added_too() {
    let runs = 5 * (1 << (LEVELS - 1)) / 2 + 3;
    assert_eq!(sum_of_ones(runs), runs as f32);
}

#[test]
fn a_million_equal_terms_keep_six_digits() {
    for x in [0.1f32, 0.3, 0.7, 0.9, 1.0 / 3.0] {
        let exact = 1e6 * f64::from(x);
        let error = (f64::from(sum_in_runs(1_000_000, |_| x)) - exact).abs() / exact;
        assert!(error < 2e-6, "{x}: {error:.1e}");
    }
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
        assert_eq!(sum_of_tiles(rows, |_| 1.0), parts as f32, "{rows} rows");
        assert_eq!(
            sum_of_tiles(rows, |p| p as f32),
            (0..parts).sum::<usize>() as f32,
            "{rows} rows"
        );
    }
}

#[test]
fn the_sum_of_slices_of_a_plan_is_the_sum_of_all_rows() {
    let number = |p: usize| 1.0 / (p as f32 + 1.5);
    for rows in [2048, 8192, 16_384, 24_576, 1 << 17, 3 << 18] {
        let count = slices(rows).expect("even slices");
        let of_slice = rows / count / tile_rows(rows);
        let slice = |s: usize| sum_of_tiles(rows / count, |p| number(s * of_slice + p));
        let in_slices = (1..count).fold(slice(0), |sum, s| sum + slice(s));
        assert_eq!(sum_of_tiles(rows, number), in_slices, "{rows} rows in {count} slices");
    }
}

#[test]
fn many_parts_keep_six_digits() {
    for rows in [1_000_000usize, 1 << 20, 999_424] {
        let parts = rows.div_ceil(tile_rows(rows));
        let exact = parts as f64 * f64::from(12.8f32);
        let error = (f64::from(sum_of_tiles(rows, |_| 12.8)) - exact).abs() / exact;
        assert!(error < 2e-6, "{rows} rows: {error:.1e}");
    }
}
