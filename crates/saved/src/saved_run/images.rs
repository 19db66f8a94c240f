//! Asking a classifier of images about files.

use super::SavedRun;
use super::logits::Logits;
use super::prediction::predicted;
use lessen_base::Result;
use lessen_data::images::{Preprocessing, read_image};
use lessen_data::{Batch, Field};
use lessen_task::goal::{Prediction, SharedGoal};
use std::path::PathBuf;

/// A saved model of images that is ready to be asked, on a device.
pub struct ImagePredictor<'a> {
    run: &'a SavedRun<'a>,
    preprocessing: &'a Preprocessing,
    logits: Logits,
    goal: SharedGoal,
}

impl SavedRun<'_> {
    /// The model on a device, to be asked about images.
    ///
    /// # Errors
    /// A model of texts, and one that cannot be read.
    pub fn image_predictor(&self) -> Result<ImagePredictor<'_>> {
        Ok(ImagePredictor {
            run: self,
            preprocessing: self.saved.reader.preprocessing()?,
            logits: Logits::new(self.session()?),
            goal: self.goal(),
        })
    }
}

impl ImagePredictor<'_> {
    /// Asks about the images of PNG and JPEG files, in batches of `train.batch`; the answers in order.
    ///
    /// # Errors
    /// A file that is no sound image, and one for which the model has numbers that are NaN or infinite.
    pub fn ask(&mut self, files: &[PathBuf]) -> Result<Vec<Prediction>> {
        let (config, model) = (&self.run.config, &self.run.saved.model);
        let [rows, columns, channels] = self.preprocessing.shape();
        let size = files.len().min(config.train.batch).max(1);
        let mut predictions = Vec::with_capacity(files.len());
        for files in files.chunks(size) {
            let mut numbers = Vec::with_capacity(size * rows * columns * channels);
            for file in files {
                numbers.extend(self.preprocessing.numbers(read_image(file)?));
            }
            // All batches have the same layout, so that one program is compiled.
            numbers.resize(size * rows * columns * channels, 0.0);
            let images = Field::f32([size, rows, columns, channels], numbers);
            let batch = Batch {
                fields: vec![("images".to_string(), images)],
                examples: files.len(),
                tokens: files.len(),
            };
            let logits = self.logits.of(model, &batch)?;
            let all = logits.chunks_exact((logits.len() / size).max(1)).take(files.len());
            for (file, logits) in files.iter().zip(all) {
                let prediction = predicted(self.goal.as_ref(), logits);
                predictions.push(prediction.map_err(|error| error.at(file.display()))?);
            }
        }
        Ok(predictions)
    }
}
