//! Sources of texts that follow each other without padding.

use std::collections::BTreeSet;
use std::ops::Range;

use lessen_base::Result;

use crate::batch::Batch;
use crate::batching::{Batches, Members};
use crate::question_batches::QuestionBatches;
use crate::source::Source;

/// What a batch is for.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    /// A training step.
    Step(u64),
    /// An evaluation, in which it has this number.
    Evaluation(u64),
}

/// Encoded texts and which of them make a batch: all that a [`Source`] of rows of texts needs.
pub(crate) trait PackedTexts: Send + Sync {
    /// Which texts make a batch.
    fn batches(&self) -> &Batches;

    /// The number of tokens of a text in its row.
    fn tokens_of(&self, text: usize) -> usize;

    /// The batch of these texts.
    fn collect(&self, texts: &Members, turn: Turn) -> Result<Batch>;

    /// See [`Source::unknown_tokens`].
    fn unknown(&self) -> Option<(u64, u64)>;

    /// See [`Source::cut_texts`].
    fn cut(&self) -> Option<(u64, u64)>;

    /// See [`Source::masked_places`].
    fn places_for(&self, tokens: usize) -> Option<usize> {
        let _ = tokens;
        None
    }

    /// See [`Source::questions`].
    fn as_questions(&self) -> Option<&QuestionBatches> {
        None
    }

    /// For how many texts and tokens the batch of these texts has room.
    fn layout(&self, texts: &Members, turn: Turn) -> [usize; 2] {
        let length = |text| self.tokens_of(text);
        let (texts, tokens) = match turn {
            Turn::Step(_) => self.batches().layout(texts, length),
            Turn::Evaluation(_) => self.batches().eval_layout(texts, length),
        };
        [texts, tokens]
    }

    /// The texts of an evaluation batch.
    fn texts_of(&self, index: u64) -> Members {
        self.batches().of_index(index, |text| self.tokens_of(text))
    }

    /// The number of tokens of a batch.
    fn tokens_of_all(&self, texts: &Members) -> usize {
        texts.iter().map(|text| self.tokens_of(text)).sum()
    }
}

impl<T: PackedTexts> Source for T {
    fn batch(&self, step: u64) -> Result<Batch> {
        self.collect(&self.batches().of_step(step), Turn::Step(step))
    }

    fn batches_per_epoch(&self) -> u64 {
        self.batches().per_epoch()
    }

    fn eval_batches(&self) -> u64 {
        self.batches().evaluations()
    }

    fn eval_batch(&self, index: u64) -> Result<Batch> {
        self.collect(&self.texts_of(index), Turn::Evaluation(index))
    }

    fn examples_of(&self, index: u64) -> Option<Vec<usize>> {
        Some(self.texts_of(index).iter().collect())
    }

    fn layouts(&self, steps: Range<u64>) -> BTreeSet<(usize, usize)> {
        self.batches().layouts(steps, |text| self.tokens_of(text))
    }

    fn eval_layouts(&self, batches: Range<u64>) -> BTreeSet<(usize, usize)> {
        self.batches().eval_layouts(batches, |text| self.tokens_of(text))
    }

    fn unknown_tokens(&self) -> Option<(u64, u64)> {
        self.unknown()
    }

    fn cut_texts(&self) -> Option<(u64, u64)> {
        self.cut()
    }

    fn masked_places(&self, tokens: usize) -> Option<usize> {
        self.places_for(tokens)
    }

    fn questions(&self) -> Option<&QuestionBatches> {
        self.as_questions()
    }
}
