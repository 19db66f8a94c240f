//! Elements of at most eight bits.

use crate::narrow::Narrow;

/// Numbers of a narrow type, each in the low bits of a byte.
#[derive(Clone, Debug)]
pub struct NarrowNumbers {
    narrow: Narrow,
    bits: Vec<u8>,
}

impl NarrowNumbers {
    /// Numbers by their bits.
    pub fn new(narrow: Narrow, bits: Vec<u8>) -> NarrowNumbers {
        NarrowNumbers { narrow, bits }
    }

    /// The type.
    pub fn narrow(&self) -> Narrow {
        self.narrow
    }

    /// The bits of each number.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// The bits of each number.
    pub fn bits_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bits
    }

    /// Adds numbers by their bits.
    pub fn extend(&mut self, bits: impl Iterator<Item = u8>) {
        self.bits.extend(bits);
    }

    /// The numbers.
    pub fn to_f64(&self) -> Vec<f64> {
        self.bits.iter().map(|bits| self.narrow.read(*bits)).collect()
    }
}

impl PartialEq for NarrowNumbers {
    /// Whether the type and the numbers are the same, where NaN is like nothing.
    fn eq(&self, other: &NarrowNumbers) -> bool {
        self.narrow == other.narrow && self.to_f64() == other.to_f64()
    }
}
