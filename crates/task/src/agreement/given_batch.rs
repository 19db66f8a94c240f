//! Batches that a program hands over one by one.

use super::CheckedTask;
use crate::formats::KnownModel;
use lessen_base::{Error, Result};
use lessen_data::Batch;
use lessen_data::memory::DataInMemory;

impl CheckedTask {
    /// The examples of the training split of data in memory as one batch, read and encoded as the task's own data is:
    /// with its vocabulary, classes and scales. `step` decides how images are augmented.
    ///
    /// # Errors
    /// Data of another kind, or that does not fit the task; texts that make more than one batch of windows; examples
    /// with weights where the task's have none, and without where they have some.
    pub fn batch_of(&self, data: &DataInMemory, step: u64) -> Result<Batch> {
        let (format, reader) = (self.config.data.format.format(), &self.data()?.reader);
        if !format.takes(data) {
            return Err(Error::user(format!(
                "a batch is {}, which {} does not read; give what the run's data is",
                data.word(),
                self.config.place("data.format")
            )));
        }
        let mut config = self.config.clone().for_whole_data();
        (config.train.tokens, config.data.group, config.data.shuffle) = (0, false, false);
        if let Some(examples) = data.examples() {
            config.train.batch = examples;
        }
        let names = self.goal.class_names();
        let known = KnownModel {
            classes: (!names.is_empty()).then(|| names.to_vec()),
            channels: self.model.image().map(|[.., channels]| channels),
            schema: reader.table().ok().cloned(),
        };
        let corpus = format.read(&config, &known, Some(data))?;
        if corpus.has_weights() != self.fine_tuning.criterion.weighs_examples {
            return Err(Error::user(
                "either the examples of a batch or those of the run's data have weights; give weights to both, or to none",
            ));
        }
        let source = corpus.training(&config, reader)?;
        match source.batches_per_epoch() {
            1 => source.batch(step),
            batches => Err(Error::user(format!(
                "the texts make {batches} batches of {} windows; give less text at once",
                config.train.batch
            ))),
        }
    }
}
