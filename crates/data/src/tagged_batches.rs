//! Batches of sentences whose words have labels.

use std::collections::BTreeSet;
use std::ops::Range;

use lessen_base::{Error, Result};

use crate::batch::{Batch, Field, IGNORE};
use crate::batching::{Batches, Batching, Members};
use crate::bucket::bucket;
use crate::epoch::Order;
use crate::example_batches::check_sizes;
use crate::packing::Row;
use crate::source::Source;
use crate::tagged::Sentences;
use crate::tokenizer::Tokenizer;
use crate::tokens::count_in;

/// Sentences, encoded once and served in batches without padding; see [`Batch`] for the fields. `labels` (i32 `[1, N]`)
/// are those of the words at their first tokens, and [`IGNORE`] elsewhere.
pub struct TaggedBatches {
    tokens: Vec<i32>,
    labels: Vec<i32>,
    /// Start of each sentence in `tokens`, then the end of the last one.
    starts: Vec<usize>,
    pad: i32,
    /// How many tokens stand for what the vocabulary lacks, if it has a token for that.
    unknown: Option<u64>,
    batches: Batches,
}

impl TaggedBatches {
    /// Encodes sentences, their words with spaces between, truncated to `max_length` tokens, for batches of `batch`
    /// (`B`) sentences.
    ///
    /// # Errors
    /// No sentences; a batch or length of 0; a length that leaves no room for words beside the special tokens; a text
    /// that the tokenizer cannot encode.
    pub fn new(
        sentences: &Sentences,
        tokenizer: &Tokenizer,
        max_length: usize,
        batch: usize,
        order: Order,
    ) -> Result<TaggedBatches> {
        check_sizes(max_length, batch)?;
        if sentences.words.is_empty() {
            return Err(Error::user(
                "there are no sentences to make batches of; add some to the data",
            ));
        }
        let (before, after) = tokenizer.around_a_text()?;
        let special = before.len() + after.len();
        if max_length <= special {
            return Err(Error::user(format!(
                "a length of {max_length} leaves no room for words beside {special} special tokens; raise data.max_length"
            )));
        }
        let (mut tokens, mut labels, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for (words, own) in sentences.words.iter().zip(&sentences.labels) {
            tokens.extend(&before);
            labels.resize(tokens.len(), IGNORE);
            let mut last = None;
            for (id, word) in tokenizer.encode_words(words)?.into_iter().take(max_length - special) {
                tokens.push(id);
                labels.push(word.filter(|_| word != last).map_or(IGNORE, |word| own[word]));
                last = word.or(last);
            }
            tokens.extend(&after);
            if starts.last() == Some(&tokens.len()) {
                tokens.push(tokenizer.pad_id());
            }
            labels.resize(tokens.len(), IGNORE);
            starts.push(tokens.len());
        }
        Ok(TaggedBatches {
            batches: Batches::new(starts.len() - 1, Batching::Examples(batch), order, |_| 0)?,
            unknown: tokenizer.unknown_id().map(|id| count_in(&tokens, id)),
            tokens,
            labels,
            starts,
            pad: tokenizer.pad_id(),
        })
    }

    /// Returns the number of sentences.
    pub fn sentences(&self) -> usize {
        self.starts.len() - 1
    }

    fn tokens_of(&self, sentence: usize) -> usize {
        self.starts[sentence + 1] - self.starts[sentence]
    }

    /// Returns the number of tokens of a batch.
    fn tokens_of_all(&self, members: &Members) -> usize {
        members.iter().map(|sentence| self.tokens_of(sentence)).sum()
    }

    fn collect(&self, members: &Members) -> Batch {
        let (examples, real) = (members.len(), self.tokens_of_all(members));
        let mut row = Row::new(self.batches.room(examples), real, self.pad);
        let mut labels = Vec::with_capacity(bucket(real));
        for sentence in members.iter() {
            let of = self.starts[sentence]..self.starts[sentence + 1];
            let (tokens, _) = row.add(of.len());
            tokens.copy_from_slice(&self.tokens[of.clone()]);
            labels.extend(&self.labels[of]);
        }
        let n = row.tokens().len();
        labels.resize(n, IGNORE);
        let mut fields = row.into_fields();
        fields.push(("labels".into(), Field::i32([1, n], labels)));
        Batch {
            fields,
            examples,
            tokens: real,
        }
    }
}

impl Source for TaggedBatches {
    fn batch(&self, step: u64) -> Batch {
        self.collect(&self.batches.of_step(step))
    }

    fn batches_per_epoch(&self) -> u64 {
        self.batches.per_epoch()
    }

    fn eval_batches(&self) -> u64 {
        self.batches.in_order()
    }

    fn unknown_tokens(&self) -> Option<(u64, u64)> {
        self.unknown.map(|count| (count, self.tokens.len() as u64))
    }

    fn eval_batch(&self, index: u64) -> Batch {
        self.collect(&self.batches.of_index(index))
    }

    fn layouts(&self, steps: Range<u64>) -> BTreeSet<(usize, usize)> {
        self.batches.layouts(steps, |sentence| self.tokens_of(sentence))
    }

    fn eval_layouts(&self, batches: Range<u64>) -> BTreeSet<(usize, usize)> {
        self.batches.eval_layouts(batches, |sentence| self.tokens_of(sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(all: &[&str]) -> Sentences {
        let words: Vec<Vec<String>> = all
            .iter()
            .map(|sentence| sentence.split(' ').map(str::to_string).collect())
            .collect();
        let labels = words.iter().map(|words| (0..words.len() as i32).collect()).collect();
        Sentences { words, labels }
    }

    #[test]
    fn the_first_token_of_a_word_has_its_label() {
        // a is 5, b is 6, a space is unknown (1).
        let tokenizer = Tokenizer::marked_characters(["ab"], 1);
        let data = sentences(&["ab b", "a", "aaaa b"]);
        let source = TaggedBatches::new(&data, &tokenizer, 6, 2, Order::InOrder).unwrap();
        let batch = source.batch(0);
        let ints = |batch: &Batch, name: &str| batch.get(name).unwrap().as_i32().unwrap().to_vec();
        assert_eq!(ints(&batch, "tokens")[..9], [2, 5, 6, 1, 6, 3, 2, 5, 3]);
        let i = IGNORE;
        assert_eq!(ints(&batch, "labels")[..10], [i, 0, i, i, 1, i, i, 0, i, i]);
        assert_eq!(ints(&batch, "starts"), [0, 6, 9]);
        assert_eq!((batch.examples, batch.tokens, batch.labels()), (2, 9, 3));
        // A word that does not fit has no label.
        let batch = source.batch(1);
        assert_eq!(ints(&batch, "labels")[..6], [i, 0, i, i, i, i]);
        assert_eq!(source.largest_layout(0..2), Some((2, 16)));
    }

    #[test]
    fn byte_level_words_are_those_of_the_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let vocab = r#"{"a":0,"b":1,"Ġ":2,"ab":3,"Ġab":4}"#;
        std::fs::write(dir.path().join("vocab.json"), vocab).unwrap();
        std::fs::write(dir.path().join("merges.txt"), "a b\nĠ ab\n").unwrap();
        let tokenizer = Tokenizer::from_dir(dir.path()).unwrap();
        let words: Vec<String> = ["ab", "abb", "ab"].map(str::to_string).into();
        let encoded = tokenizer.encode_words(&words).unwrap();
        assert_eq!(encoded, [(3, Some(0)), (4, Some(1)), (1, Some(1)), (4, Some(2))]);
    }
}
