//! How a network is trained on a set of images, so that the set can be judged.

use crate::augmentation::Augmentation;
use crate::network::{Network, parameters};
use lessen_base::{Error, Result};
use lessen_compile::Precision;

/// Epochs without augmentation.
const EPOCHS: usize = 300;

/// Epochs with augmentation.
const AUGMENTED_EPOCHS: usize = 1000;

/// Settings of a training from scratch by SGD, with weight decay of all parameters. From the middle of the epochs on,
/// the learning rate is a tenth of what it was.
///
/// They are those of the dissertation's code. The code of Zhao, Mopuri and Bilen (2021) trains for one epoch more,
/// lowers the rate two epochs later and forgets the momentum then.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingSettings {
    /// Epochs over the images; 300 if `None`, and 1000 with augmentation.
    pub epochs: Option<usize>,
    /// Learning rate at first, unless one was learned with the images.
    pub rate: f64,
    /// Momentum.
    pub momentum: f64,
    /// Weight decay, which is added to gradients.
    pub weight_decay: f64,
    /// Images of a step; the last step of an epoch has the rest.
    pub batch: usize,
    /// How images are changed.
    pub augmentation: Augmentation,
    /// Seed of networks, of the order of images and of augmentation.
    pub seed: u64,
    /// Dtype that products and convolutions read.
    pub precision: Precision,
    /// Most bytes of all states, constants and results and of the arena.
    pub budget: Option<usize>,
}

impl Default for TrainingSettings {
    /// The published settings, without augmentation.
    fn default() -> TrainingSettings {
        TrainingSettings {
            epochs: None,
            rate: 0.01,
            momentum: 0.9,
            weight_decay: 5e-4,
            batch: 256,
            augmentation: Augmentation::None,
            seed: 1,
            precision: Precision::F32,
            budget: None,
        }
    }
}

impl TrainingSettings {
    /// The published settings for a network and images of this `[H, W, C]`, with [`Augmentation::published`].
    ///
    /// # Errors
    /// Images that the network cannot read.
    pub fn published(network: &dyn Network, shape: [usize; 3], are_digits: bool) -> Result<TrainingSettings> {
        let has_batch_norm = parameters(network, shape)?.iter().any(|param| param.is_buffer);
        Ok(TrainingSettings {
            augmentation: Augmentation::published(are_digits, has_batch_norm),
            ..TrainingSettings::default()
        })
    }

    /// Epochs over the images.
    pub fn epochs(&self) -> usize {
        self.epochs.unwrap_or(match self.augmentation {
            Augmentation::None => EPOCHS,
            _ => AUGMENTED_EPOCHS,
        })
    }

    /// The learning rate of an epoch, from 0, for images with this learned rate.
    ///
    /// # Errors
    /// A learned rate below 0 or no number.
    pub fn rate_of(&self, epoch: usize, learned: Option<f32>) -> Result<f64> {
        let first = match learned.map(f64::from) {
            None => self.rate,
            Some(rate) if rate.is_finite() && rate >= 0.0 => rate,
            Some(rate) => {
                return Err(Error::user(format!(
                    "the learning rate that was learned with the images is {rate}, and no network learns by it; condense \
                     anew with a smaller rate of that rate"
                )));
            }
        };
        let is_late = epoch >= self.epochs().div_ceil(2);
        Ok(if is_late { 0.1 * first } else { first })
    }

    /// Checks all numbers.
    ///
    /// # Errors
    /// A number out of range, with its name.
    pub fn check(&self) -> Result<()> {
        for (name, count) in [("batch", self.batch), ("epochs", self.epochs())] {
            if count == 0 {
                return Err(Error::user(format!("{name} = 0 makes no sense; choose at least 1")));
            }
        }
        for (name, value) in [("learning rate", self.rate), ("weight_decay", self.weight_decay)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::user(format!(
                    "{name} = {value} makes no sense; choose a finite number from 0"
                )));
            }
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(Error::user(format!(
                "momentum = {} makes no sense; choose a number from 0 and below 1",
                self.momentum
            )));
        }
        Ok(())
    }
}
