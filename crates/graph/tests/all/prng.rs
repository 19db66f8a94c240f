//! Random arrays for tests.

use lessen_base::SplitMix64;
use lessen_graph::{Array, DType, Type};

/// Draws arrays from the sequence of a seed.
pub struct Prng(SplitMix64);

impl Prng {
    pub fn new(seed: u64) -> Prng {
        Prng(SplitMix64::new(seed))
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    /// An `f32` array of numbers in a range.
    pub fn floats(&mut self, shape: &[usize], low: f64, high: f64) -> Array {
        Array::from_fn(Type::f32(shape), |_| self.uniform(low, high))
    }

    /// An `f32` array of numbers around zero.
    pub fn normal(&mut self, shape: &[usize]) -> Array {
        self.floats(shape, -1.5, 1.5)
    }

    /// An `f32` array of numbers away from zero, of either sign.
    pub fn signed(&mut self, shape: &[usize]) -> Array {
        Array::from_fn(Type::f32(shape), |_| {
            let size = self.uniform(0.2, 1.5);
            if self.below(2) == 0 { size } else { -size }
        })
    }

    /// An `i32` array of numbers in `0..n`.
    pub fn ids(&mut self, shape: &[usize], n: usize) -> Array {
        Array::from_fn(Type::new(DType::I32, shape), |_| self.below(n) as f64)
    }

    /// Random truth values.
    pub fn bools(&mut self, shape: &[usize]) -> Array {
        Array::from_fn(Type::new(DType::Bool, shape), |_| self.below(2) as f64)
    }

    /// A key.
    pub fn key(&mut self) -> Array {
        Array::from_fn(Type::new(DType::U32, &[2]), |_| (self.0.next_u64() >> 32) as f64)
    }
}
