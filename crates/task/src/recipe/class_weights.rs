//! How much the classes count in the loss.

use lessen_base::{Error, Result};
use std::str::FromStr;

/// The weights of classes in the loss of training.
#[derive(Clone, PartialEq, Debug)]
pub enum ClassWeights {
    /// Each class counts as much as every other: `N / (C n)` for `n` of `N` examples in one of `C` classes.
    Balanced,
    /// A weight for each class, in their order.
    Listed(Vec<f32>),
}

impl ClassWeights {
    /// What to write, for messages.
    pub fn words() -> String {
        "numbers, one for each class, or \"balanced\"".to_string()
    }
}

impl FromStr for ClassWeights {
    type Err = Error;

    fn from_str(text: &str) -> Result<ClassWeights> {
        if text == "balanced" {
            return Ok(ClassWeights::Balanced);
        }
        let weight = |item: &str| {
            let number: f32 = item.trim().parse().ok()?;
            (number.is_finite() && number >= 0.0).then_some(number)
        };
        let weights: Option<Vec<f32>> = text.split(',').map(weight).collect();
        match weights {
            Some(weights) if weights.iter().any(|weight| *weight > 0.0) => Ok(ClassWeights::Listed(weights)),
            _ => Err(Error::user(format!("'{text}' is no list of {}", ClassWeights::words()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_numbers_that_are_not_all_zero() {
        assert_eq!("balanced".parse(), Ok(ClassWeights::Balanced));
        assert_eq!("1, 0.5,0".parse(), Ok(ClassWeights::Listed(vec![1.0, 0.5, 0.0])));
        for wrong in ["", "even", "1,,2", "1,-1", "0,0", "1,nan", "inf"] {
            assert!(wrong.parse::<ClassWeights>().is_err(), "{wrong}");
        }
    }
}
