//! Random numbers for tests.

use lessen_base::SplitMix64;
use lessen_graph::{Array, DType, Type};

/// A seeded generator of the numbers that tests take.
pub struct Random(SplitMix64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    /// True in `percent` of a hundred draws.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number in -1..1 that an `f32` holds exactly.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    /// A number in -1..1.
    pub fn unit_f32(&mut self) -> f32 {
        self.unit() as f32
    }

    /// Numbers in `-scale..scale`.
    pub fn vec(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.unit_f32() * scale).collect()
    }

    /// An `f32` array of numbers in `-scale..scale`, which are `f32`s exactly if the scale is a power of two.
    pub fn array(&mut self, shape: &[usize], scale: f64) -> Array {
        Array::from_fn(Type::f32(shape), |_| self.unit() * scale)
    }

    /// Indices in `0..n`.
    pub fn ids(&mut self, shape: &[usize], n: usize) -> Array {
        Array::from_fn(Type::new(DType::I32, shape), |_| self.below(n) as f64)
    }
}
