//! Lists that the keys of images take.

use lessen_base::{Error, Result};
use lessen_data::images::Augmentation;
use std::str::FromStr;

/// Changes of training images, one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Augmentations(pub Vec<Augmentation>);

impl Augmentations {
    /// What to write, for messages.
    pub fn words() -> String {
        Augmentation::words()
    }
}

impl FromStr for Augmentations {
    type Err = Error;

    fn from_str(text: &str) -> Result<Augmentations> {
        let changes: Option<Vec<Augmentation>> = text.split(',').map(|word| word.trim().parse().ok()).collect();
        changes.map(Augmentations).ok_or_else(|| {
            let words = Augmentations::words();
            Error::user(format!("'{text}' is no list of {words}"))
        })
    }
}

/// A number for each channel of images.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelNumbers(pub Vec<f32>);

impl ChannelNumbers {
    /// What to write, for messages.
    pub fn words() -> String {
        "numbers, one for grey images and three for colours".to_string()
    }
}

impl FromStr for ChannelNumbers {
    type Err = Error;

    fn from_str(text: &str) -> Result<ChannelNumbers> {
        let number = |item: &str| item.trim().parse().ok().filter(|number: &f32| number.is_finite());
        let numbers: Option<Vec<f32>> = text.split(',').map(number).collect();
        match numbers {
            Some(numbers) if [1, 3].contains(&numbers.len()) => Ok(ChannelNumbers(numbers)),
            _ => Err(Error::user(format!(
                "'{text}' is no list of {}",
                ChannelNumbers::words()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_of_changes_and_of_one_or_three_numbers() {
        let changes: Augmentations = "crop:4, flip".parse().unwrap();
        assert_eq!(changes.0, [Augmentation::Crop(4), Augmentation::Flip(0.5)]);
        for wrong in ["", "crop", "crop:4,,flip", "mixup:1"] {
            assert!(wrong.parse::<Augmentations>().is_err(), "{wrong}");
        }
        assert_eq!("0.5".parse(), Ok(ChannelNumbers(vec![0.5])));
        assert_eq!("0.5, 0.25,1".parse(), Ok(ChannelNumbers(vec![0.5, 0.25, 1.0])));
        for wrong in ["", "1,2", "1,2,x", "nan", "1,2,3,4"] {
            assert!(wrong.parse::<ChannelNumbers>().is_err(), "{wrong}");
        }
    }
}
