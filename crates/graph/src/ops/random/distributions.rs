//! Random numbers of distributions, made of random bits.

use std::f64::consts::TAU;

use crate::ops::shape::concat::concat;
use crate::size::checked_numel;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `2^32`, the number of words of 32 bits.
const WORDS: f64 = 4294967296.0;

impl Tensor {
    /// Numbers `f32` of a shape from this key `u32[2]`, uniform in `[0, 1)`: multiples of `2^-24`, all of them equally
    /// likely. Other ones at every call within a trace.
    ///
    /// # Panics
    /// If this is no key, or the size of the shape cannot be counted.
    #[track_caller]
    pub fn uniform(self, shape: &[usize]) -> Tensor {
        self.random_bits(shape).to_signed_unit() + 0.5
    }

    /// Numbers `f32` of a shape from this key `u32[2]`, normal with mean 0 and deviation 1, by the method of Box and
    /// Muller (1958); at most 6.8 from 0. Other ones at every call within a trace.
    ///
    /// # Panics
    /// If this is no key, or the size of the shape cannot be counted.
    #[track_caller]
    pub fn normal(self, shape: &[usize]) -> Tensor {
        let ty = Type::new(DType::F32, shape);
        // Two numbers are made of two words.
        let pairs = checked_numel(shape).map(|n| n.div_ceil(2));
        let Some(pairs) = pairs.filter(|&pairs| checked_numel(&[2, pairs]).is_some()) else {
            self.trace().fail(format!("normal: the type {ty} is too large"));
        };
        let bits = self.random_bits(&[2, pairs]);
        let (first, second) = (bits.slice(0, 0, 1), bits.slice(0, 1, 1));
        // The share is above 0, so that its logarithm is finite.
        let share = (first.cast(DType::F32) + 0.5) * (1.0 / WORDS);
        let radius = (share.log() * -2.0).sqrt();
        let angle = second.to_signed_unit() * TAU;
        let both = concat(&[radius * angle.cos(), radius * angle.sin()], 0);
        both.reshape(&[2 * pairs]).slice(0, 0, ty.numel()).reshape(shape)
    }

    /// Truth values `bool` of a shape from this key `u32[2]`, true with probability `p` to within `2^-33`. Other ones
    /// at every call within a trace.
    ///
    /// # Panics
    /// If this is no key, `p` is not in `[0, 1]`, or the size of the shape cannot be counted.
    #[track_caller]
    pub fn bernoulli(self, shape: &[usize], p: f64) -> Tensor {
        if !(0.0..=1.0).contains(&p) {
            let sentence = format!("bernoulli: the probability {p} is not from 0 to 1");
            self.trace().fail(sentence);
        }
        let (bits, threshold) = (self.random_bits(shape), (p * WORDS).round());
        if threshold == WORDS {
            return self.trace().full(DType::Bool, shape, 1.0);
        }
        bits.lt(bits.scalar_like(threshold))
    }

    /// Multiples of `2^-24` in `[-1/2, 1/2)`, of the lower 24 bits of each word: every step is exact.
    #[track_caller]
    fn to_signed_unit(self) -> Tensor {
        (self.cast(DType::I32) * 256.0).cast(DType::F32) * (1.0 / WORDS)
    }
}
