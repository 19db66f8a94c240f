//! Number formats of the units: two's complement fixed point `Qm.n`, and bf16 without subnormal numbers.

use std::fmt;

use lessen_base::{Error, Result};

/// The format of an operand or result. A *code* is the bits of a number, in the low end of a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Number {
    /// Two's complement with a sign bit, `integer` bits and `fraction` bits: the code `c` means `c / 2^fraction`.
    Fixed {
        /// Bits before the point, without the sign.
        integer: u32,
        /// Bits after the point.
        fraction: u32,
    },
    /// The upper half of IEEE 754 binary32. Subnormal numbers count as zeros, operands and results.
    Bf16,
}

/// Widest fixed-point word of a unit, in bits.
pub const WIDEST: u32 = 32;

impl Number {
    /// `Qm.n`.
    ///
    /// # Errors
    /// If sign, integer and fraction are more than 32 bits together, or fewer than 2.
    pub fn fixed(integer: u32, fraction: u32) -> Result<Number> {
        let bits = integer.saturating_add(fraction).saturating_add(1);
        if !(2..=WIDEST).contains(&bits) {
            return Err(Error::user(format!(
                "Q{integer}.{fraction} has {bits} bits with its sign; a unit takes 2 to {WIDEST}"
            )));
        }
        Ok(Number::Fixed { integer, fraction })
    }

    /// Width of a code in bits.
    pub fn bits(self) -> u32 {
        match self {
            Number::Fixed { integer, fraction } => 1 + integer + fraction,
            Number::Bf16 => 16,
        }
    }

    /// The number that a code means.
    pub fn decode(self, code: u64) -> f64 {
        match self {
            Number::Fixed { fraction, .. } => self.signed(code) as f64 / (1u64 << fraction) as f64,
            Number::Bf16 => {
                let value = f32::from_bits((code as u32 & 0xffff) << 16);
                if value.is_subnormal() {
                    f64::from(0f32.copysign(value))
                } else {
                    f64::from(value)
                }
            }
        }
    }

    /// The code nearest to a number; fixed point rounds halves up and saturates, bf16 rounds to even.
    pub fn encode(self, value: f64) -> u64 {
        match self {
            Number::Fixed { fraction, .. } => {
                let scaled = (value * (1u64 << fraction) as f64 + 0.5).floor();
                self.saturated(scaled as i64)
            }
            Number::Bf16 => round_bf16(value),
        }
    }

    /// A code of fixed point as a signed integer.
    pub fn signed(self, code: u64) -> i64 {
        let empty = 64 - self.bits();
        ((code << empty) as i64) >> empty
    }

    /// The code of a signed integer, saturated to the width.
    pub fn saturated(self, value: i64) -> u64 {
        let top = 1i64 << (self.bits() - 1);
        value.clamp(-top, top - 1) as u64 & self.mask()
    }

    /// All bits of a code.
    pub fn mask(self) -> u64 {
        (1 << self.bits()) - 1
    }

    /// The least and the greatest finite number.
    pub fn range(self) -> (f64, f64) {
        match self {
            Number::Fixed { .. } => {
                let top = 1u64 << (self.bits() - 1);
                (self.decode(top), self.decode(top - 1))
            }
            Number::Bf16 => (self.decode(0xff7f), self.decode(0x7f7f)),
        }
    }

    /// A code as an unsigned integer in the order of the numbers that codes mean; a unit compares these.
    pub fn key(self, code: u64) -> u64 {
        let sign = 1 << (self.bits() - 1);
        match self {
            Number::Bf16 if code & sign != 0 => !code & self.mask(),
            _ => code ^ sign,
        }
    }

    /// The code of a key.
    pub fn of_key(self, key: u64) -> u64 {
        let sign = 1 << (self.bits() - 1);
        match self {
            Number::Bf16 if key & sign == 0 => !key & self.mask(),
            _ => key ^ sign,
        }
    }
}

impl fmt::Display for Number {
    /// `q5_10` or `bf16`: a part of a module's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Fixed { integer, fraction } => write!(f, "q{integer}_{fraction}"),
            Number::Bf16 => f.write_str("bf16"),
        }
    }
}

/// The bf16 code nearest to a number, ties to even, once and with all bits of the number in sight; results below the
/// least normal number are zeros of their sign.
pub fn round_bf16(value: f64) -> u64 {
    if value.is_nan() {
        return 0x7fc0;
    }
    let sign = u64::from(value.is_sign_negative()) << 15;
    // Rounds the 52 bits of the fraction to 7; a carry runs into the exponent, which is what it means.
    let bits = value.abs().to_bits();
    let rounded = (bits + (1 << 44) - 1 + ((bits >> 45) & 1)) >> 45;
    let exponent = (rounded >> 7) as i64 - 1023 + 127;
    match exponent {
        ..=0 => sign,
        255.. => sign | 0x7f80,
        _ => sign | (exponent as u64) << 7 | (rounded & 0x7f),
    }
}
