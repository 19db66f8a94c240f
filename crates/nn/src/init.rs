//! Initial values of parameters. They depend on the seed and the parameter's name alone, not on the order in which
//! parameters are declared or on which others there are.

use std::f64::consts::TAU;

use lessen_base::{Error, Result, SplitMix64};

/// The distribution of a parameter's initial values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All equal.
    Constant(f64),
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Uniform in `[-bound, bound)`.
    Uniform {
        /// Half the width of the interval.
        bound: f64,
    },
    /// Uniform with variance `2 / (fan_in + fan_out)` (Glorot and Bengio 2010).
    XavierUniform {
        /// Number of inputs of each output.
        fan_in: usize,
        /// Number of outputs that each input reaches.
        fan_out: usize,
    },
}

impl Init {
    /// Checks the numbers of the distribution.
    ///
    /// # Errors
    /// Numbers that are infinite or none, a negative deviation or bound, and a layer without inputs and outputs.
    pub fn check(self) -> Result<()> {
        let is_sound = match self {
            Init::Zeros | Init::Ones => true,
            Init::Constant(value) => value.is_finite(),
            Init::Normal { std: width } | Init::Uniform { bound: width } => width.is_finite() && width >= 0.0,
            Init::XavierUniform { fan_in, fan_out } => fan_in.saturating_add(fan_out) > 0,
        };
        if is_sound {
            return Ok(());
        }
        Err(Error::user(format!(
            "initial values {self:?} are no distribution; choose finite numbers, widths from 0"
        )))
    }

    /// Returns the initial values of the parameter `name` with `count` elements.
    pub fn values(self, seed: u64, name: &str, count: usize) -> Vec<f32> {
        self.sequence(seed, name).take(count).collect()
    }

    /// The initial values of the parameter `name`, one after another, without end.
    pub fn sequence(self, seed: u64, name: &str) -> impl Iterator<Item = f32> + use<> {
        let mut numbers = Numbers {
            random: SplitMix64::named(seed, name),
            spare: None,
        };
        let next = move || match self {
            Init::Zeros => 0.0,
            Init::Ones => 1.0,
            Init::Constant(value) => value,
            Init::Normal { std } => numbers.normal() * std,
            Init::Uniform { bound } => numbers.symmetric(bound),
            Init::XavierUniform { fan_in, fan_out } => {
                numbers.symmetric((6.0 / fan_in.saturating_add(fan_out) as f64).sqrt())
            }
        };
        std::iter::repeat_with(next).map(|value| value as f32)
    }
}

/// Normal and symmetric numbers from a parameter's sequence.
struct Numbers {
    random: SplitMix64,
    /// The second of a pair of normal numbers, if the first is used up.
    spare: Option<f64>,
}

impl Numbers {
    /// Returns a uniform number in `[-bound, bound)`.
    fn symmetric(&mut self, bound: f64) -> f64 {
        (2.0 * self.random.unit() - 1.0) * bound
    }

    /// Returns a standard normal number (Box and Muller 1958: two from two uniform ones).
    fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        // 1 - u lies in (0, 1], whose logarithm is finite.
        let radius = (-2.0 * (1.0 - self.random.unit()).ln()).sqrt();
        let (sin, cos) = (TAU * self.random.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}
