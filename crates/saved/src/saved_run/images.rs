//! Asking a classifier of images, in files or in memory.

use super::SavedRun;
use super::logits::Logits;
use super::prediction::predicted;
use lessen_base::{Error, Result};
use lessen_data::images::{Image, Preprocessing, read_image};
use lessen_task::goal::{Prediction, SharedGoal};
use std::borrow::Cow;
use std::path::PathBuf;

/// An image to be asked about.
#[derive(Clone, Debug, PartialEq)]
pub enum ImageInput {
    /// A PNG or JPEG file.
    File(PathBuf),
    /// Height, width and channels (1 or 3) of an image of any size, and its bytes: row by row from the top, the
    /// channels of a pixel together.
    Pixels([usize; 3], Vec<u8>),
    /// The numbers that the model reads, resized and normalized already, in the same order.
    Numbers(Vec<f32>),
}

impl From<Image> for ImageInput {
    fn from(image: Image) -> ImageInput {
        ImageInput::Pixels(image.shape(), image.bytes().to_vec())
    }
}

impl ImageInput {
    /// The numbers that a model reads; `number` counts the images from 1.
    fn numbers(&self, preprocessing: &Preprocessing, number: usize) -> Result<Cow<'_, [f32]>> {
        let image = match self {
            ImageInput::File(file) => read_image(file)?,
            ImageInput::Pixels(shape, bytes) => {
                let [height, width, channels] = *shape;
                let count = height
                    .checked_mul(width)
                    .and_then(|pixels| pixels.checked_mul(channels));
                if bytes.is_empty() || count != Some(bytes.len()) || ![1, 3].contains(&channels) {
                    return Err(Error::user(format!(
                        "image {number} has {} bytes in the shape {shape:?}; give height, width and 1 or 3 channels, and as \
                         many bytes",
                        bytes.len()
                    )));
                }
                Image::new(*shape, bytes.clone())
            }
            ImageInput::Numbers(numbers) => {
                let shape = preprocessing.shape();
                if numbers.len() != shape.iter().product::<usize>() {
                    return Err(Error::user(format!(
                        "image {number} has {} numbers, and the model reads {shape:?}; give as many",
                        numbers.len()
                    )));
                }
                return Ok(Cow::Borrowed(numbers));
            }
        };
        Ok(Cow::Owned(preprocessing.numbers(image)))
    }

    /// The place of an answer that is not sound, in messages.
    fn place(&self, number: usize) -> String {
        match self {
            ImageInput::File(file) => file.display().to_string(),
            ImageInput::Pixels(..) | ImageInput::Numbers(_) => format!("image {number}"),
        }
    }
}

/// A saved model of images that is ready to be asked, on a device.
pub struct ImagePredictor {
    preprocessing: Preprocessing,
    batch: usize,
    logits: Logits,
    goal: SharedGoal,
}

impl SavedRun {
    /// The model on a device, to be asked about images.
    ///
    /// # Errors
    /// A model of texts, and one that cannot be read.
    pub fn image_predictor(&self) -> Result<ImagePredictor> {
        Ok(ImagePredictor {
            preprocessing: self.saved.reader.preprocessing()?.clone(),
            batch: self.config.train.batch,
            logits: self.logits()?,
            goal: self.goal(),
        })
    }
}

impl ImagePredictor {
    /// Asks about images, in batches of `train.batch`; the answers in order.
    ///
    /// # Errors
    /// A file that is no sound image, an array of another size than it says, and an image for which the model has
    /// numbers that are NaN or infinite.
    pub fn ask(&self, images: &[ImageInput]) -> Result<Vec<Prediction>> {
        let numbered = images.iter().zip(1..).zip(self.logits(images)?);
        let answers = numbered.map(|((image, number), logits)| {
            let prediction = predicted(self.goal.as_ref(), &logits);
            prediction.map_err(|error| error.at(image.place(number)))
        });
        answers.collect()
    }

    /// The numbers that the model gives for images, such as the logits of its classes, in batches of `train.batch`.
    ///
    /// # Errors
    /// A file that is no sound image, an array of another size than it says.
    pub fn logits(&self, images: &[ImageInput]) -> Result<Vec<Vec<f32>>> {
        let size = images.len().min(self.batch).max(1);
        let numbers = |number: usize| images[number].numbers(&self.preprocessing, number + 1);
        self.logits
            .of_arrays((images.len(), size), self.preprocessing.shape(), numbers)
    }
}
