//! The keys of images.

use super::Config;
use crate::recipe::keys::{DataFormat, ImageKeys, ModelKind};
use crate::recipe::settings::Settings;
use lessen_base::{Error, Result};
use lessen_data::images::{Augment, Filter, Mixing, Preprocessing, Resize};

/// Rows and columns that images of different sizes get by default.
const SIZE: usize = 224;

/// Channels of an image that nothing says more of.
const COLOURS: usize = 3;

/// The share of the shorter side that is then seen.
const CROP: f64 = 0.875;

/// The most rows and columns.
const LARGEST: usize = 1 << 14;

impl ImageKeys {
    /// How images become what a model sees, but for mean and deviation that are not given, which are those of bytes in
    /// units of 255: 0 and 1. `alike` is the size of all images where they have the same one.
    pub(crate) fn preprocessing(&self, alike: Option<[usize; 2]>, channels: usize) -> Preprocessing {
        let numbers = |given: &Option<super::super::image_lists::ChannelNumbers>, default: f32| match given {
            Some(numbers) => numbers.0.clone(),
            None => vec![default; channels],
        };
        let size = match (self.size, alike) {
            (Some(size), _) => [size, size],
            (None, Some(alike)) => alike,
            (None, None) => [SIZE, SIZE],
        };
        let [height, width] = size;
        let crop = self.crop.unwrap_or(if alike == Some(size) { 1.0 } else { CROP });
        Preprocessing {
            resize: match height == width {
                true => Resize::Shorter((height as f64 / crop).round() as usize),
                false => Resize::Stretch(height, width),
            },
            filter: Filter::Bilinear,
            size,
            mean: numbers(&self.mean, 0.0),
            std: numbers(&self.std, 1.0),
        }
    }

    /// Rows, columns and channels of an image where there is no data to tell.
    pub(crate) fn assumed(&self) -> [usize; 3] {
        let size = self.size.unwrap_or(SIZE);
        let given = self.mean.as_ref().map(|mean| mean.0.len());
        [size, size, self.channels.or(given).unwrap_or(COLOURS)]
    }

    /// Whether the images of a training batch are mixed.
    pub(crate) fn are_mixed(&self) -> bool {
        !self.mixing().is_none()
    }

    /// Whether a key says how images become what a model sees.
    pub(crate) fn is_preprocessing_given(&self) -> bool {
        self.size.is_some() || self.crop.is_some() || self.mean.is_some()
    }

    /// Whether mean and deviation are those of the training data.
    pub(crate) fn is_normalized_by_data(&self) -> bool {
        self.mean.is_none()
    }

    /// How training images are changed.
    pub(crate) fn augmentation(&self, seed: u64) -> Augment {
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

impl Config {
    /// Whether a key has another value than its default, which the resolved recipe of a run has, too.
    fn is_given(&self, key: &str) -> bool {
        let default = Settings::parse("", "").ok();
        default.is_some_and(|default| default.get(key) != self.settings.get(key))
    }

    /// Checks the keys of images and of models of images.
    pub(super) fn check_images(&self) -> Result<()> {
        let image = &self.image;
        let wrong = |key: &str, what: String| Err(Error::user(format!("{} {what}", self.place(key))));
        if self.data.format != DataFormat::Images {
            let given = [
                ("model.patch", self.is_given("model.patch")),
                ("image.size", image.size.is_some()),
                ("image.channels", image.channels.is_some()),
                ("image.crop", image.crop.is_some()),
                ("image.augment", image.augment.is_some()),
                ("image.mixup", image.mixup > 0.0),
                ("image.cutmix", image.cutmix > 0.0),
                ("image.mean", image.mean.is_some()),
                ("image.std", image.std.is_some()),
            ];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                Some((key, _)) => wrong(
                    key,
                    format!(
                        "is for data.format = images, and this is {}; leave it out",
                        self.data.format
                    ),
                ),
                None => Ok(()),
            };
        }
        if let (ModelKind::Network(network), None) = (self.model.kind, &self.model.init) {
            let of_transformers = [
                "model.layers",
                "model.width",
                "model.heads",
                "model.ffn",
                "model.patch",
                "model.attention",
                "model.position",
                "model.fire_width",
                "model.fire_shared",
                "model.norm",
            ];
            let given = of_transformers.into_iter().find(|key| self.is_given(key));
            if let Some(key) = given {
                return wrong(
                    key,
                    format!("is for Transformers, and this is {}; leave it out", network.name()),
                );
            }
        }
        if self.train.tokens > 0 {
            return wrong(
                "train.tokens",
                "is for texts, and images have no tokens; set train.batch".to_string(),
            );
        }
        if image.size.is_some_and(|size| size > LARGEST) {
            return wrong(
                "image.size",
                format!("is more than Lessen can do; choose at most {LARGEST}"),
            );
        }
        if image.channels.is_some_and(|channels| channels != 1 && channels != 3) {
            return wrong(
                "image.channels",
                "is neither 1, for grey images, nor 3, for colours; choose one of them".to_string(),
            );
        }
        // Less would resize every image to many times what is seen of it.
        if image.crop.is_some_and(|crop| crop < 0.1) {
            return wrong(
                "image.crop",
                "leaves nearly nothing of an image; choose at least 0.1".to_string(),
            );
        }
        let (mean, std) = match (&image.mean, &image.std) {
            (Some(mean), Some(std)) => (&mean.0, &std.0),
            (None, None) => return Ok(()),
            (Some(_), None) => return wrong("image.mean", "needs image.std beside it; give both".to_string()),
            (None, Some(_)) => return wrong("image.std", "needs image.mean beside it; give both".to_string()),
        };
        if std.iter().any(|std| *std <= 0.0) {
            return wrong(
                "image.std",
                "is not above 0 in every channel; choose larger numbers".to_string(),
            );
        }
        let channels = image.channels.unwrap_or(mean.len());
        if mean.len() != channels || std.len() != channels {
            return wrong(
                if mean.len() == channels {
                    "image.std"
                } else {
                    "image.mean"
                },
                format!("has not as many numbers as images have channels, {channels}; give one for each"),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> ImageKeys {
        Settings::parse(text, "mine.toml").unwrap().keys().unwrap().image
    }

    #[test]
    fn the_size_is_that_of_the_images_or_224() {
        let (plain, given) = (keys(""), keys("image.size = 32"));
        let of = |keys: &ImageKeys, alike| {
            let found = keys.preprocessing(alike, 3);
            (found.resize, found.size)
        };
        assert_eq!(of(&plain, Some([28, 28])), (Resize::Shorter(28), [28, 28]));
        assert_eq!(of(&plain, Some([20, 30])), (Resize::Stretch(20, 30), [20, 30]));
        assert_eq!(of(&plain, None), (Resize::Shorter(256), [224, 224]));
        assert_eq!(of(&given, Some([32, 32])), (Resize::Shorter(32), [32, 32]));
        assert_eq!(of(&given, Some([64, 64])), (Resize::Shorter(37), [32, 32]));
        let whole = keys("image = { size = 32, crop = 1.0 }");
        assert_eq!(of(&whole, None), (Resize::Shorter(32), [32, 32]));
        assert!(plain.is_normalized_by_data());
        assert_eq!(plain.preprocessing(None, 1).mean, [0.0]);
        let given = keys("image = { mean = [0.5], std = [0.25] }");
        assert!(!given.is_normalized_by_data());
        let found = given.preprocessing(None, 1);
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

    #[test]
    fn keys_of_images_are_checked() {
        let message = |text: &str| {
            let settings = Settings::parse(text, "mine.toml").unwrap();
            Config::new(settings).unwrap_err().to_string()
        };
        assert_eq!(
            message("data.format = \"text\"\nimage.size = 32"),
            "image.size = 32 (mine.toml line 2) is for data.format = images, and this is text; leave it out"
        );
        let patch = message("data.format = \"text\"\nmodel.patch = 4");
        assert!(
            patch.starts_with("model.patch = 4 (mine.toml line 2) is for "),
            "{patch}"
        );
        let of_images = |text: &str| message(&format!("data.format = \"images\"\n{text}"));
        assert!(of_images("image.channels = 4").contains("is neither 1, for grey images, nor 3"));
        assert!(of_images("image.size = 99999").contains("choose at most 16384"));
        assert!(of_images("image.crop = 0.01").contains("choose at least 0.1"));
        assert!(of_images("image.mean = [0.5]").contains("needs image.std beside it"));
        assert!(of_images("image.std = [0.5]").contains("needs image.mean beside it"));
        assert!(of_images("image.mean = [0.5]\nimage.std = [0]").contains("is not above 0"));
        assert!(of_images("image.mean = [0,0,0]\nimage.std = [1]").starts_with("image.std = "));
        assert!(
            of_images("image.channels = 1\nimage.mean = [0,0,0]\nimage.std = [1,1,1]").starts_with("image.mean = ")
        );
        assert!(of_images("train.tokens = 4096").contains("images have no tokens"));
        assert!(of_images("data.held_out = 1").contains("leaves nothing to learn from"));
    }
}
