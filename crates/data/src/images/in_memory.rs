//! Labelled images that a program has in memory.

use std::path::Path;
use std::sync::Arc;

use lessen_base::{Error, Result};

use super::idx::product;
use super::image::Image;
use super::parts::{Part, PartLabels, Parts, pixels_of};
use super::set::Pixels;
use crate::classes::Classes;
use crate::splits::Splits;

/// Images of bytes in memory, with a label each. A copy shares them.
#[derive(Clone, Debug)]
pub struct ImagesInMemory {
    pixels: Pixels,
    labels: Arc<ImageLabels>,
}

/// The labels of images in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageLabels {
    /// Numbers of classes from 0 on.
    Numbers(Vec<i64>),
    /// Names of classes.
    Names(Vec<String>),
}

impl ImagesInMemory {
    /// Images of one size, as an array of this shape: `[N, H, W]`, `[N, H, W, C]` or, where C is 1 or 3 in that place
    /// only, `[N, C, H, W]`.
    ///
    /// # Errors
    /// Another shape, other numbers of bytes or labels, no images.
    pub fn of_array(shape: &[usize], bytes: Vec<u8>, labels: ImageLabels) -> Result<ImagesInMemory> {
        if product(shape) != Some(bytes.len()) {
            return Err(Error::user(format!(
                "an array of images in memory has {} bytes for the shape {shape:?}; give a byte for each element",
                bytes.len()
            )));
        }
        let (images, pixels) = pixels_of(shape, bytes, Path::new("the data in memory"))?;
        ImagesInMemory::of(pixels, images, labels)
    }

    /// Images of any sizes.
    ///
    /// # Errors
    /// No images, one without pixels, another number of labels.
    pub fn of_images(images: Vec<Image>, labels: ImageLabels) -> Result<ImagesInMemory> {
        if images.is_empty() || images.iter().any(|image| image.bytes().is_empty()) {
            return Err(Error::user(
                "the data in memory has no images, or one without pixels; give at least one, each with pixels",
            ));
        }
        let count = images.len();
        ImagesInMemory::of(Pixels::OfSizes(images.into()), count, labels)
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        match &*self.labels {
            ImageLabels::Numbers(numbers) => numbers.len(),
            ImageLabels::Names(names) => names.len(),
        }
    }

    /// Whether there are no images, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn of(pixels: Pixels, images: usize, labels: ImageLabels) -> Result<ImagesInMemory> {
        let given = match &labels {
            ImageLabels::Numbers(numbers) => numbers.len(),
            ImageLabels::Names(names) => names.len(),
        };
        if given != images {
            return Err(Error::user(format!(
                "the data in memory has {given} labels for {images} images; give each image one"
            )));
        }
        let labels = labels.into();
        Ok(ImagesInMemory { pixels, labels })
    }

    fn part(&self, name: &Path) -> Part {
        Part {
            pixels: self.pixels.clone(),
            labels: match &*self.labels {
                ImageLabels::Numbers(numbers) => PartLabels::Numbers(numbers.clone()),
                ImageLabels::Names(names) => {
                    let mut classes = names.clone();
                    classes.sort();
                    classes.dedup();
                    let place = |name| classes.partition_point(|class| class < name) as u32;
                    let places = names.iter().map(place).collect();
                    PartLabels::Names(classes, places)
                }
            },
            place: name.to_path_buf(),
        }
    }
}

impl Parts {
    /// The splits of images in memory.
    ///
    /// # Errors
    /// Names of classes that are blank, or of which two are the same.
    pub(super) fn in_memory(splits: &Splits<ImagesInMemory>) -> Result<Parts> {
        let (train, dev, test) = splits.named(|images, name| images.part(name));
        Ok(Parts {
            train,
            dev,
            test,
            names: Classes::listed(&None, &splits.classes, false)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{Options, read_from};
    use crate::splits::DataPlace;

    #[test]
    fn images_that_do_not_go_together_are_refused() {
        let of = |shape: &[usize], bytes: usize, labels: usize| {
            let found = ImagesInMemory::of_array(shape, vec![0; bytes], ImageLabels::Numbers(vec![0; labels]));
            found.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(of(&[2, 1, 2], 4, 2), "");
        assert!(of(&[2, 1, 2], 3, 2).contains("has 3 bytes for the shape [2, 1, 2]"));
        assert!(of(&[usize::MAX, 2, 2], 3, 2).contains("give a byte for each element"));
        assert!(of(&[2, 2], 4, 2).contains("has an array of shape [2, 2], which are no images"));
        assert!(of(&[2, 1, 2], 4, 3).contains("has 3 labels for 2 images"));
        let none = ImagesInMemory::of_images(Vec::new(), ImageLabels::Names(Vec::new()));
        assert!(none.unwrap_err().to_string().contains("has no images"));
    }

    #[test]
    fn images_of_several_sizes_are_read_with_the_names_of_their_classes() {
        let images = vec![Image::new([1, 1, 1], vec![7]), Image::new([1, 2, 1], vec![8, 9])];
        let names = ["owl", "cat"].map(str::to_string);
        let images = ImagesInMemory::of_images(images, ImageLabels::Names(names.to_vec())).unwrap();
        let splits = Splits {
            dev: Some(images.clone()),
            ..Splits::of(images)
        };
        let data = read_from(DataPlace::InMemory(&splits), &Options::default()).unwrap();
        assert_eq!((data.names, data.size), (vec!["cat".into(), "owl".into()], None));
        assert_eq!(
            (data.train.labels(), data.train.image(1).unwrap().bytes()),
            (&[1, 0][..], &[8, 9][..])
        );
        assert_eq!(data.train.checksum(), data.dev.checksum());
        let other = Splits {
            classes: Some(vec!["owl".into(), "dog".into()]),
            ..splits
        };
        let refused = read_from(DataPlace::InMemory(&other), &Options::default())
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            "the training data in memory has the label 'cat', but the 2 classes of the given list are owl, dog; use \
             one of these"
        );
    }
}
