//! Softmax of rows that are streamed several times, `lanes` elements in a cycle; with a temperature, NormSoftmax.
//!
//! The row stays in the accelerator's memory; the unit holds the maximum, the sum and its reciprocal. In two-pass order
//! the row is read three times: for the maximum, for the sum of exponentials, and for the results. In online order
//! (Milakov, Gimelshein 2018) it is read twice: maximum and sum grow together, and the sum is rescaled whenever the
//! maximum grows. Between sum and results there are [`SUM_GAP`] cycles for the reciprocal.

mod text;

use lessen_base::{Error, Result};

use super::definition::Definition;
use super::exponent::Exponent;
use super::norm_softmax::{Statistics, Temperature};
use super::number::{Number, round_bf16};
use super::reciprocal;
use super::unit::{Cycle, Exact, Port, Row, Unit, Word, check_lanes, push_lanes};
use super::verilog::fixed_of_bf16;

/// How maximum and sum of a row are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The maximum of the whole row, then the sum.
    TwoPass,
    /// Both at once.
    Online,
}

/// The passes over a row, as the port `pass` names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// The maximum; in online order the sum too; in NormSoftmax the deviation too.
    Maximum = 0,
    /// The sum of exponentials.
    Sum = 1,
    /// The results.
    Results = 2,
}

/// Cycles without a pass between the sum and the results.
pub const SUM_GAP: usize = reciprocal::LATENCY + 1;

/// Longest row of a unit.
pub const LONGEST: usize = 1 << 16;

/// Width of a scaled distance and its bits after the point, where it is not the difference of two fixed-point numbers.
pub(super) const SCALED: (u32, u32) = (17, 12);

/// A softmax unit.
#[derive(Clone, PartialEq, Debug)]
pub struct Softmax {
    pub(super) number: Number,
    pub(super) lanes: usize,
    pub(super) length: usize,
    pub(super) order: Order,
    pub(super) exponent: Exponent,
    pub(super) temperature: Option<Temperature>,
}

impl Softmax {
    /// A unit for rows of up to `length` elements. Fixed-point results have one bit before the point and no sign.
    ///
    /// # Errors
    /// If the numbers of lanes or elements are out of range, or the format has more than 16 bits or none after the
    /// point.
    pub fn new(number: Number, lanes: usize, length: usize, order: Order, exponent: Exponent) -> Result<Softmax> {
        check_lanes(lanes)?;
        if !(1..=LONGEST).contains(&length) {
            return Err(Error::user(format!(
                "softmax units take rows of 1 to {LONGEST} elements, not {length}"
            )));
        }
        let narrow = match number {
            Number::Bf16 => true,
            Number::Fixed { fraction, .. } => (4..=16).contains(&number.bits()) && (1..=14).contains(&fraction),
        };
        if !narrow {
            return Err(Error::user(format!(
                "softmax units take 4 to 16 bits with 1 to 14 after the point, or bf16, not {number}"
            )));
        }
        Ok(Softmax {
            number,
            lanes,
            length,
            order,
            exponent,
            temperature: None,
        })
    }

    /// NormSoftmax: scores are divided by `min(sigma, gamma)`, sigma being the row's deviation and at least 0.001.
    ///
    /// # Errors
    /// As [`Softmax::new`]; if gamma is outside of 0.001 to 1000; for bf16, whose sums of squares need an accumulator
    /// of another format.
    pub fn normalized(number: Number, lanes: usize, length: usize, exponent: Exponent, gamma: f64) -> Result<Softmax> {
        let mut unit = Softmax::new(number, lanes, length, Order::TwoPass, exponent)?;
        unit.temperature = Some(Temperature::new(number, gamma)?);
        Ok(unit)
    }

    /// Width of the sum of a row's exponentials.
    pub(super) fn sum_bits(&self) -> u32 {
        16 + self.length.next_power_of_two().ilog2()
    }

    /// Width of the exponential's argument, and its bits after the point.
    pub(super) fn argument(&self) -> (u32, u32) {
        match (self.number, &self.temperature) {
            (Number::Fixed { fraction, .. }, None) => (self.number.bits(), fraction),
            _ => SCALED,
        }
    }

    /// The statistics of rows, which only NormSoftmax has.
    pub(super) fn statistics(&self) -> Option<Statistics> {
        let temperature = self.temperature.as_ref()?;
        Some(Statistics::new(temperature, self.number, self.lanes, self.length))
    }

    /// The argument of the exponential of an element with `key`, where the maximum has the key `top`.
    fn distance(&self, top: u64, key: u64, factor: u64) -> u64 {
        let number = self.number;
        match (number, &self.temperature) {
            (Number::Bf16, _) => {
                let rounded = round_bf16(number.decode(number.of_key(top)) - number.decode(number.of_key(key)));
                fixed_of_bf16(number.decode(rounded).abs(), SCALED.0, SCALED.1)
            }
            (Number::Fixed { .. }, None) => top - key,
            (Number::Fixed { fraction, .. }, Some(_)) => (((top - key) * factor) >> fraction).min((1 << SCALED.0) - 1),
        }
    }

    /// The maximum's key, the factor of NormSoftmax and the sum of a row's exponentials.
    fn reduce(&self, row: &[u64]) -> (u64, u64, u64) {
        let keys: Vec<u64> = row.iter().map(|&code| self.number.key(code)).collect();
        let (_, fraction) = self.argument();
        let exp = |top: u64, key: u64, factor: u64| self.exponent.compute(self.distance(top, key, factor), fraction);
        let factor = match &self.temperature {
            Some(temperature) => {
                let codes: Vec<i64> = row.iter().map(|&code| self.number.signed(code)).collect();
                temperature.factor(&codes)
            }
            None => 0,
        };
        match self.order {
            Order::TwoPass => {
                let top = keys.iter().copied().max().unwrap_or(0);
                (top, factor, keys.iter().map(|&key| exp(top, key, factor)).sum())
            }
            Order::Online => {
                let (mut top, mut sum) = (0, 0);
                for (at, beat) in keys.chunks(self.lanes).enumerate() {
                    let before = top;
                    let highest = beat.iter().copied().max().unwrap_or(0);
                    top = if at == 0 { highest } else { highest.max(before) };
                    let part: u64 = beat.iter().map(|&key| exp(top, key, factor)).sum();
                    sum = match at {
                        0 => part,
                        _ => ((sum * exp(top, before, factor) + (1 << 14)) >> 15) + part,
                    };
                }
                (top, factor, sum)
            }
        }
    }

    /// The bounds of results: relative errors of an exponential and of the sum, and what is rounded once.
    fn bounds(&self, values: &[f64]) -> Vec<f64> {
        let (_, fraction) = self.argument();
        let greatest = values.iter().copied().fold(0.0, f64::max);
        let beats = values.len().div_ceil(self.lanes) as f64;
        // A scaled distance is wrong by a part of itself, and by one unit where it is truncated.
        let (part, unit) = match (self.number, &self.temperature) {
            (Number::Bf16, _) => (1.0 / 512.0, 1.0 / 4096.0),
            (_, Some(temperature)) => (temperature.relative_error(), 1.0 / 4096.0),
            _ => (0.0, 0.0),
        };
        let wrong = |value: f64| match value {
            0.0 => 0.0,
            _ => (greatest / value).ln() * part + unit,
        };
        let mean: f64 = values.iter().map(|&value| value * wrong(value)).sum();
        let exponential = self.exponent.relative_error(fraction);
        // Each growth of the maximum rescales the sum by an exponential once more.
        let rescaled = match self.order {
            Order::TwoPass => 0.0,
            Order::Online => beats * (exponential + unit + 1.0 / 32768.0),
        };
        let sum = exponential + mean + rescaled + values.len() as f64 / 65536.0 + 1.0 / 16384.0;
        let rounded = |value: f64| match self.number {
            Number::Bf16 => value / 256.0,
            Number::Fixed { .. } => 0.5 / (1u64 << (self.number.bits() - 1)) as f64,
        };
        let bound = |&value: &f64| {
            let relative = (1.0 + exponential + wrong(value)) * (1.0 + sum) - 1.0;
            // Beyond small errors the product of both says too little; the fraction cannot be wrong by more than one.
            (value * relative * (1.0 + relative) + 1.0 / 65536.0 + rounded(value)).min(1.0)
        };
        values.iter().map(bound).collect()
    }

    /// The passes of a row, each with the idle cycles after it.
    fn passes(&self) -> Vec<(Pass, usize)> {
        let statistics = self.statistics().map_or(0, |statistics| statistics.gap());
        match self.order {
            Order::TwoPass => vec![(Pass::Maximum, statistics), (Pass::Sum, SUM_GAP), (Pass::Results, 0)],
            Order::Online => vec![(Pass::Maximum, SUM_GAP), (Pass::Results, 0)],
        }
    }
}

impl Unit for Softmax {
    fn name(&self) -> String {
        let order = match (&self.temperature, self.order) {
            (Some(temperature), _) => format!("norm_softmax_{temperature}"),
            (None, Order::TwoPass) => "softmax_two_pass".to_string(),
            (None, Order::Online) => "softmax_online".to_string(),
        };
        let exponent = self.exponent.name();
        format!("{order}_{exponent}_{}_x{}_l{}", self.number, self.lanes, self.length)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn operands(&self) -> Vec<Number> {
        vec![self.number]
    }

    /// Fixed-point results have all bits but one after the point.
    fn result(&self) -> Number {
        match self.number {
            Number::Bf16 => Number::Bf16,
            // The sign bit of this format stays zero but for a one, so results are read without a sign.
            Number::Fixed { .. } => Number::Fixed {
                integer: 1,
                fraction: self.number.bits() - 1,
            },
        }
    }

    fn longest(&self) -> Option<usize> {
        Some(self.length)
    }

    fn inputs(&self) -> Vec<Port> {
        vec![
            Port::new("x", self.lanes * self.number.bits() as usize),
            Port::new("keep", self.lanes),
            Port::new("pass", 2),
            Port::new("first", 1),
            Port::new("last", 1),
        ]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("y", self.lanes * self.number.bits() as usize)]
    }

    fn verilog(&self) -> String {
        text::verilog(self)
    }

    fn compute(&self, row: &Row) -> Vec<u64> {
        let (top, factor, sum) = self.reduce(&row[0]);
        let (_, fraction) = self.argument();
        let reciprocal = reciprocal::compute(sum);
        let result = |&code: &u64| {
            let distance = self.distance(top, self.number.key(code), factor);
            let product = self.exponent.compute(distance, fraction) * reciprocal.factor;
            match self.number {
                Number::Bf16 => round_bf16(product as f64 / 2f64.powi(31 + reciprocal.extra as i32)),
                Number::Fixed { .. } => ((product >> (31 - self.number.bits() + reciprocal.extra)) + 1) >> 1,
            }
        };
        row[0].iter().map(result).collect()
    }

    fn exact(&self, row: &Row) -> Result<Exact> {
        let scores = self.numbers(row, 0);
        let scores = match &self.temperature {
            Some(temperature) => temperature.normalized(&scores),
            None => scores,
        };
        let values = Definition::Softmax.evaluate(&[&scores])?;
        let bounds = self.bounds(&values);
        Ok(Exact { values, bounds })
    }

    fn feed(&self, row: &Row) -> Vec<Cycle> {
        let results = self.compute(row);
        let beats = results.len().div_ceil(self.lanes);
        let mut cycles = Vec::new();
        for (pass, gap) in self.passes() {
            for beat in 0..beats {
                let mut input = Word::default();
                push_lanes(&mut input, &row[0], beat, self.lanes, self.number);
                for lane in 0..self.lanes {
                    input.push(u64::from(beat * self.lanes + lane < results.len()), 1);
                }
                input.push(pass as u64, 2);
                input.push(u64::from(beat == 0), 1);
                input.push(u64::from(beat + 1 == beats), 1);
                let mut output = Word::default();
                for lane in 0..self.lanes {
                    let code = results.get(beat * self.lanes + lane).copied().unwrap_or(0);
                    output.push(code, self.number.bits());
                }
                cycles.push(Cycle {
                    input: Some(input),
                    output: (pass == Pass::Results).then_some(output),
                });
            }
            cycles.extend(std::iter::repeat_n(Cycle::IDLE, gap));
        }
        cycles
    }
}
