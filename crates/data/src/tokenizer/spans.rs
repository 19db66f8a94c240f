//! What stands where in the tokens of a text: words and characters.

use lessen_base::Result;

use super::{Tokenizer, ids_of, not_encoded};

/// Token ids, and for each the bytes of the text that it stands for: the first one and the one after the last.
pub(crate) type TokensWithSpans = (Vec<i32>, Vec<(usize, usize)>);

impl Tokenizer {
    /// Encodes words with spaces between, without special tokens: each id with the number of its word, or none for a
    /// token of no word, such as a space.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_words(&self, words: &[String]) -> Result<Vec<(i32, Option<usize>)>> {
        let text = words.join(" ");
        let encoding = self.inner.encode(text, false).map_err(not_encoded)?;
        let mut ends = Vec::with_capacity(words.len());
        for word in words {
            ends.push(ends.last().map_or(0, |end| end + 1) + word.len());
        }
        // A token may begin with the space before its word: its last byte tells.
        let word_of = |&(start, end): &(usize, usize)| {
            let last = end.checked_sub(1).filter(|_| end > start)?;
            let word = ends.partition_point(|end| *end <= last);
            (word < words.len() && last + words[word].len() >= ends[word]).then_some(word)
        };
        let words_of = encoding.get_offsets().iter().map(word_of);
        Ok(ids_of(&encoding).into_iter().zip(words_of).collect())
    }

    /// Encodes a text without special tokens: ids, and for each the bytes of the text that it stands for.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(crate) fn encode_spans(&self, text: &str) -> Result<TokensWithSpans> {
        let encoding = self.inner.encode(text, false).map_err(not_encoded)?;
        Ok((ids_of(&encoding), encoding.get_offsets().to_vec()))
    }
}
