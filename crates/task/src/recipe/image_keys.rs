//! Preprocessing and augmentation that the keys of images describe.

use super::image_lists::ChannelNumbers;
use super::keys::ImageKeys;
use lessen_data::images::{Augment, Filter, Mixing, Preprocessing, Resize};

/// Rows and columns that images of different sizes get by default.
const SIZE: usize = 224;

/// Channels of an image that nothing says more of.
const COLOURS: usize = 3;

/// The share of the shorter side that is then seen.
const CROP: f64 = 0.875;

impl ImageKeys {
    /// The preprocessing of images. Without given mean and deviation these are 0 and 1, so that bytes become numbers
    /// from 0 to 1. `alike` is the size of all images, where they have the same one, and `own` that of images of the
    /// model to start from, where it has one.
    pub fn preprocessing(&self, alike: Option<[usize; 2]>, own: Option<[usize; 2]>, channels: usize) -> Preprocessing {
        let numbers = |given: &Option<ChannelNumbers>, default: f32| match given {
            Some(numbers) => numbers.0.clone(),
            None => vec![default; channels],
        };
        let given = self.size.map(|size| [size, size]);
        let size = given.or(own).or(alike).unwrap_or([SIZE, SIZE]);
        let [height, width] = size;
        let crop = self.crop.unwrap_or(if alike == Some(size) { 1.0 } else { CROP });
        Preprocessing {
            resize: if height == width {
                Resize::Shorter((height as f64 / crop).round() as usize)
            } else {
                Resize::Stretch(height, width)
            },
            filter: Filter::Bilinear,
            size,
            mean: numbers(&self.mean, 0.0),
            std: numbers(&self.std, 1.0),
        }
    }

    /// Rows, columns and channels of an image where there is no data to tell.
    pub fn assumed(&self) -> [usize; 3] {
        let size = self.size.unwrap_or(SIZE);
        let given = self.mean.as_ref().map(|mean| mean.0.len());
        [size, size, self.channels.or(given).unwrap_or(COLOURS)]
    }

    /// Whether the images of a training batch are mixed.
    pub(crate) fn are_mixed(&self) -> bool {
        !self.mixing().is_none()
    }

    /// Whether a key sets the preprocessing.
    pub(crate) fn is_preprocessing_given(&self) -> bool {
        self.size.is_some() || self.crop.is_some() || self.mean.is_some()
    }

    /// Whether images are normalized by mean and deviation of the training data.
    pub fn is_normalized_by_data(&self) -> bool {
        self.mean.is_none()
    }

    /// How training images are changed.
    pub fn augmentation(&self, seed: u64) -> Augment {
        Augment {
            changes: self
                .augment
                .as_ref()
                .map(|changes| changes.0.clone())
                .unwrap_or_default(),
            mixing: self.mixing(),
            seed,
        }
    }

    fn mixing(&self) -> Mixing {
        let given = |parameter: f64| (parameter > 0.0).then_some(parameter);
        Mixing {
            mixup: given(self.mixup),
            cutmix: given(self.cutmix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::settings::Settings;

    fn keys(text: &str) -> ImageKeys {
        Settings::parse(text, "mine.toml")
            .unwrap()
            .section::<ImageKeys>()
            .unwrap()
    }

    #[test]
    fn the_size_is_that_of_the_images_or_224() {
        let (plain, given) = (keys(""), keys("image.size = 32"));
        let of = |keys: &ImageKeys, alike| {
            let found = keys.preprocessing(alike, None, 3);
            (found.resize, found.size)
        };
        assert_eq!(of(&plain, Some([28, 28])), (Resize::Shorter(28), [28, 28]));
        assert_eq!(of(&plain, Some([20, 30])), (Resize::Stretch(20, 30), [20, 30]));
        assert_eq!(of(&plain, None), (Resize::Shorter(256), [224, 224]));
        assert_eq!(of(&given, Some([32, 32])), (Resize::Shorter(32), [32, 32]));
        assert_eq!(of(&given, Some([64, 64])), (Resize::Shorter(37), [32, 32]));
        let whole = keys("image = { size = 32, crop = 1.0 }");
        assert_eq!(of(&whole, None), (Resize::Shorter(32), [32, 32]));
        let of_model = |keys: &ImageKeys, alike| keys.preprocessing(alike, Some([96, 96]), 3).size;
        assert_eq!(of_model(&plain, Some([28, 28])), [96, 96]);
        assert_eq!(of_model(&given, None), [32, 32]);
        assert!(plain.is_normalized_by_data());
        assert_eq!(plain.preprocessing(None, None, 1).mean, [0.0]);
        let given = keys("image = { mean = [0.5], std = [0.25] }");
        assert!(!given.is_normalized_by_data());
        let found = given.preprocessing(None, None, 1);
        assert_eq!((found.mean, found.std), (vec![0.5], vec![0.25]));
    }

    #[test]
    fn augmentation_is_a_list_and_mixing_two_numbers() {
        let found = keys("image = { augment = [\"crop:4\", \"flip\"], cutmix = 1.0 }").augmentation(5);
        assert_eq!((found.changes.len(), found.seed), (2, 5));
        assert_eq!((found.mixing.mixup, found.mixing.cutmix), (None, Some(1.0)));
        assert!(keys("").augmentation(5).mixing.is_none());
        let wrong = Settings::parse("image.augment = \"crop:4,turn\"", "mine.toml")
            .unwrap_err()
            .to_string();
        assert!(
            wrong.starts_with("mine.toml line 1: image.augment must be a list of crop:PIXELS, "),
            "{wrong}"
        );
    }
}
