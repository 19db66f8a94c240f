//! Labelled texts as token ids.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::cache::TokenCache;
use crate::encoded_rows::{EncodedRows, Numbers, RowWriter};
use crate::examples::{Examples, TextPair};
use crate::labels::Labels;
use crate::parallel::in_parallel;
use crate::tokenizer::{Tokenizer, WordIds};

/// Most texts, and about the most bytes of them, that are encoded at once.
pub(crate) const BLOCK: (usize, usize) = (1 << 13, 1 << 20);

/// Labelled texts as token ids, in memory or in a cache.
pub struct EncodedExamples {
    /// With token types beside.
    rows: EncodedRows,
    labels: Labels,
    weights: Option<Arc<[f32]>>,
    pad: i32,
}

impl EncodedExamples {
    /// Encodes the examples, truncated to `max_length` tokens. A text without tokens gets a token of padding, so that
    /// every model has a state for it. Large data goes to the cache.
    ///
    /// # Errors
    /// No examples; a length of 0, or that leaves no room for text beside the special tokens; a text that the tokenizer
    /// cannot encode; a file or cache that cannot be read or written.
    pub fn new(
        examples: &Examples,
        tokenizer: &Tokenizer,
        max_length: usize,
        cache: Option<&TokenCache>,
    ) -> Result<EncodedExamples> {
        if examples.is_empty() {
            return Err(Error::user(
                "there are no examples to make batches of; add some to the data",
            ));
        }
        if max_length == 0 {
            return Err(Error::user("data.max_length is 0; set it to at least 1"));
        }
        let unknown = tokenizer.unknown_id();
        let key = || {
            let (digest, examples) = (tokenizer.digest(), examples.key());
            format!("cut examples {max_length} {unknown:?}\n{digest:08x}\n{examples}")
        };
        let entry = cache.and_then(|cache| cache.entry(examples.file_bytes(), key()));
        let numbers = Numbers {
            id: (tokenizer.vocab_size() - 1) as i32,
            unknown,
            beside: LARGEST_TYPE,
            length: i32::try_from(max_length).unwrap_or(i32::MAX),
        };
        let fill = |writer: &mut RowWriter| encode(examples, tokenizer, max_length, writer);
        Ok(EncodedExamples {
            rows: EncodedRows::new(entry, numbers, Some(examples.len()), fill)?,
            labels: examples.labels.clone(),
            weights: examples.weights.clone(),
            pad: tokenizer.pad_id(),
        })
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no examples, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of tokens of an example.
    pub fn tokens_of(&self, example: usize) -> usize {
        self.rows.tokens_of(example)
    }

    /// How many tokens stand for what the vocabulary lacks, and how many there are; see [`Tokens::unknown`].
    pub(crate) fn unknown(&self) -> Option<(u64, u64)> {
        self.rows.unknown()
    }

    /// How many texts were truncated, and how many there are.
    pub fn cut(&self) -> (u64, u64) {
        (self.rows.cut(), self.len() as u64)
    }

    /// The labels, one for each example.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The weight of each example in the loss of training, if they have some.
    pub(crate) fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// The padding id.
    pub(crate) fn pad(&self) -> i32 {
        self.pad
    }

    /// Reads ids and token types of an example into places of its length.
    ///
    /// # Errors
    /// A cache that cannot be read any more.
    pub(crate) fn read(&self, example: usize, tokens: &mut [i32], types: &mut [i32]) -> Result<()> {
        self.rows.read(example, tokens, types)
    }
}

/// No tokenizer has a larger token type.
const LARGEST_TYPE: i32 = 0xFF;

/// Encodes all examples, block by block.
fn encode(examples: &Examples, tokenizer: &Tokenizer, max_length: usize, writer: &mut RowWriter) -> Result<()> {
    let mut words = WordIds::of(tokenizer, max_length)?;
    let mut add = |block: &[TextPair]| -> Result<()> {
        let singles: Option<Vec<&str>> = block.iter().map(|(a, b)| b.is_none().then_some(a.as_str())).collect();
        let encoded = match (&mut words, singles) {
            (Some(words), Some(singles)) => {
                let encoded = words.encode(&singles)?.into_iter();
                encoded.map(|(ids, is_cut)| (vec![0; ids.len()], ids, is_cut)).collect()
            }
            _ => in_parallel(block, |(a, b)| {
                let (ids, types, is_cut) = tokenizer.encode_cut(a, b.as_deref(), max_length)?;
                Ok((types, ids, is_cut))
            })?,
        };
        for (mut types, mut ids, is_cut) in encoded {
            if ids.is_empty() {
                (ids, types) = (vec![tokenizer.pad_id()], vec![0]);
            }
            writer.add(&ids, &types)?;
            writer.count_cut(usize::from(is_cut));
        }
        Ok(())
    };
    let (mut block, mut bytes) = (Vec::new(), 0);
    for pair in examples.texts() {
        let pair = pair?;
        bytes += pair.0.len() + pair.1.as_ref().map_or(0, String::len);
        block.push(pair);
        if block.len() == BLOCK.0 || bytes >= BLOCK.1 {
            add(&block)?;
            block.clear();
            bytes = 0;
        }
    }
    add(&block)
}
