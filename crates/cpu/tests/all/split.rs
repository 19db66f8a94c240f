//! Numbers of `f32` in three parts of `bf16`, as products by AMX read them.

use lessen_cpu::test_entries::parts_of_tiles;

#[test]
fn parts_add_up_to_each_number_and_the_rest_of_a_tile_is_zeros() {
    let number = |i: usize| ((i * 7919 % 1000) as f32 - 500.0) * 1.234_567e-3_f32.powi((i % 5) as i32 - 2);
    let data: Vec<f32> = (0..4000).map(number).collect();
    for (line, k) in [(40, 1), (1, 50), (80, 2)] {
        for (lines, depth) in [(16, 32), (1, 1), (15, 17), (7, 31), (16, 3)] {
            for pairs in [false, true] {
                let Some((finite, parts)) = parts_of_tiles(&data, (line, k), (lines, depth), pairs) else {
                    return;
                };
                assert!(finite);
                for i in 0..16 {
                    for p in 0..32 {
                        let inside = i < lines && p < depth;
                        let expected = if inside { f64::from(data[i * line + p * k]) } else { 0.0 };
                        let sum: f64 = parts.iter().map(|part| f64::from(part[i][p])).sum();
                        let error = (sum - expected).abs();
                        let case = format!("{line} and {k} apart, {lines} x {depth}, pairs {pairs}, at {i}, {p}");
                        assert!(error <= expected.abs() * 2f64.powi(-26), "{case}: error {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn numbers_without_a_finite_part_are_told() {
    for at in [0, 17, 511] {
        for (numbers, finite) in [
            ([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN], false),
            ([0.0, -0.0, 3.38e38, -3.38e38, 1e-45], true),
        ] {
            for number in numbers {
                let mut data = [1.0; 512];
                data[at] = number;
                let Some((found, _)) = parts_of_tiles(&data, (32, 1), (16, 32), true) else {
                    return;
                };
                assert_eq!(found, finite, "{number} at {at}");
            }
        }
    }
}
