//! Asking a model about random batches of one size, to measure how long its answers take.

use super::SavedRun;
use super::logits::Logits;
use lessen_base::{Result, SplitMix64};
use lessen_data::{Batch, EncodedText, Field, packed_batch};

/// Batches that are asked about in turn.
const BATCHES: usize = 4;

/// A saved model with random batches of one size.
pub struct RandomBatches {
    logits: Logits,
    batches: Vec<Batch>,
    next: usize,
    length: Option<usize>,
}

/// Random texts of `length` tokens each, for a vocabulary of this size.
pub fn random_texts(count: usize, length: usize, vocab: usize, random: &mut SplitMix64) -> Vec<EncodedText> {
    let text = |_| {
        let ids = (0..length).map(|_| random.below(vocab.max(1) as u64) as i32);
        (ids.collect(), vec![0; length])
    };
    (0..count).map(text).collect()
}

impl SavedRun {
    /// The model on a device, to be asked about batches of `size` random images, or texts of `length` tokens; without a
    /// length, of as many as the model reads, but 128 at most.
    ///
    /// # Errors
    /// More tokens than the model has positions; a model that cannot be read.
    pub fn random_batches(&self, size: usize, length: Option<usize>) -> Result<RandomBatches> {
        let (model, mut random) = (&self.saved.model, SplitMix64::new(1));
        let length = match (model.image(), length) {
            (Some(_), _) => None,
            (None, Some(length)) => {
                let fits = model.check_length(length);
                fits.map_err(|error| error.at(format!("--length {length}")))?;
                Some(length)
            }
            (None, None) => Some(model.max_length().unwrap_or(LENGTH).min(LENGTH)),
        };
        let mut batch = || match (model.image(), length) {
            (Some([rows, columns, channels]), _) => {
                let shape = [size, rows, columns, channels];
                let count: usize = shape.iter().product();
                let numbers = (0..count).map(|_| (2.0 * random.unit() - 1.0) as f32).collect();
                Batch {
                    fields: vec![("images".to_string(), Field::f32(shape, numbers))],
                    examples: size,
                    tokens: size,
                }
            }
            (None, length) => {
                let texts = random_texts(size, length.unwrap_or(1), model.vocab_size(), &mut random);
                packed_batch(&texts, size, 0)
            }
        };
        Ok(RandomBatches {
            batches: (0..BATCHES).map(|_| batch()).collect(),
            logits: self.logits()?,
            next: 0,
            length,
        })
    }
}

/// Most tokens of a text where nothing else is said.
pub const LENGTH: usize = 128;

impl RandomBatches {
    /// The tokens of a text; none for images.
    pub fn length(&self) -> Option<usize> {
        self.length
    }

    /// The logits of the next batch, and how many there are of an example or of a token.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn ask_for_logits(&mut self) -> Result<(Vec<f32>, usize)> {
        let batch = &self.batches[self.next];
        self.next = (self.next + 1) % self.batches.len();
        Ok((self.logits.of(batch)?, self.logits.width(batch)?))
    }

    /// Asks about the next batch.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn ask(&mut self) -> Result<()> {
        self.ask_for_logits().map(drop)
    }
}
