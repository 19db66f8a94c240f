//! `pictures.json`: some images of the last evaluation, with labels and predictions.

use super::Folder;
use lessen_base::{Error, Result};
use lessen_data::images::{Filter, Image, png};
use serde::{Deserialize, Serialize};

/// The name of the file.
pub const PICTURES: &str = "pictures.json";

/// Pixels of the longer side of a picture; larger images are made smaller.
const LARGEST: usize = 128;

/// Images of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pictures {
    /// Steps done before the evaluation.
    pub step: u64,
    /// The images in order.
    pub pictures: Vec<Picture>,
}

/// An image with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// A file of the format PNG, in base 64.
    pub png: String,
    /// The right class; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The class that was predicted.
    pub prediction: String,
    /// Its probability.
    pub probability: f64,
}

impl Picture {
    /// Makes one of an image, smaller where it is large.
    pub fn new(image: &Image, label: Option<&str>, prediction: &str, probability: f64) -> Picture {
        let (height, width) = (image.height(), image.width());
        let longest = height.max(width);
        let png = if longest > LARGEST {
            let side = |side: usize| (side * LARGEST).div_ceil(longest);
            png(&image.resized(side(height), side(width), Filter::Bilinear))
        } else {
            png(image)
        };
        Picture {
            png: base64::encode(png),
            label: label.map(str::to_string),
            prediction: prediction.to_string(),
            probability,
        }
    }

    /// Whether it holds nothing but base 64, as a page may show it.
    pub fn is_sound(&self) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        self.png.bytes().all(is_digit) && self.probability.is_finite()
    }
}

impl Pictures {
    /// Writes the file into the folder of a run.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, folder: &Folder) -> Result<()> {
        let text = serde_json::to_string(self);
        let text = text.map_err(|error| Error::internal(format!("{PICTURES} cannot be written ({error})")))?;
        folder.write(PICTURES, &format!("{text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_data::images::read_image;
    use std::fs;

    #[test]
    fn an_image_comes_back_from_its_picture() {
        let dir = tempfile::tempdir().unwrap();
        let image = Image::new([2, 3, 1], vec![0, 50, 100, 150, 200, 250]);
        let picture = Picture::new(&image, Some("cat"), "dog", 0.5);
        assert!(picture.is_sound());
        let path = dir.path().join("x.png");
        let decoded = |picture: &Picture| {
            let bytes = base64::decode(&picture.png).unwrap();
            fs::write(&path, bytes).unwrap();
            read_image(&path).unwrap()
        };
        assert_eq!(decoded(&picture), image);
        let large = Image::new([2, 512, 3], vec![7; 3072]);
        assert_eq!(decoded(&Picture::new(&large, None, "dog", 0.5)).shape(), [1, 128, 3]);
    }

    #[test]
    fn what_is_no_base_64_is_noticed() {
        let image = Image::new([1, 1, 1], vec![0]);
        let mut picture = Picture::new(&image, None, "dog", 0.5);
        picture.png.push('"');
        assert!(!picture.is_sound());
    }
}
