//! Texts that are encoded word by word, each word once, where words do not depend on what stands around them.

use std::collections::HashMap;

use lessen_base::Result;

use super::shortcut::Shortcut;
use super::{Tokenizer, ids_of};
use crate::parallel::in_parallel;

/// What always ends a word of BERT. Other white space may be a control character, which does not.
pub(super) const SPACES: [char; 4] = [' ', '\t', '\n', '\r'];

/// Bytes of words and their ids above which all are forgotten.
const MOST_BYTES: usize = 8 << 20;

/// The words that occurred in texts, with their ids.
pub(crate) struct WordIds<'a> {
    tokenizer: &'a Tokenizer,
    /// The special tokens before and after a text.
    around: (Vec<i32>, Vec<i32>),
    max_length: usize,
    known: HashMap<String, Vec<i32>>,
    bytes: usize,
}

impl<'a> WordIds<'a> {
    /// No words yet, for texts that are truncated to `max_length` tokens; none of a tokenizer for which words depend on
    /// others, and where there is no room for words.
    ///
    /// # Errors
    /// Those of the tokenizer.
    pub(crate) fn of(tokenizer: &'a Tokenizer, max_length: usize) -> Result<Option<WordIds<'a>>> {
        if !matches!(tokenizer.shortcut, Shortcut::Words) {
            return Ok(None);
        }
        let around = tokenizer.around_a_text()?;
        let (special, types) = tokenizer.encode_pair("", None, usize::MAX)?;
        let is_plain = special.len() == around.0.len() + around.1.len() && types.iter().all(|own| *own == 0);
        Ok((is_plain && special.len() < max_length).then(|| WordIds {
            tokenizer,
            around,
            max_length,
            known: HashMap::new(),
            bytes: 0,
        }))
    }

    /// The ids of texts, all of type 0, and whether tokens were left out; as [`Tokenizer::encode_cut`] of each.
    ///
    /// # Errors
    /// Those of the tokenizer.
    pub(crate) fn encode(&mut self, texts: &[&str]) -> Result<Vec<(Vec<i32>, bool)>> {
        if self.bytes > MOST_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        let mut new: Vec<&str> = texts.iter().flat_map(|text| words(text)).collect();
        new.retain(|word| !self.known.contains_key(*word));
        new.sort_unstable();
        new.dedup();
        let found = in_parallel(&new, |word| Ok(ids_of(&self.tokenizer.encoding(word)?)))?;
        for (word, ids) in new.into_iter().zip(found) {
            self.bytes += word.len() + size_of_val(&ids[..]);
            self.known.insert(word.to_string(), ids);
        }
        Ok(texts.iter().map(|text| self.joined(text)).collect())
    }

    /// The ids of a text whose words are known.
    fn joined(&self, text: &str) -> (Vec<i32>, bool) {
        let (before, after) = &self.around;
        let room = self.max_length - before.len() - after.len();
        let mut ids = before.clone();
        for own in words(text).filter_map(|word| self.known.get(word)) {
            ids.extend(own);
        }
        let count = ids.len() - before.len();
        if self.tokenizer.cuts_left {
            ids.drain(before.len()..before.len() + count.saturating_sub(room));
        } else {
            ids.truncate(before.len() + room);
        }
        ids.extend(after);
        (ids, count > room)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(SPACES).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_ids_of_the_general_tokenizer() {
        let parts = [
            "low",
            "Lower",
            "lowest",
            "newer,",
            "(wide)",
            "café",
            "cafe\u{301}",
            "今天天气",
            "[MASK]",
            "x[SEP]y",
            "don't",
            "\u{301}x",
            "a\u{85}b",
            "a\u{a0}b",
            "a\u{2003}b",
            "x\u{0}y",
            "\u{200d}",
            "unseen\u{1F600}",
            "",
        ];
        let spaces = [" ", "  ", "\t", "\n", "\r\n", "\u{3000}"];
        let mut random = lessen_base::SplitMix64::new(5);
        let mut text = || {
            let mut text = String::new();
            for _ in 0..random.below(12) {
                text.push_str(parts[random.below(parts.len() as u64) as usize]);
                text.push_str(spaces[random.below(spaces.len() as u64) as usize]);
            }
            text
        };
        let texts: Vec<String> = (0..400).map(|_| text()).collect();
        let given = texts.iter().cloned().map(Ok);
        let mut tokenizer = Tokenizer::word_piece_of(given, 60, true).unwrap();
        for cuts_left in [false, true] {
            tokenizer.cuts_left = cuts_left;
            for max_length in [3, 8, 100] {
                let mut words = WordIds::of(&tokenizer, max_length).unwrap().unwrap();
                // Of all words at once, and of words that were seen before.
                for block in [&texts[..300], &texts[200..]] {
                    let block: Vec<&str> = block.iter().map(String::as_str).collect();
                    for ((ids, is_cut), text) in words.encode(&block).unwrap().into_iter().zip(block) {
                        let (wanted, types, wanted_cut) = tokenizer.encode_cut(text, None, max_length).unwrap();
                        assert_eq!((ids, is_cut), (wanted, wanted_cut), "{text:?} {max_length}");
                        assert!(types.iter().all(|own| *own == 0));
                    }
                }
            }
        }
        assert!(WordIds::of(&tokenizer, 2).unwrap().is_none());
        let pairs = Tokenizer::byte_pairs_of([Ok("low".to_string())], 300).unwrap();
        assert!(WordIds::of(&pairs, 9).unwrap().is_none());
    }
}
