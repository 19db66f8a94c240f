//! Formats of numbers.

use lessen_base::SplitMix64;
use lessen_hardware::rtl::Number;

#[test]
fn codes_mean_what_they_are_encoded_from() {
    for number in [Number::fixed(3, 4).unwrap(), Number::fixed(0, 7).unwrap(), Number::Bf16] {
        for code in 0..=number.mask() {
            let value = number.decode(code);
            // Subnormal numbers are zeros, and every code that is not a number is one of them.
            let again = number.encode(value);
            assert!(
                value.is_nan() || number.decode(again) == value,
                "{number}: {code:x} is {value}"
            );
            assert_eq!(number.of_key(number.key(code)), code, "{number}");
        }
    }
}

#[test]
fn keys_are_in_the_order_of_the_numbers() {
    let mut random = SplitMix64::new(3);
    for number in [Number::fixed(5, 10).unwrap(), Number::Bf16] {
        for _ in 0..20_000 {
            let (a, b) = (random.next_u64() & number.mask(), random.next_u64() & number.mask());
            let (x, y) = (number.decode(a), number.decode(b));
            if x < y {
                assert!(number.key(a) < number.key(b), "seed 3, {number}: {x} and {y}");
            }
        }
    }
}

#[test]
fn numbers_round_to_the_nearest_code() {
    let fixed = Number::fixed(3, 4).unwrap();
    for (value, code) in [
        (0.03, 0),
        (0.032, 1),
        (-0.03, 0),
        (7.97, 0x7f),
        (100.0, 0x7f),
        (-100.0, 0x80),
    ] {
        assert_eq!(fixed.encode(value), code, "{value}");
    }
    // A tie of bf16 goes to the even code, and one that is none only beyond 24 bits does not.
    let tie = 1.0 + 1.0 / 256.0;
    let cases = [
        (tie, 0x3f80),
        (tie + 2f64.powi(-40), 0x3f81),
        (tie + 1.0 / 128.0, 0x3f82),
        (1e-40, 0),
        (1e39, 0x7f80),
    ];
    for (value, code) in cases {
        assert_eq!(Number::Bf16.encode(value), code, "{value}");
    }
}
