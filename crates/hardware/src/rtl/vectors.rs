//! Rows that are fed to units: corners of the formats, random words, and scores as a model has them.

use std::f64::consts::TAU;

use lessen_base::SplitMix64;

use super::number::Number;
use super::unit::{Row, Unit};

/// The distribution of the scores that a unit's power is measured with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scores {
    /// Mean of the first operand.
    pub mean: f64,
    /// Standard deviation of every operand.
    pub deviation: f64,
}

impl Scores {
    /// Scores around zero.
    pub const CENTERED: Scores = Scores {
        mean: 0.0,
        deviation: 2.0,
    };

    /// Sums of score and bias of which 98.9 % are below zero, as FLARE's paper has measured: the sum of two numbers of
    /// deviation 2 is normal with deviation `sqrt 8`, whose quantile for 1.1 % is 2.29 deviations above its mean.
    pub const SPARSE: Scores = Scores {
        mean: -6.477,
        deviation: 2.0,
    };
}

/// A number of the standard normal distribution (Box, Muller 1958).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (TAU * random.unit()).cos()
}

/// A row whose operands are random numbers of a distribution.
pub fn scores(unit: &dyn Unit, random: &mut SplitMix64, length: usize, scores: Scores) -> Row {
    let operand = |(at, number): (usize, Number)| {
        let mean = if at == 0 { scores.mean } else { 0.0 };
        let mut draw = || {
            let code = number.encode(mean + scores.deviation * normal(random));
            unit.admissible(at, code)
        };
        (0..if unit.of_row(at) { 1 } else { length }).map(|_| draw()).collect()
    };
    unit.operands().into_iter().enumerate().map(operand).collect()
}

/// The codes at which formats end or change.
fn corners(number: Number) -> Vec<u64> {
    match number {
        Number::Fixed { .. } => {
            let top = 1 << (number.bits() - 1);
            vec![
                0,
                1,
                number.mask(),
                top,
                top - 1,
                top + 1,
                number.encode(1.0),
                number.encode(-1.0),
            ]
        }
        // Zeros, the ends of subnormal and normal numbers, ones, and neighbours of two.
        Number::Bf16 => vec![
            0, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x3f80, 0xbf80, 0x4000, 0xbfff, 0x7f7f, 0xff7f,
        ],
    }
}

/// A random finite code.
fn word(random: &mut SplitMix64, number: Number) -> u64 {
    loop {
        let code = random.next_u64() & number.mask();
        if number.decode(code).is_finite() {
            return code;
        }
    }
}

/// Rows that check a unit: every pair of corners, constant rows, rows that ascend and descend, masked scores, rows of
/// random words and of scores, of all lengths around a multiple of the lanes.
pub fn check_rows(unit: &dyn Unit, seed: u64, random_rows: usize) -> Vec<Row> {
    let mut random = SplitMix64::named(seed, &unit.name());
    let operands = unit.operands();
    let most = unit.longest().unwrap_or(usize::MAX).min(5 * unit.lanes() + 3);
    let row = |codes: &mut dyn FnMut(usize, Number, usize) -> u64, length: usize| -> Row {
        let operand = |(at, &number): (usize, &Number)| {
            let elements = if unit.of_row(at) { 1 } else { length };
            (0..elements)
                .map(|element| unit.admissible(at, codes(at, number, element)))
                .collect()
        };
        operands.iter().enumerate().map(operand).collect()
    };
    let mut rows = Vec::new();
    let most_corners = operands.iter().map(|&number| corners(number).len()).max().unwrap_or(0);
    for shift in 0..most_corners {
        // Constant rows, and the corners of one operand against those of another.
        rows.push(row(
            &mut |_, number, _| corners(number)[shift % corners(number).len()],
            most,
        ));
        let pairs = &mut |at: usize, number: Number, element: usize| {
            let corners = corners(number);
            corners[(element + at * shift) % corners.len()]
        };
        rows.push(row(pairs, most));
        rows.push(row(pairs, 1));
    }
    let spread = |element: usize, number: Number| {
        let (low, high) = match number {
            Number::Fixed { .. } => number.range(),
            Number::Bf16 => (-20.0, 20.0),
        };
        number.encode(low + (high - low) * element as f64 / most as f64)
    };
    rows.push(row(&mut |_, number, element| spread(element, number), most));
    rows.push(row(&mut |_, number, element| spread(most - 1 - element, number), most));
    if unit.longest().is_some() && operands == [Number::Bf16] {
        // Masked scores among others.
        let masked = &mut |_: usize, number: Number, element: usize| match element % 3 {
            1 => number.encode(f64::NEG_INFINITY),
            _ => spread(element, number),
        };
        rows.push(row(masked, most));
    }
    for at in 0..random_rows {
        let length = 1 + random.below(most as u64) as usize;
        if at % 3 == 0 {
            rows.push(row(&mut |_, number, _| word(&mut random, number), length));
        } else {
            rows.push(scores(unit, &mut random, length, Scores::CENTERED));
        }
    }
    rows
}
