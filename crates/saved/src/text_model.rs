//! Models that are asked about texts of many askers: each text is encoded by itself, and all are computed in batches of
//! one size and a bounded number of tokens, whose programs are compiled before the first text comes.

use lessen_base::{Result, bucket};
use lessen_data::{EncodedText, TextPair};
use lessen_nn::BatchShape;

/// A model that answers about texts.
pub trait TextModel {
    /// What it says about a text.
    type Answer;

    /// The most tokens of a text, special ones among them.
    fn max_length(&self) -> usize;

    /// The most tokens of a batch.
    fn tokens(&self) -> usize;

    /// The most texts of a batch.
    fn room(&self) -> usize;

    /// A text as tokens, cut to `most` of them.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    fn encode(&self, text: &TextPair, most: usize) -> Result<EncodedText>;

    /// Compiles what batches of a layout need, if it is new.
    ///
    /// # Errors
    /// Memory that the device does not have.
    fn prepare(&self, layout: BatchShape) -> Result<()>;

    /// Answers about the texts of a batch, in order. Of a text for which the model has numbers that are NaN or
    /// infinite, the answer is an error.
    ///
    /// # Errors
    /// A failure of the device.
    fn ask(&self, texts: &[&EncodedText]) -> Result<Vec<Result<Self::Answer>>>;

    /// Compiles the programs of all batches, and runs that of the largest.
    ///
    /// # Errors
    /// Memory that the device does not have.
    fn warm_up(&self) -> Result<()> {
        all_layouts(self.room(), self.tokens()).try_for_each(|layout| self.prepare(layout))?;
        let texts = full_batch(self.tokens(), self.max_length());
        self.ask(&texts.iter().collect::<Vec<_>>()).map(drop)
    }
}

/// The tokens of a batch that has room for `room` texts of `longest` tokens, where at most `asked` are asked for: at
/// least one text.
pub(crate) fn tokens_of_batch(asked: usize, longest: usize, room: usize) -> usize {
    asked.min(longest.saturating_mul(room)).max(longest)
}

/// The layouts of all batches of at most `tokens` tokens, with room for `size` texts.
fn all_layouts(size: usize, tokens: usize) -> impl Iterator<Item = BatchShape> {
    let buckets = std::iter::successors(Some(bucket(1)), |last| Some(bucket(last + 1)));
    // The last bucket may hold more tokens than a batch.
    let most = bucket(tokens);
    buckets
        .take_while(move |tokens| *tokens <= most)
        .map(move |tokens| BatchShape::Packed { size, tokens })
}

/// Texts of at most `longest` tokens that fill a batch of `tokens` tokens.
fn full_batch(tokens: usize, longest: usize) -> Vec<EncodedText> {
    let length = |start: usize| longest.min(tokens - start);
    (0..tokens)
        .step_by(longest)
        .map(|start| (vec![0; length(start)], vec![0; length(start)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_has_one_of_the_layouts() {
        let layouts: Vec<BatchShape> = all_layouts(32, 2000).collect();
        let of = |tokens| BatchShape::Packed { size: 32, tokens };
        assert!((1..=2000).all(|tokens| layouts.contains(&of(bucket(tokens)))));
        assert_eq!(layouts.last(), Some(&of(bucket(2000))));
    }

    #[test]
    fn a_full_batch_has_as_many_tokens_as_it_can() {
        let lengths = |tokens, longest| -> Vec<usize> {
            let texts = full_batch(tokens, longest);
            texts.iter().map(|(ids, types)| ids.len().max(types.len())).collect()
        };
        assert_eq!(lengths(10, 4), [4, 4, 2]);
        assert_eq!(lengths(8, 8), [8]);
    }
}
