//! Angles of rotary position embeddings for texts that are longer than the texts of the first training.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

use lessen_base::{Error, Result};

use crate::attrs::{Attr, Attrs};
use crate::named::AttrValue;

/// How the angles of rotary position embeddings are changed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum RopeScaling {
    /// They are not.
    #[default]
    None,
    /// All are divided by a factor (Chen et al. 2023).
    Linear {
        /// At least 1.
        factor: f64,
    },
    /// The scaling of Llama 3.1: angles with a wavelength above `length / low` are divided by a factor, angles with a
    /// wavelength below `length / high` stay, and angles between them are interpolated by `length / wavelength`.
    Llama3 {
        /// At least 1.
        factor: f64,
        /// Rotations within `length` up to which angles are divided.
        low: f64,
        /// Rotations within `length` from which angles stay; above `low`.
        high: f64,
        /// Tokens of the texts that the model was first trained on.
        length: f64,
    },
}

impl RopeScaling {
    /// The angle at position 1 instead of this one.
    pub fn apply(self, frequency: f64) -> f64 {
        match self {
            RopeScaling::None => frequency,
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                length,
            } => {
                let rotations = length * frequency / TAU;
                let kept = ((rotations - low) / (high - low)).clamp(0.0, 1.0);
                (1.0 - kept) * frequency / factor + kept * frequency
            }
        }
    }

    /// Checks the ranges of numbers.
    ///
    /// # Errors
    /// A factor below 1, and rotations or a length that are no positive numbers in order.
    pub fn check(self) -> Result<()> {
        let valid = match self {
            RopeScaling::None => true,
            RopeScaling::Linear { factor } => factor >= 1.0 && factor.is_finite(),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                length,
            } => {
                let finite = [factor, low, high, length].iter().all(|x| x.is_finite());
                finite && factor >= 1.0 && low > 0.0 && high > low && length > 0.0
            }
        };
        if valid {
            return Ok(());
        }
        Err(Error::user(format!(
            "`{self}`: a factor must be at least 1, the lower number of rotations above 0, the higher one above that, and \
             the length above 0"
        )))
    }
}

impl fmt::Display for RopeScaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RopeScaling::None => write!(f, "none"),
            RopeScaling::Linear { factor } => write!(f, "linear:{factor}"),
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                length,
            } => write!(f, "llama3:{factor},{low},{high},{length}"),
        }
    }
}

impl FromStr for RopeScaling {
    type Err = Error;

    /// Reads a word as [`Display`](fmt::Display) writes it.
    ///
    /// # Errors
    /// An unknown word.
    fn from_str(text: &str) -> Result<RopeScaling> {
        let unknown = || {
            Error::user(format!(
                "there is no scaling `{text}`; there are none, linear:FACTOR and llama3:FACTOR,LOW,HIGH,LENGTH"
            ))
        };
        let (name, numbers) = text.split_once(':').unwrap_or((text, ""));
        let numbers = numbers.split(',').filter(|number| !number.is_empty()).map(str::parse);
        let numbers: Vec<f64> = numbers.collect::<std::result::Result<_, _>>().map_err(|_| unknown())?;
        let found = match (name, numbers.as_slice()) {
            ("none", []) => RopeScaling::None,
            ("linear", &[factor]) => RopeScaling::Linear { factor },
            ("llama3", &[factor, low, high, length]) => RopeScaling::Llama3 {
                factor,
                low,
                high,
                length,
            },
            _ => return Err(unknown()),
        };
        found.check()?;
        Ok(found)
    }
}

impl AttrValue for RopeScaling {
    fn to_attr(&self) -> Attr {
        Attr::Word(self.to_string())
    }

    fn read(attrs: &Attrs, name: &str) -> Result<RopeScaling> {
        attrs.word(name)?.parse()
    }
}
