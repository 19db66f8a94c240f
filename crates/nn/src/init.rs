//! First values of parameters. A value depends on the seed, the parameter's name and nothing else: not on the
//! order in which parameters are made, nor on what other parameters there are.

use std::f64::consts::TAU;

/// How the first value of a parameter is made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All the same.
    Constant(f64),
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Uniform in `[-bound, bound)`.
    Uniform {
        /// Half the width.
        bound: f64,
    },
    /// Uniform with variance `2 / (fan_in + fan_out)` (Glorot and Bengio 2010).
    XavierUniform {
        /// Values that each result is made of.
        fan_in: usize,
        /// Results that each value goes into.
        fan_out: usize,
    },
}

impl Init {
    /// The values of the parameter `name` with `count` elements.
    pub fn values(self, seed: u64, name: &str, count: usize) -> Vec<f32> {
        let mut random = Random::new(seed, name);
        match self {
            Init::Zeros => vec![0.0; count],
            Init::Ones => vec![1.0; count],
            Init::Constant(value) => vec![value as f32; count],
            Init::Normal { std } => (0..count).map(|_| (random.normal() * std) as f32).collect(),
            Init::Uniform { bound } => (0..count).map(|_| random.symmetric(bound) as f32).collect(),
            Init::XavierUniform { fan_in, fan_out } => {
                let bound = (6.0 / (fan_in + fan_out) as f64).sqrt();
                (0..count).map(|_| random.symmetric(bound) as f32).collect()
            }
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014) from a starting point made of a seed and a name.
struct Random {
    state: u64,
    spare: Option<f64>,
}

impl Random {
    fn new(seed: u64, name: &str) -> Random {
        // FNV-1a of the name, then mixed with the seed so that neighbouring seeds have unrelated streams.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Random {
            state: mix(mix(seed) ^ hash),
            spare: None,
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Uniform in [0, 1) with 53 bits.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn symmetric(&mut self, bound: f64) -> f64 {
        (2.0 * self.unit() - 1.0) * bound
    }

    /// Standard normal by the method of Box and Muller, two at a time.
    fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        // 1 - u lies in (0, 1], whose logarithm is finite.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let (sin, cos) = (TAU * self.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
