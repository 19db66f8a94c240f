//! Labelled images in memory or in files.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crc32c::crc32c_append;
use lessen_base::{Error, Result};

use super::decode;
use super::files_digest::FilesDigest;
use super::image::Image;
use super::normalization::Normalization;
use crate::files::unreadable;
use crate::parallel::in_parallel;

/// The most digests of the files of a set.
const MOST_DIGESTS: usize = 1024;

/// One split of a data set: images, with the number of a class each. Images of files are decoded when they are asked
/// for, each time.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSet {
    pixels: Pixels,
    /// Channels that images are given with.
    channels: usize,
    /// The images of `pixels` that belong to the set; all of them if `None`.
    chosen: Option<Arc<[u32]>>,
    labels: Vec<i32>,
    /// The shares of all classes in each image, if these are learned in place of the labels.
    shares: Option<Arc<[f32]>>,
    /// The weight of each image in the loss of training; none where all count alike.
    weights: Option<Arc<[f32]>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pixels {
    /// Images of this height, width and number of channels, one after another.
    InMemory([usize; 3], Arc<Vec<u8>>),
    /// Images of any sizes.
    OfSizes(Arc<Vec<Image>>),
    InFiles(Arc<Vec<PathBuf>>),
    /// Numbers that networks read, of this size and meaning, one image after another.
    Numbers(Arc<Normalization>, Arc<Vec<f32>>),
}

impl ImageSet {
    /// Makes a set of images of one height, width and number of channels (1 or 3), one after another.
    ///
    /// # Panics
    /// If there are not as many bytes as there are labels for.
    pub fn in_memory(shape: [usize; 3], bytes: Vec<u8>, labels: Vec<i32>) -> ImageSet {
        let size: usize = shape.iter().product();
        assert_eq!(bytes.len(), size * labels.len(), "bytes of the images");
        ImageSet::of(Pixels::InMemory(shape, Arc::new(bytes)), shape[2], labels)
    }

    /// Makes a set of PNG and JPEG files, which are given with 1 or 3 channels.
    ///
    /// # Panics
    /// If there are not as many labels.
    pub fn in_files(files: Vec<PathBuf>, channels: usize, labels: Vec<i32>) -> ImageSet {
        assert_eq!(files.len(), labels.len(), "one label for each image");
        ImageSet::of(Pixels::InFiles(Arc::new(files)), channels, labels)
    }

    /// A set of all images.
    pub(super) fn of(pixels: Pixels, channels: usize, labels: Vec<i32>) -> ImageSet {
        ImageSet {
            pixels,
            channels,
            chosen: None,
            labels,
            shares: None,
            weights: None,
        }
    }

    /// The same images with these weights, one for each.
    pub(super) fn with_weights(self, weights: Option<Arc<[f32]>>) -> ImageSet {
        ImageSet { weights, ..self }
    }

    /// Returns the weight of each image in the loss of training; none where all count alike.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// The same images with these shares of `classes` classes in each of them.
    ///
    /// # Panics
    /// If there are not as many.
    pub(super) fn with_shares(self, shares: Vec<f32>, classes: usize) -> ImageSet {
        assert_eq!(shares.len(), classes * self.len(), "shares of classes");
        ImageSet {
            shares: Some(shares.into()),
            ..self
        }
    }

    /// The images for which `chosen` is `wanted`, of a set that has all of its images.
    pub(super) fn part(&self, chosen: &[bool], wanted: bool) -> ImageSet {
        let numbers: Vec<u32> = (0..self.len() as u32)
            .filter(|number| chosen[*number as usize] == wanted)
            .collect();
        let classes = self
            .shares
            .as_ref()
            .map_or(0, |shares| shares.len() / self.len().max(1));
        let rows = |shares: &Arc<[f32]>| {
            let rows = numbers.iter().map(|number| *number as usize * classes);
            rows.flat_map(|first| shares[first..first + classes].to_vec()).collect()
        };
        ImageSet {
            labels: numbers.iter().map(|number| self.labels[*number as usize]).collect(),
            shares: self.shares.as_ref().map(rows),
            weights: None,
            chosen: Some(numbers.into()),
            ..self.clone()
        }
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the number of each image's class.
    pub fn labels(&self) -> &[i32] {
        &self.labels
    }

    /// Returns how many channels its images have.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The shares of all classes in each image, `[images, classes]`, if these are learned in place of the labels.
    pub fn shares(&self) -> Option<&[f32]> {
        self.shares.as_deref()
    }

    /// Size and meaning of the numbers that the images are; none where they are bytes.
    pub fn normalization(&self) -> Option<&Normalization> {
        match &self.pixels {
            Pixels::Numbers(normalization, _) => Some(normalization),
            Pixels::InMemory(..) | Pixels::OfSizes(_) | Pixels::InFiles(_) => None,
        }
    }

    /// An image of numbers; none where images are bytes.
    pub(super) fn numbers(&self, number: usize) -> Option<Image<f32>> {
        let Pixels::Numbers(normalization, numbers) = &self.pixels else {
            return None;
        };
        let (shape, place) = (normalization.shape(), self.place(number));
        let size: usize = shape.iter().product();
        Some(Image::of_samples(
            shape,
            numbers[place * size..(place + 1) * size].to_vec(),
        ))
    }

    /// Whether images are decoded from files when they are asked for.
    pub fn is_in_files(&self) -> bool {
        matches!(self.pixels, Pixels::InFiles(_))
    }

    /// Returns the file of an image; none for one in memory.
    pub fn file(&self, number: usize) -> Option<&PathBuf> {
        match &self.pixels {
            Pixels::InMemory(..) | Pixels::OfSizes(_) | Pixels::Numbers(..) => None,
            Pixels::InFiles(files) => files.get(self.place(number)),
        }
    }

    /// Returns an image of bytes.
    ///
    /// # Errors
    /// A file that cannot be read any more, or is damaged; an image of numbers.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn image(&self, number: usize) -> Result<Image> {
        let place = self.place(number);
        let image = match &self.pixels {
            Pixels::InMemory(shape, bytes) => {
                let size: usize = shape.iter().product();
                Image::new(*shape, bytes[place * size..(place + 1) * size].to_vec())
            }
            Pixels::OfSizes(images) => images[place].clone(),
            Pixels::InFiles(files) => decode::read(&files[place])?,
            Pixels::Numbers(..) => return Err(Error::internal("an image of numbers has no bytes")),
        };
        Ok(image.with_channels(self.channels))
    }

    /// How often each byte is in each channel of all images; `None` for images in files and of any sizes.
    pub(super) fn byte_counts(&self) -> Option<Vec<[u64; 256]>> {
        let Pixels::InMemory(shape, bytes) = &self.pixels else {
            return None;
        };
        let mut counts = vec![[0; 256]; self.channels];
        if self.chosen.is_none() && shape[2] == self.channels {
            count_bytes(bytes, &mut counts);
            return Some(counts);
        }
        for number in 0..self.len() {
            count_bytes(self.image(number).ok()?.bytes(), &mut counts);
        }
        Some(counts)
    }

    /// Returns a checksum of labels, weights and images; of images in files, of their names and sizes.
    ///
    /// # Errors
    /// A file that cannot be read any more.
    pub fn checksum(&self) -> Result<u32> {
        let labels = self.labels.iter();
        let mut crc = labels.fold(0, |crc, label| crc32c_append(crc, &label.to_le_bytes()));
        let weights = self.weights().unwrap_or_default().iter();
        crc = weights.fold(crc, |crc, weight| crc32c_append(crc, &weight.to_le_bytes()));
        for number in 0..self.len() {
            match &self.pixels {
                Pixels::InMemory(shape, bytes) => {
                    let (size, place) = (shape.iter().product::<usize>(), self.place(number));
                    crc = crc32c_append(crc, &bytes[place * size..(place + 1) * size]);
                }
                Pixels::OfSizes(images) => {
                    let image = &images[self.place(number)];
                    let sizes = image.shape().into_iter().map(|size| size as u64);
                    crc = sizes.fold(crc, |crc, size| crc32c_append(crc, &size.to_le_bytes()));
                    crc = crc32c_append(crc, image.bytes());
                }
                Pixels::Numbers(..) => {
                    let image = self.numbers(number);
                    let numbers = image.iter().flat_map(|image| image.samples());
                    crc = numbers.fold(crc, |crc, number| crc32c_append(crc, &number.to_le_bytes()));
                }
                Pixels::InFiles(files) => {
                    let file = &files[self.place(number)];
                    let size = fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
                    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
                    crc = crc32c_append(crc32c_append(crc, name), &size.to_le_bytes());
                }
            }
        }
        Ok(crc)
    }

    /// Digests of the contents of images in files, in order: one for each image or, of more than 1,024 images, at most
    /// 1,024 digests, each of a run of images; none of images in memory.
    ///
    /// # Errors
    /// A file that cannot be read any more.
    pub fn file_digests(&self) -> Result<Vec<FilesDigest>> {
        let files: Vec<&PathBuf> = (0..self.len()).filter_map(|number| self.file(number)).collect();
        let parts: Vec<&[&PathBuf]> = files.chunks(files.len().div_ceil(MOST_DIGESTS).max(1)).collect();
        in_parallel(&parts, |files| FilesDigest::of(files))
    }

    /// The place of an image in `pixels`.
    fn place(&self, number: usize) -> usize {
        match &self.chosen {
            Some(chosen) => chosen[number] as usize,
            None => number,
        }
    }
}

/// Adds how often each byte is in each channel of pixels.
pub(super) fn count_bytes(bytes: &[u8], counts: &mut [[u64; 256]]) {
    for pixel in bytes.chunks_exact(counts.len()) {
        for (counts, byte) in counts.iter_mut().zip(pixel) {
            counts[usize::from(*byte)] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_images_and_labels() {
        let set = ImageSet::in_memory([1, 2, 1], (0..8).collect(), vec![4, 5, 6, 7]);
        let chosen = [true, false, false, true];
        let (some, others) = (set.part(&chosen, true), set.part(&chosen, false));
        assert_eq!((some.labels(), others.labels()), (&[4, 7][..], &[5, 6][..]));
        assert_eq!(some.image(1).unwrap().bytes(), [6, 7]);
        assert_eq!(others.image(0).unwrap().bytes(), [2, 3]);
        assert_eq!(others.byte_counts().unwrap()[0][..8], [0, 0, 1, 1, 1, 1, 0, 0]);
        assert_ne!(some.checksum().unwrap(), others.checksum().unwrap());
        assert_eq!(some.file(0), None);
    }
}
