//! Rows in 8 bits, against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::codes::quantize::{dequantize_rows, quantize_rows};
use lessen_cpu::kernels::elementwise::cast::{Bf16, Float};
use lessen_graph::ops::{DequantizeRows, QuantizeRows};
use lessen_graph::{Array, DType, Type, evaluate_op};

/// How far from a tie the rounding of `x / scale` in `f32` and in `f64` can differ.
const TIE: f64 = 4e-5;

/// Results of the kernels on a block: codes, scales and restored numbers. Gaps stay as they were.
struct Found {
    codes: Vec<u8>,
    scales: Vec<f32>,
    y: Vec<f32>,
}

impl Found {
    fn of<X: Float>(x: &mut Block<X>, lie: Lie) -> Found {
        let (n, c) = (x.n, x.c);
        let mut codes = Block::new(n, c, lie, || 7u8);
        let mut y = Block::new(n, c, lie, || 9f32);
        let (codes_before, y_before) = (codes.clone(), y.clone());
        let mut scales = vec![5f32; n + 1];
        // SAFETY: the blocks have these sizes.
        unsafe {
            quantize_rows(n, c, x.rows(), codes.rows(), scales.as_mut_ptr());
            dequantize_rows(n, c, codes.rows(), scales.as_ptr(), y.rows());
        }
        assert!(
            codes.same_gaps(&codes_before) && y.same_gaps(&y_before),
            "{n}x{c} {lie:?}"
        );
        assert_eq!(scales.pop(), Some(5.0), "{n}x{c} {lie:?}");
        Found {
            codes: codes.values(),
            scales,
            y: y.values(),
        }
    }

    fn bits(&self) -> Vec<u32> {
        let floats = self.scales.iter().chain(&self.y).map(|x| x.to_bits());
        self.codes.iter().map(|&code| code.into()).chain(floats).collect()
    }
}

/// Asserts that rows of `c` finite numbers became the results of the reference, but for ties.
fn check(what: &str, c: usize, x: &[f32], found: &Found) {
    let n = found.scales.len();
    let array = |x: &[f32]| Array::f32(&[x.len() / c, c], x.iter().map(|&x| x.into()).collect());
    let expected = evaluate_op(&QuantizeRows, &[&array(x)]).unwrap();
    assert_eq!(found.scales, rounded(&expected[1]), "{what}: scales");
    let scales = Array::f32(&[n], found.scales.iter().map(|&s| s.into()).collect());
    let codes = found.codes.iter().map(|&code| code.into()).collect();
    let codes = Array::new(Type::new(DType::U8, &[n, c]), codes);
    for (i, (&code, &x)) in codes.data.iter().zip(x).enumerate() {
        let (scale, x, y) = (scales.data[i / c], f64::from(x), f64::from(found.y[i]));
        if scale == 0.0 {
            assert_eq!((code, y), (128.0, 0.0), "{what}: element {i}, {x}");
            continue;
        }
        let off = (x / scale - (code - 128.0)).abs();
        assert!(
            off <= 0.5 + TIE && code >= 1.0,
            "{what}: the code of element {i}, {x}, is {code}"
        );
        let error = (y - x).abs();
        let allowed = QuantizeRows::ERROR * 127.0 * scale;
        assert!(error <= allowed, "{what}: element {i}, {x}, is off by {error}");
    }
    let y = &evaluate_op(&DequantizeRows, &[&codes, &scales]).unwrap()[0];
    assert_eq!(found.y, rounded(y), "{what}: restored numbers");
}

/// The nearest `f32` numbers.
fn rounded(array: &Array) -> Vec<f32> {
    array.data.iter().map(|&x| x as f32).collect()
}

#[test]
fn rows_of_all_sizes_and_strides_are_near_the_reference() {
    let seed = 8;
    let random = std::cell::RefCell::new(Random::new(seed));
    at_all_levels(|level| {
        let random = &mut *random.borrow_mut();
        let mut sizes = SIZES.to_vec();
        sizes.extend((0..12).map(|_| (1 + random.below(7), 1 + random.below(400))));
        for (n, c) in sizes {
            for x_lie in [&WRITABLE[..], &[Lie::Column, Lie::RowVector]].concat() {
                let scale = 10f32.powi(random.below(60) as i32 - 30);
                let mut x = random_block(random, n, c, x_lie, scale);
                for lie in [Lie::Dense, Lie::Padded] {
                    let what = format!("seed {seed}, {level:?}, {n}x{c} {x_lie:?} {lie:?} {scale}");
                    let found = Found::of(&mut x, lie);
                    check(&what, c, &x.values(), &found);
                }
            }
        }
    });
}

#[test]
fn bf16_rows_are_those_of_the_same_numbers_in_f32() {
    at_all_levels(|_| {
        let seed = 9;
        let mut random = Random::new(seed);
        for (n, c) in SIZES {
            let mut narrow = Block::new(n, c, Lie::Padded, || Bf16((random.unit_f32().to_bits() >> 16) as u16));
            let numbers: Vec<f32> = narrow
                .values()
                .iter()
                .map(|x| f32::from_bits(u32::from(x.0) << 16))
                .collect();
            let mut next = numbers.iter().copied().chain(std::iter::repeat(0.0));
            let mut wide = Block::new(n, c, Lie::Dense, || next.next().unwrap());
            let (narrow, wide) = (Found::of(&mut narrow, Lie::Dense), Found::of(&mut wide, Lie::Dense));
            assert_eq!(narrow.bits(), wide.bits(), "seed {seed}, {n}x{c}");
        }
    });
}

#[test]
fn all_levels_give_the_same_bits_for_numbers_of_every_kind() {
    let seed = 10;
    let results = std::cell::RefCell::new(Vec::new());
    at_all_levels(|_| {
        let mut random = Random::new(seed);
        let mut all = Vec::new();
        for c in [1, 3, 30, 64, 101] {
            let mut any = Block::new(40, c, Lie::Dense, || f32::from_bits(random.number() as u32));
            all.extend(Found::of(&mut any, Lie::Dense).bits());
            let mut ends = Block::new(40, c, Lie::Dense, || random.pick(&EXTREMES));
            all.extend(Found::of(&mut ends, Lie::Dense).bits());
            let mut ties = Block::new(40, c, Lie::Dense, || (random.below(509) as f32 - 254.0) / 2.0);
            all.extend(Found::of(&mut ties, Lie::Dense).bits());
        }
        results.borrow_mut().push(all);
    });
    assert!(
        results.borrow().windows(2).all(|pair| pair[0] == pair[1]),
        "seed {seed}"
    );
}

#[test]
fn ties_go_to_even_codes() {
    at_all_levels(|_| {
        let numbers = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5, 125.5, -0.0];
        let mut next = numbers.into_iter().cycle();
        let mut x = Block::new(1, 9, Lie::Dense, || next.next().unwrap());
        let found = Found::of(&mut x, Lie::Dense);
        assert_eq!(found.codes, [255, 128, 130, 130, 128, 126, 2, 254, 128]);
        assert_eq!(found.scales, [1.0]);
    });
}

#[test]
fn a_row_with_a_number_that_is_not_finite_is_restored_as_nan_and_no_other() {
    at_all_levels(|_| {
        for c in [1, 7, 70, 200] {
            for (place, bad) in [
                (0, f32::NAN),
                (c / 2, f32::INFINITY),
                (c - 1, f32::NEG_INFINITY),
                (c - 1, -f32::NAN),
            ] {
                let mut x = Block::new(3, c, Lie::Dense, || -2.0f32);
                x.data[c + place] = bad;
                let found = Found::of(&mut x, Lie::Dense);
                let is_nan = found.y.iter().map(|y| y.is_nan());
                assert!(is_nan.eq((0..3 * c).map(|i| i / c == 1)), "{c} {place} {bad}");
                assert_eq!(found.scales[1].is_nan(), bad.is_nan(), "{c} {place} {bad}");
                assert!(
                    found.codes[c..2 * c].iter().all(|&code| code == 128),
                    "{c} {place} {bad}"
                );
            }
        }
    });
}

#[test]
fn the_largest_numbers_stay_finite_and_the_smallest_count_as_zeros() {
    at_all_levels(|_| {
        for largest in [
            f32::MAX,
            f32::MAX.next_down(),
            2e-36,
            1.4e-36,
            f32::MIN_POSITIVE,
            1e-45,
            0.0,
        ] {
            let mut next = [largest, -largest, largest / 3.0].into_iter().cycle();
            let mut x = Block::new(1, 3, Lie::Dense, || next.next().unwrap());
            let found = Found::of(&mut x, Lie::Dense);
            check(&largest.to_string(), 3, &x.values(), &found);
            assert!(found.y.iter().all(|y| y.is_finite()), "{largest}: {:?}", found.y);
            assert_eq!(found.y[0] > 0.0, largest > 127.0 * f32::MIN_POSITIVE, "{largest}");
        }
    });
}
