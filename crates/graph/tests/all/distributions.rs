//! Random numbers of distributions: ranges, moments, other numbers at every call.

use std::collections::HashMap;

use lessen_graph::{Array, DType, Tensor, Trace, TraceRef, Type, evaluate};

const COUNT: usize = 40_000;

/// What a function makes of a key.
fn drawn(make: impl Fn(TraceRef, Tensor) -> Vec<Tensor>) -> Vec<Array> {
    let trace = Trace::new();
    let key = trace.input("key", DType::U32, &[2]);
    let made = make(*trace, key);
    for (i, tensor) in made.iter().enumerate() {
        trace.output(&i.to_string(), *tensor);
    }
    let key = Array::new(Type::new(DType::U32, &[2]), vec![17.0, 4_000_000_000.0]);
    let mut found = evaluate(&trace.finish(), &HashMap::from([("key".to_string(), key)])).unwrap();
    (0..made.len()).map(|i| found.remove(&i.to_string()).unwrap()).collect()
}

/// The means of the first four powers.
fn moments(numbers: &[f64]) -> [f64; 4] {
    [1, 2, 3, 4].map(|power| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / numbers.len() as f64)
}

/// Asserts that means of powers are within five standard errors of these, which are exact.
#[track_caller]
fn assert_moments(numbers: &[f64], expected: [f64; 4], deviations: [f64; 4]) {
    let found = moments(numbers);
    for (k, ((found, expected), deviation)) in found.into_iter().zip(expected).zip(deviations).enumerate() {
        let bound = 5.0 * deviation / (numbers.len() as f64).sqrt();
        assert!(
            (found - expected).abs() < bound,
            "moment {}: {found} for {expected}",
            k + 1
        );
    }
}

/// The correlation of numbers with those `apart` places later.
fn correlation(numbers: &[f64], apart: usize) -> f64 {
    let [mean, square, ..] = moments(numbers);
    let products = numbers
        .iter()
        .zip(&numbers[apart..])
        .map(|(a, b)| (a - mean) * (b - mean));
    products.sum::<f64>() / (numbers.len() - apart) as f64 / (square - mean * mean)
}

#[test]
fn uniform_numbers_are_multiples_of_a_step_in_their_range() {
    let drawn = drawn(|_, key| vec![key.uniform(&[4, COUNT / 4])]);
    assert_eq!(drawn[0].ty, Type::f32(&[4, COUNT / 4]));
    let numbers = &drawn[0].data;
    for x in numbers {
        assert!((0.0..1.0).contains(x) && (x * 16777216.0).fract() == 0.0, "{x}");
    }
    let deviation = |power: f64| (1.0 / (2.0 * power + 1.0) - 1.0 / (power + 1.0).powi(2)).sqrt();
    let deviations = [1.0, 2.0, 3.0, 4.0].map(deviation);
    assert_moments(numbers, [1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0, 1.0 / 5.0], deviations);
    let least = numbers.iter().copied().fold(1.0, f64::min);
    let most = numbers.iter().copied().fold(0.0, f64::max);
    assert!(least < 1e-3 && most > 1.0 - 1e-3, "{least} to {most}");
    assert!(correlation(numbers, 1).abs() < 0.025);
}

#[test]
fn normal_numbers_have_the_moments_of_a_normal_distribution() {
    // An odd number of them, of which the last pair gives one.
    let drawn = drawn(|_, key| vec![key.normal(&[COUNT + 1])]);
    let numbers = &drawn[0].data;
    assert_eq!(drawn[0].ty, Type::f32(&[COUNT + 1]));
    // The variances of the powers: 1, 2, 15 and 105 - 9.
    let deviations = [1.0, 2f64.sqrt(), 15f64.sqrt(), 96f64.sqrt()];
    assert_moments(numbers, [0.0, 1.0, 0.0, 3.0], deviations);
    let beyond = |limit: f64| numbers.iter().filter(|x| x.abs() > limit).count() as f64 / numbers.len() as f64;
    for (limit, share) in [(0.5, 0.6171), (1.0, 0.3173), (2.0, 0.0455), (3.0, 0.0027)] {
        let bound = 5.0 * (share * (1.0 - share) / COUNT as f64).sqrt();
        assert!(
            (beyond(limit) - share).abs() < bound,
            "beyond {limit}: {}",
            beyond(limit)
        );
    }
    // The halves of a pair are made of the same two words.
    for apart in [1, COUNT / 2, COUNT / 2 + 1] {
        let found = correlation(numbers, apart);
        assert!(found.abs() < 0.035, "{apart} apart: {found}");
    }
}

#[test]
fn truth_values_have_their_probability() {
    let all = [0.0, 0.25, 1.0];
    let drawn = drawn(|_, key| all.map(|p| key.bernoulli(&[2, COUNT / 2], p)).to_vec());
    for (found, p) in drawn.iter().zip(all) {
        assert_eq!(found.ty, Type::new(DType::Bool, &[2, COUNT / 2]));
        let share = moments(&found.data)[0];
        assert!(
            (share - p).abs() <= 5.0 * (p * (1.0 - p) / COUNT as f64).sqrt(),
            "{share} for {p}"
        );
    }
}

#[test]
fn every_call_draws_other_numbers_and_the_streams_of_dropout_stay() {
    let drawn = drawn(|trace, key| {
        let ones = trace.full(DType::F32, &[64], 1.0);
        let before = ones.dropout(0.5, key);
        let own = [
            key.uniform(&[64]),
            key.uniform(&[64]),
            key.normal(&[64]),
            key.normal(&[64]),
        ];
        [vec![before], own.to_vec(), vec![ones.dropout(0.5, key)]].concat()
    });
    for i in 0..drawn.len() {
        for j in 0..i {
            assert_ne!(drawn[i].data, drawn[j].data, "draws {j} and {i}");
        }
    }
    // The streams are 0 and 5: each call takes one.
    for (found, stream) in [(&drawn[0], 0), (&drawn[5], 5)] {
        let keeps = |i: u64| lessen_graph::philox::dropout_keeps([17, 4_000_000_000], stream, i, 32768);
        let expected: Vec<f64> = (0..64).map(|i| if keeps(i) { 2.0 } else { 0.0 }).collect();
        assert_eq!(found.data, expected);
    }
}

#[test]
fn shapes_without_elements_and_scalars_are_drawn() {
    let drawn = drawn(|_, key| {
        let empty = [key.normal(&[0, 3]), key.uniform(&[0]), key.normal(&[])];
        empty.to_vec()
    });
    assert_eq!(drawn[0].ty, Type::f32(&[0, 3]));
    assert_eq!(drawn[1].ty, Type::f32(&[0]));
    assert!(drawn[2].ty == Type::f32(&[]) && drawn[2].item().is_finite());
}
