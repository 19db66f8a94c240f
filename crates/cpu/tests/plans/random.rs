//! Random numbers for tests: splitmix64.

use lessen_graph::{Array, DType, Type};

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number in -1..1 that an `f32` holds exactly.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 40) as f64 / f64::from(1 << 23) - 1.0
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
