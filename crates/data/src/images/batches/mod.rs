//! Batches of labelled images.

use std::sync::Arc;

use lessen_base::{Error, Result, SplitMix64};

use super::augment::{Augmentation, Target};
use super::image::{Image, Sample};
use super::mix::Mixing;
use super::preprocessing::{Preprocessing, normalize};
use super::set::ImageSet;
use crate::batch::{Batch, Field, IGNORE};
use crate::epoch::{Epochs, Order};
use crate::parallel::in_parallel;
use crate::source::Source;

/// Pixels of an image from which on all cores make a batch, as they do where images are decoded.
const LARGE: usize = 64 * 64;

/// How training images are changed; every draw is a function of the seed, the epoch and the example, or of the seed and
/// the step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Augment {
    /// Changes of single images, one after another.
    pub changes: Vec<Augmentation>,
    /// How the images of a batch are mixed.
    pub mixing: Mixing,
    /// Decides all of them.
    pub seed: u64,
}

/// Labelled images in batches of `B`, with `images` (f32 `[B, H, W, C]`, normalized) and `labels` (i32 `[B]`).
///
/// - *Training*: images are augmented, or else prepared as in evaluations. All batches are full: the rest at the
///   end of an epoch is left out of it, so that statistics of a batch are of images alone. Where images are mixed, a
///   batch has `targets` (f32 `[B, classes]`, rows of shares) and `weights` (f32 `[B]`, ones) in place of labels. Where
///   images have weights, these are the `weights`, beside labels, too.
///
/// Images of numbers are moved and cut as bytes are, and stay numbers. Where a set has shares of classes, a batch of
/// training has them as `targets`, too.
/// - *Evaluation*: each image once, in order. After the last one come zeros, labelled [`IGNORE`].
pub struct ImageBatches {
    images: Arc<ImageSet>,
    preprocessing: Preprocessing,
    tables: Vec<[f32; 256]>,
    mean: Vec<u8>,
    /// The number of a black pixel in each channel.
    black: Vec<f32>,
    augment: Augment,
    classes: usize,
    batch: usize,
    epochs: Epochs,
    drops_rest: bool,
}

impl ImageBatches {
    /// Batches of training, of images of so many classes.
    ///
    /// # Errors
    /// As [`ImageBatches::evaluation`], fewer images than a batch has, and an image of another class.
    pub fn training(
        images: Arc<ImageSet>,
        preprocessing: Preprocessing,
        augment: Augment,
        classes: usize,
        batch: usize,
        order: Order,
    ) -> Result<ImageBatches> {
        if batch > images.len() {
            return Err(Error::user(format!(
                "train.batch is {batch}, but there are {} images for training; set it to at most that",
                images.len()
            )));
        }
        let is_class = |label: &i32| usize::try_from(*label).is_ok_and(|label| label < classes);
        if images.weights().is_some() && !augment.mixing.is_none() {
            return Err(Error::user(
                "images that are mixed (image.mixup, image.cutmix) have no weights of their own; leave out the weights or \
                 the keys",
            ));
        }
        if let Some(label) = images.labels().iter().find(|label| !is_class(label)) {
            return Err(Error::user(format!(
                "an image has the label {label}, but there are {classes} classes, numbered from 0; correct the labels"
            )));
        }
        if images.normalization().is_some()
            && let Some(change) = augment.changes.iter().find(|change| change.recolours())
        {
            return Err(Error::user(format!(
                "image.augment has {change}, which changes the colours of bytes, and these images are numbers; leave it \
                 out"
            )));
        }
        let batches = ImageBatches::evaluation(images, preprocessing, batch)?;
        Ok(ImageBatches {
            epochs: Epochs::new(batches.images.len(), order),
            drops_rest: true,
            augment,
            classes,
            ..batches
        })
    }

    /// Batches without augmentation, in order.
    ///
    /// # Errors
    /// A batch of 0; no images, or more than can be numbered in 32 bits; another number of channels than the model
    /// sees.
    pub fn evaluation(images: Arc<ImageSet>, preprocessing: Preprocessing, batch: usize) -> Result<ImageBatches> {
        if batch == 0 {
            return Err(Error::user("train.batch is 0; set it to at least 1"));
        }
        if images.is_empty() || u32::try_from(images.len()).is_err() {
            return Err(Error::user(format!(
                "there are {} images, and must be at least one and less than 2^32; add or leave out some",
                images.len()
            )));
        }
        if preprocessing.mean.len() != images.channels() || preprocessing.std.len() != images.channels() {
            return Err(Error::user(format!(
                "mean and std have {} and {} numbers, but the images {} channels; give one number for each channel",
                preprocessing.mean.len(),
                preprocessing.std.len(),
                images.channels()
            )));
        }
        let seen = preprocessing.normalization();
        if let Some(own) = images.normalization().filter(|own| **own != seen) {
            return Err(Error::user(format!(
                "the images are numbers of the size {:?} by mean {:?} and deviation {:?}, and the model sees the size {:?} by \
                 {:?} and {:?}; give it images that were made for it",
                own.size, own.mean, own.std, seen.size, seen.mean, seen.std
            )));
        }
        let tables = preprocessing.tables();
        Ok(ImageBatches {
            black: tables.iter().map(|table| table[0]).collect(),
            tables,
            mean: preprocessing.mean_bytes(),
            augment: Augment::default(),
            classes: 0,
            batch,
            epochs: Epochs::new(images.len(), Order::InOrder),
            drops_rest: false,
            images,
            preprocessing,
        })
    }

    /// Returns the number of images.
    pub fn examples(&self) -> usize {
        self.images.len()
    }

    /// An image as a model sees it, changed as in an epoch if there is one.
    fn image(&self, number: u32, epoch: Option<u64>) -> Result<Image> {
        let mut image = self.images.image(number as usize)?;
        let epoch = epoch.filter(|_| !self.augment.changes.is_empty());
        if epoch.is_none() || !self.augment.changes.iter().any(|change| change.resizes()) {
            image = self.preprocessing.fitted(image);
        }
        Ok(self.changed(image, number, epoch, [&[0; 3], &self.mean]))
    }

    /// An image that is changed as in an epoch, if there is one, with the samples of black and of the mean colour.
    fn changed<T: Sample>(
        &self,
        mut image: Image<T>,
        number: u32,
        epoch: Option<u64>,
        [black, mean]: [&[T]; 2],
    ) -> Image<T> {
        let Some(epoch) = epoch else { return image };
        let of_epoch = SplitMix64::keyed(SplitMix64::named(self.augment.seed, "augment").next_u64(), epoch).next_u64();
        let mut random = SplitMix64::keyed(of_epoch, u64::from(number));
        let target = Target {
            size: self.preprocessing.size,
            filter: self.preprocessing.filter,
            black,
            mean,
        };
        for change in &self.augment.changes {
            image = change.apply(image, target, &mut random);
        }
        image
    }

    /// The numbers of these images, of a batch with room for `B` of them.
    fn numbers(&self, members: &[u32], epoch: Option<u64>) -> Result<Vec<f32>> {
        let shape = self.preprocessing.shape();
        let size: usize = shape.iter().product();
        let mut numbers = vec![0.0; self.batch * size];
        if self.images.normalization().is_some() {
            for (number, out) in members.iter().zip(numbers.chunks_exact_mut(size)) {
                if let Some(image) = self.images.numbers(*number as usize) {
                    let changed = self.changed(image, *number, epoch, [&self.black, &[0.0; 3]]);
                    out.copy_from_slice(changed.samples());
                }
            }
        } else if self.images.is_in_files() || shape[0] * shape[1] >= LARGE {
            let images = in_parallel(members, |number| self.image(*number, epoch))?;
            for (image, out) in images.iter().zip(numbers.chunks_exact_mut(size)) {
                normalize(image.bytes(), &self.tables, out);
            }
        } else {
            for (number, out) in members.iter().zip(numbers.chunks_exact_mut(size)) {
                normalize(self.image(*number, epoch)?.bytes(), &self.tables, out);
            }
        }
        Ok(numbers)
    }

    /// The batch of these images without changes.
    fn plain(&self, members: &[u32]) -> Result<Batch> {
        self.labelled(members, self.numbers(members, None)?)
    }

    /// A batch of these numbers with the labels of these images.
    fn labelled(&self, members: &[u32], numbers: Vec<f32>) -> Result<Batch> {
        let mut labels: Vec<i32> = members
            .iter()
            .map(|number| self.images.labels()[*number as usize])
            .collect();
        labels.resize(self.batch, IGNORE);
        Ok(self.with_images(
            members,
            numbers,
            vec![("labels".to_string(), Field::i32([self.batch], labels))],
        ))
    }

    fn with_images(&self, members: &[u32], numbers: Vec<f32>, others: Vec<(String, Field)>) -> Batch {
        let [height, width, channels] = self.preprocessing.shape();
        let images = Field::f32([self.batch, height, width, channels], numbers);
        let mut fields = vec![("images".to_string(), images)];
        fields.extend(others);
        Batch {
            fields,
            examples: members.len(),
            tokens: members.len(),
        }
    }

    /// The full batch of a training step.
    fn augmented(&self, members: &[u32], step: u64, epoch: u64) -> Result<Batch> {
        let mut numbers = self.numbers(members, Some(epoch))?;
        let weights = || {
            let weight = |number: &u32| self.images.weights().map_or(1.0, |weights| weights[*number as usize]);
            let weights = members.iter().map(weight).collect();
            ("weights".to_string(), Field::f32([self.batch], weights))
        };
        if self.augment.mixing.is_none() && self.images.shares().is_none() {
            let mut batch = self.labelled(members, numbers)?;
            batch.fields.extend(self.images.weights().map(|_| weights()));
            return Ok(batch);
        }
        let shape @ [height, width, _] = self.preprocessing.shape();
        let mut targets = vec![0.0; self.batch * self.classes];
        for (number, row) in members.iter().zip(targets.chunks_exact_mut(self.classes)) {
            let number = *number as usize;
            match self.images.shares() {
                Some(shares) => row.copy_from_slice(&shares[number * self.classes..][..self.classes]),
                None => row[self.images.labels()[number] as usize] = 1.0,
            }
        }
        let mut random = SplitMix64::keyed(SplitMix64::named(self.augment.seed, "mix").next_u64(), step);
        if let Some(mixture) = self.augment.mixing.draw([height, width], &mut random) {
            mixture.mix_images(&mut numbers, shape);
            mixture.mix_targets(&mut targets, self.classes, [height, width]);
        }
        let fields = vec![
            ("targets".to_string(), Field::f32([self.batch, self.classes], targets)),
            weights(),
        ];
        Ok(self.with_images(members, numbers, fields))
    }
}

impl Source for ImageBatches {
    fn batch(&self, step: u64) -> Result<Batch> {
        let each = self.batches_per_epoch();
        let (epoch, index) = (step / each, step % each);
        if !self.drops_rest {
            return self.eval_batch(index);
        }
        let order = self.epochs.order(epoch);
        let first = index as usize * self.batch;
        self.augmented(&order[first..first + self.batch], step, epoch)
    }

    fn batches_per_epoch(&self) -> u64 {
        if self.drops_rest {
            (self.images.len() / self.batch) as u64
        } else {
            self.eval_batches()
        }
    }

    fn eval_batches(&self) -> u64 {
        self.images.len().div_ceil(self.batch) as u64
    }

    fn batch_bytes(&self) -> Option<usize> {
        let pixels: usize = self.preprocessing.shape().iter().product();
        // The numbers, and the images that become them; a label, or a share of each class and a weight.
        let example = pixels * (size_of::<f32>() + 1) + (self.classes + 1) * size_of::<f32>();
        Some(self.batch * example)
    }

    fn eval_batch(&self, index: u64) -> Result<Batch> {
        let all = self.images.len();
        let first = usize::try_from(index)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.batch)
            .min(all);
        let end = first.saturating_add(self.batch).min(all);
        let members: Vec<u32> = (first..end).map(|number| number as u32).collect();
        self.plain(&members)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_numbers;
