//! Random numbers for tests: splitmix64.

use lessen_graph::{Array, DType, Type};

pub struct Prng(u64);

impl Prng {
    pub fn new(seed: u64) -> Prng {
        Prng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
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
        let words = vec![(self.next() >> 32) as f64, (self.next() >> 32) as f64];
        Array::new(Type::new(DType::U32, &[2]), words)
    }
}
