//! From images of any size to the numbers that a model sees.

use std::fs;
use std::path::Path;

use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use serde_json::{Value, json};

use super::image::Image;
use super::normalization::Normalization;
use super::resize::Filter;
use super::set::{ImageSet, count_bytes};
use crate::files::unreadable;
use crate::parallel::in_parallel;

/// How an image gets a size before its middle is cut out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The shorter side gets so many pixels, and the sides keep their proportion.
    Shorter(usize),
    /// Rows and columns become these; the proportion of the sides may change.
    Stretch(usize, usize),
    /// It stays as it is.
    None,
}

/// How images become what a model sees, in evaluations and predictions; in training augmentations come between.
///
/// An image is resized, its middle of `size` is cut out, and a byte `x` of a channel becomes
/// `(x / 255 - mean) / std`.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocessing {
    /// How it is resized.
    pub resize: Resize,
    /// How pixels between others are found.
    pub filter: Filter,
    /// Rows and columns that the model sees.
    pub size: [usize; 2],
    /// The mean of each channel, from 0 to 1.
    pub mean: Vec<f32>,
    /// The standard deviation of each channel, above 0.
    pub std: Vec<f32>,
}

/// The file of a model's folder that transformers reads, too.
const FILE: &str = "preprocessor_config.json";

/// Proportion of the sides beyond which only the middle of an image is resized, so that a line of pixels does not
/// become as many times as long as a side is high.
const LONGEST: usize = 16;

/// The most rows or columns of a file's sizes.
const LARGEST: u64 = 1 << 14;

/// Images of a set in files that its mean and deviation are computed from, spread evenly over it.
const SAMPLED: usize = 2048;

impl Preprocessing {
    /// Returns rows, columns and channels that the model sees.
    pub fn shape(&self) -> [usize; 3] {
        [self.size[0], self.size[1], self.mean.len()]
    }

    /// Returns the same with mean and deviation of the channels of a set: of all pixels of images in memory, of
    /// 2,048 images in files. A channel without deviation gets one of 1.
    ///
    /// # Errors
    /// An image that cannot be read.
    pub fn normalized_by(mut self, images: &ImageSet) -> Result<Preprocessing> {
        let channels = images.channels();
        let counts = match images.byte_counts() {
            Some(counts) => counts,
            None => {
                let sampled = images.len().min(SAMPLED);
                let numbers: Vec<usize> = (0..sampled).map(|at| at * images.len() / sampled).collect();
                let stretches: Vec<&[usize]> = numbers.chunks(64).collect();
                let counts = in_parallel(&stretches, |stretch| {
                    let mut counts = vec![[0; 256]; channels];
                    for number in *stretch {
                        count_bytes(self.fitted(images.image(*number)?).bytes(), &mut counts);
                    }
                    Ok(counts)
                })?;
                let mut sums = vec![[0; 256]; channels];
                for counts in counts {
                    for (sum, count) in sums.iter_mut().flatten().zip(counts.iter().flatten()) {
                        *sum += count;
                    }
                }
                sums
            }
        };
        (self.mean, self.std) = counts.iter().map(moments).unzip();
        Ok(self)
    }

    /// Returns the image in the size that the model sees.
    pub fn fitted(&self, image: Image) -> Image {
        let most = match self.resize {
            Resize::Shorter(_) => image.height().min(image.width()).saturating_mul(LONGEST),
            Resize::Stretch(..) | Resize::None => usize::MAX,
        };
        let (height, width) = (image.height().min(most), image.width().min(most));
        let image = if [height, width] == [image.height(), image.width()] {
            image
        } else {
            image.center(height, width)
        };
        let [rows, columns] = self.size;
        let resized = match self.resize {
            Resize::Shorter(edge) if height.min(width) != edge => {
                let long = |side: usize, other: usize| (edge as u128 * side as u128 / other as u128) as usize;
                if height <= width {
                    image.resized(edge, long(width, height), self.filter)
                } else {
                    image.resized(long(height, width), edge, self.filter)
                }
            }
            Resize::Stretch(rows, columns) => image.resized(rows, columns, self.filter),
            Resize::Shorter(_) | Resize::None => image,
        };
        if [resized.height(), resized.width()] == [rows, columns] {
            resized
        } else {
            resized.center(rows, columns)
        }
    }

    /// Returns size and meaning of the numbers that it makes.
    pub fn normalization(&self) -> Normalization {
        Normalization {
            size: self.size,
            mean: self.mean.clone(),
            std: self.std.clone(),
        }
    }

    /// For each channel the number that each byte becomes.
    pub(super) fn tables(&self) -> Vec<[f32; 256]> {
        let table = |(mean, std): (&f32, &f32)| {
            let (mean, std) = (f64::from(*mean), f64::from(*std));
            std::array::from_fn(|byte| ((byte as f64 / 255.0 - mean) / std) as f32)
        };
        self.mean.iter().zip(&self.std).map(table).collect()
    }

    /// The mean of each channel as a byte.
    pub(super) fn mean_bytes(&self) -> Vec<u8> {
        let byte = |mean: &f32| (255.0 * mean + 0.5).clamp(0.0, 255.0) as u8;
        self.mean.iter().map(byte).collect()
    }

    /// Returns the image, of any size and number of channels, as the numbers that the model sees: `[height, width,
    /// channels]`.
    pub fn numbers(&self, image: Image) -> Vec<f32> {
        let fitted = self.fitted(image.with_channels(self.mean.len()));
        let mut numbers = vec![0.0; fitted.bytes().len()];
        normalize(fitted.bytes(), &self.tables(), &mut numbers);
        numbers
    }

    /// Returns the images of a set as the numbers that the model sees, each when it is asked for.
    pub fn applied_to(self, images: ImageSet) -> PreparedImages {
        PreparedImages {
            tables: self.tables(),
            preprocessing: self,
            images,
        }
    }

    /// Writes `preprocessor_config.json` into the folder of a model, as transformers does.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let size = match self.resize {
            Resize::Shorter(edge) => json!({ "shortest_edge": edge }),
            Resize::Stretch(height, width) => json!({ "height": height, "width": width }),
            Resize::None => Value::Null,
        };
        let mut config = json!({
            "image_processor_type": "BitImageProcessor",
            "do_convert_rgb": self.mean.len() == 3,
            "do_resize": self.resize != Resize::None,
            "resample": match self.filter {
                Filter::Bilinear => 2,
                Filter::Bicubic => 3,
            },
            "do_center_crop": true,
            "crop_size": { "height": self.size[0], "width": self.size[1] },
            "do_rescale": true,
            "rescale_factor": 1.0 / 255.0,
            "do_normalize": true,
            "image_mean": self.mean,
            "image_std": self.std,
        });
        if !size.is_null() {
            config["size"] = size;
        }
        let text = format!("{config:#}\n");
        write_file(&dir.join(FILE), text.as_bytes())
    }

    /// Reads `preprocessor_config.json` in the folder of a model; none where there is no such file.
    ///
    /// # Errors
    /// A file that cannot be read, or asks for something else than resizing, cutting out the middle and normalizing.
    pub fn load(dir: &Path) -> Result<Option<Preprocessing>> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let parsed = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
        let read = parsed.and_then(|config: Value| Preprocessing::of(&config));
        read.map(Some).map_err(|fault| {
            Error::user(format!(
                "{} {fault}; correct it, or restore that of the model",
                path.display()
            ))
        })
    }

    fn of(config: &Value) -> std::result::Result<Preprocessing, String> {
        let is_on = |name: &str| config[name].as_bool().unwrap_or(true);
        let filter = match config["resample"].as_u64() {
            None | Some(2) => Filter::Bilinear,
            Some(3) => Filter::Bicubic,
            Some(other) => {
                return Err(format!(
                    "has resample = {other}, which is neither 2 (bilinear) nor 3 (bicubic)"
                ));
            }
        };
        let factor = config["rescale_factor"].as_f64().unwrap_or(1.0 / 255.0);
        if !is_on("do_rescale") || (factor * 255.0 - 1.0).abs() > 1e-6 {
            return Err("does not rescale bytes by 1 / 255 (do_rescale, rescale_factor)".to_string());
        }
        let edge = |value: &Value| {
            value
                .as_u64()
                .filter(|edge| (1..=LARGEST).contains(edge))
                .map(|edge| edge as usize)
        };
        let both = |value: &Value| match edge(value) {
            Some(edge) => Some([edge, edge]),
            None => Some([edge(&value["height"])?, edge(&value["width"])?]),
        };
        let size = &config["size"];
        let is_cropped = config["do_center_crop"]
            .as_bool()
            .unwrap_or(!config["crop_size"].is_null());
        let crop = both(&config["crop_size"]).filter(|_| is_cropped);
        let resize = match (is_on("do_resize"), edge(&size["shortest_edge"]), both(size)) {
            (false, ..) => Resize::None,
            (true, Some(shorter), _) => Resize::Shorter(shorter),
            (true, None, Some([height, width])) => Resize::Stretch(height, width),
            (true, None, None) => return Err("has no size from 1 to 16384".to_string()),
        };
        let size = crop.or(match resize {
            Resize::Stretch(height, width) => Some([height, width]),
            Resize::Shorter(edge) => Some([edge, edge]),
            Resize::None => None,
        });
        let numbers = |name: &str| -> Option<Vec<f32>> {
            let number = |value: &Value| {
                value
                    .as_f64()
                    .map(|number| number as f32)
                    .filter(|number| number.is_finite())
            };
            config[name].as_array()?.iter().map(number).collect()
        };
        let (mean, std) = if is_on("do_normalize") {
            (numbers("image_mean"), numbers("image_std"))
        } else {
            (Some(vec![0.0; 3]), Some(vec![1.0; 3]))
        };
        let (mean, std) = mean.zip(std).ok_or("has no numbers as image_mean and image_std")?;
        if ![1, 3].contains(&mean.len()) || std.len() != mean.len() || std.iter().any(|std| *std <= 0.0) {
            return Err("needs an image_mean and an image_std above 0 for one channel, or for three".to_string());
        }
        Ok(Preprocessing {
            resize,
            filter,
            size: size.ok_or("has neither a size nor a crop_size")?,
            mean,
            std,
        })
    }
}

/// The images of a set as the numbers that a model sees, each when it is asked for.
#[derive(Clone, Debug)]
pub struct PreparedImages {
    images: ImageSet,
    preprocessing: Preprocessing,
    tables: Vec<[f32; 256]>,
}

impl PreparedImages {
    /// The set.
    pub fn images(&self) -> &ImageSet {
        &self.images
    }

    /// How the numbers are made.
    pub fn preprocessing(&self) -> &Preprocessing {
        &self.preprocessing
    }

    /// Writes the numbers of an image, `[height, width, channels]`.
    ///
    /// # Errors
    /// A file that cannot be read any more, or is damaged.
    ///
    /// # Panics
    /// If there is no such image, or `numbers` has another length.
    pub fn write(&self, number: usize, numbers: &mut [f32]) -> Result<()> {
        if let Some(image) = self.images.numbers(number) {
            numbers.copy_from_slice(image.samples());
            return Ok(());
        }
        let image = self.images.image(number)?.with_channels(self.tables.len());
        let fitted = self.preprocessing.fitted(image);
        assert_eq!(fitted.bytes().len(), numbers.len(), "elements of the image");
        normalize(fitted.bytes(), &self.tables, numbers);
        Ok(())
    }
}

/// Mean and standard deviation of bytes that are so frequent, in units of 255.
fn moments(counts: &[u64; 256]) -> (f32, f32) {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let mean_of = |value: &dyn Fn(f64) -> f64| {
        let terms = counts
            .iter()
            .enumerate()
            .map(|(byte, count)| *count as f64 * value(byte as f64 / 255.0));
        terms.sum::<f64>() / all
    };
    let mean = mean_of(&|value| value);
    let std = mean_of(&|value| (value - mean).powi(2)).sqrt();
    (mean as f32, if std > 0.0 { std as f32 } else { 1.0 })
}

/// Replaces bytes by the numbers of their channels' tables.
pub(super) fn normalize(bytes: &[u8], tables: &[[f32; 256]], numbers: &mut [f32]) {
    let channels = tables.len();
    for (pixel, out) in bytes.chunks_exact(channels).zip(numbers.chunks_exact_mut(channels)) {
        for ((out, byte), table) in out.iter_mut().zip(pixel).zip(tables) {
            *out = table[usize::from(*byte)];
        }
    }
}

#[cfg(test)]
mod tests;
