//! What stands where in the tokens of a text: words, characters, and the special tokens around.

use lessen_base::{Error, Result};
use tokenizers::{Encoding, Token};

use super::{Tokenizer, ids_of, not_encoded};

/// The special tokens that a tokenizer puts around a pair of texts, and the token types of the pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AroundPair {
    /// Before the first text.
    pub(crate) before: Vec<i32>,
    /// Between the two.
    pub(crate) between: Vec<i32>,
    /// After the second one.
    pub(crate) after: Vec<i32>,
    /// The types of `before`, the first text, `between`, the second text, and `after`.
    pub(crate) types: [Vec<i32>; 5],
}

impl AroundPair {
    /// The number of special tokens.
    pub(crate) fn len(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }
}

/// Token ids, and the first byte of what each stands for in its text and the one behind the last.
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

    /// Returns the special tokens that it puts before and after a single text.
    ///
    /// # Errors
    /// A template that cannot be applied.
    pub fn around_a_text(&self) -> Result<(Vec<i32>, Vec<i32>)> {
        let text = Encoding::from_tokens(vec![Token::new(0, String::new(), (0, 0))], 0);
        let whole = self.inner.post_process(text, None, true).map_err(not_encoded)?;
        let (ids, special) = (ids_of(&whole), whole.get_special_tokens_mask());
        let before = special.iter().take_while(|&&special| special == 1).count();
        Ok((
            ids[..before].to_vec(),
            ids.get(before + 1..).unwrap_or_default().to_vec(),
        ))
    }

    /// The special tokens that it puts around a pair of texts, the first before the second.
    ///
    /// # Errors
    /// A template that cannot be applied, or has the texts in another order.
    pub(crate) fn around_a_pair(&self) -> Result<AroundPair> {
        let text = |id, kind| {
            let mut text = Encoding::from_tokens(vec![Token::new(id, String::new(), (0, 0))], kind);
            text.set_type_ids(vec![kind]);
            text
        };
        let whole = self
            .inner
            .post_process(text(0, 0), Some(text(1, 1)), true)
            .map_err(not_encoded)?;
        let special = whole.get_special_tokens_mask();
        let places: Vec<usize> = (0..special.len()).filter(|&place| special[place] == 0).collect();
        let ids = ids_of(&whole);
        let &[first, second] = &places[..] else {
            return Err(unusable());
        };
        if (ids[first], ids[second]) != (0, 1) {
            return Err(unusable());
        }
        let types: Vec<i32> = whole.get_type_ids().iter().map(|&kind| kind as i32).collect();
        let parts = [
            0..first,
            first..first + 1,
            first + 1..second,
            second..second + 1,
            second + 1..ids.len(),
        ];
        Ok(AroundPair {
            before: ids[..first].to_vec(),
            between: ids[first + 1..second].to_vec(),
            after: ids[second + 1..].to_vec(),
            types: parts.map(|part| types[part].to_vec()),
        })
    }
}

fn unusable() -> Error {
    Error::user(
        "the tokenizer's template does not put a text before its pair; use the tokenizer that belongs to the model",
    )
}
