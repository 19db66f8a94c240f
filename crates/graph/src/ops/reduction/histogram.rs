//! Histogram over bins of a signed logarithmic scale, which suits values of any range without knowing it.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::Op;
use crate::ops::rules::{arity, float};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// The number of elements in each bin, `f32[bins]`, of a float tensor of any shape.
///
/// The octave from `2^e` to `2^(e+1)`, for each `e` from `least` up to and excluding `most`, has `parts` bins of equal
/// width; so has its mirror image below zero. Numbers whose magnitude is below `2^least` and not 0 have a bin for each
/// sign, and so have numbers whose magnitude is at least `2^most`, infinity included; 0 has a bin of its own. NaN is in
/// no bin. A positive bin contains its lower edge, a negative one its upper edge. Counts are exact up to 2^24.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// Exponent of the lowest octave, at least -126.
    pub least: i64,
    /// Exponent that the highest octave ends at, at most 127.
    pub most: i64,
    /// Bins of an octave: a power of two, at most 1024.
    pub parts: usize,
}

named!("histogram": Histogram { least, most, parts });

impl Histogram {
    /// Bins from about 1e-6 to 65,536, four in each octave.
    pub const STANDARD: Histogram = Histogram {
        least: -20,
        most: 16,
        parts: 4,
    };

    /// Bins of one sign.
    fn magnitudes(&self) -> usize {
        2 + (self.most - self.least) as usize * self.parts
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        2 * self.magnitudes() + 1
    }

    /// The edges of the bins, ascending from -inf to inf: bin `i` lies between edges `i` and `i + 1`. Both edges of the
    /// bin of 0 are 0.
    pub fn edges(&self) -> Vec<f64> {
        let inner = self.magnitudes() - 2;
        let edge = |i: usize| {
            let octave = 2f64.powi((self.least + (i / self.parts) as i64) as i32);
            octave * (1.0 + (i % self.parts) as f64 / self.parts as f64)
        };
        let positive: Vec<f64> = (0..=inner).map(edge).collect();
        let mut edges = vec![f64::NEG_INFINITY];
        edges.extend(positive.iter().rev().map(|edge| -edge));
        edges.extend([0.0, 0.0]);
        edges.extend(&positive);
        edges.push(f64::INFINITY);
        edges
    }

    /// The bin of a number; none for NaN.
    fn bin(&self, x: f64) -> Option<usize> {
        let zero = self.magnitudes();
        if x.is_nan() {
            return None;
        }
        if x == 0.0 {
            return Some(zero);
        }
        let size = x.abs();
        let magnitude = if size < 2f64.powi(self.least as i32) {
            0
        } else if size >= 2f64.powi(self.most as i32) {
            zero - 1
        } else {
            let exponent = (size.to_bits() >> 52) as i64 - 1023;
            let part = (size / 2f64.powi(exponent as i32) - 1.0) * self.parts as f64;
            1 + (exponent - self.least) as usize * self.parts + part as usize
        };
        Some(if x > 0.0 {
            zero + 1 + magnitude
        } else {
            zero - 1 - magnitude
        })
    }
}

impl Op for Histogram {
    named!();

    facts! {
        no_derivative;
        rows(Rows => Sum);
        flops(4.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        float(&inputs[0])?;
        let Histogram { least, most, parts } = *self;
        if least < -126 || least >= most || most > 127 {
            return Err(Error::user(format!(
                "the octaves from 2^{least} to 2^{most} are not ascending between 2^-126 and 2^127"
            )));
        }
        if !parts.is_power_of_two() || parts > 1024 {
            return Err(Error::user(format!(
                "{parts} bins of an octave are no power of two up to 1024"
            )));
        }
        Ok(vec![Type::new(DType::F32, &[self.bins()])])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut counts = Array::full(outputs[0].clone(), 0.0);
        for bin in inputs[0].data.iter().filter_map(|&x| self.bin(x)) {
            counts.data[bin] += 1.0;
        }
        vec![counts]
    }
}

impl Tensor {
    /// The number of elements in each bin of [`Histogram::STANDARD`].
    #[track_caller]
    pub fn histogram(self) -> Tensor {
        self.trace().apply1(Histogram::STANDARD, &[self])
    }
}
