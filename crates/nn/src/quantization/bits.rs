//! The bits of weights and inputs of a layer.

use std::fmt;
use std::str::FromStr;

use lessen_base::{Error, Result};
use lessen_graph::ops::FakeQuantize;

/// The word for numbers that are not quantized.
const FLOAT: u32 = 32;

/// The bits of a layer's weights and inputs, from 2 to 8; none where they are not quantized. Written as `w4a8`, with 32
/// for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// Bits of weights.
    pub weights: Option<u32>,
    /// Bits of inputs.
    pub inputs: Option<u32>,
}

impl Bits {
    /// 8 bits for both.
    pub const EIGHT: Bits = Bits {
        weights: Some(8),
        inputs: Some(8),
    };

    /// Description of the words, for messages.
    pub fn words() -> String {
        "w8a8, w4a8 and the like: bits of weights and inputs from 2 to 8, or 32 for none".to_string()
    }

    /// Nothing is quantized.
    pub const FLOAT: Bits = Bits {
        weights: None,
        inputs: None,
    };
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [weights, inputs] = [self.weights, self.inputs].map(|bits| bits.unwrap_or(FLOAT));
        write!(f, "w{weights}a{inputs}")
    }
}

impl FromStr for Bits {
    type Err = Error;

    fn from_str(word: &str) -> Result<Bits> {
        let read = |digits: &str| match digits.parse::<u32>() {
            Ok(FLOAT) => Some(None),
            Ok(bits) if FakeQuantize::BITS.contains(&bits) && digits.len() == 1 => Some(Some(bits)),
            _ => None,
        };
        let parts = word.strip_prefix('w').and_then(|rest| rest.split_once('a'));
        let found = parts.and_then(|(weights, inputs)| {
            Some(Bits {
                weights: read(weights)?,
                inputs: read(inputs)?,
            })
        });
        found.ok_or_else(|| {
            Error::user(format!(
                "`{word}` says no bits; write them as w4a8, weights of 4 bits and inputs of 8: each from 2 to 8, or 32 for \
                 none"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_bits_and_others_are_refused() {
        for word in ["w8a8", "w2a4", "w4a32", "w32a7", "w32a32"] {
            assert_eq!(word.parse::<Bits>().unwrap().to_string(), word);
        }
        for word in [
            "", "w8", "a8w8", "w1a8", "w9a8", "w8a16", "w08a8", "w8a8 ", "w+8a8", "w8a-8",
        ] {
            assert!(word.parse::<Bits>().is_err(), "{word}");
        }
    }
}
