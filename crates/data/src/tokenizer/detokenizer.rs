//! The text of tokens that come one after another, as far as no later token can change it.

use lessen_base::Result;
use serde_json::Value;

use super::Tokenizer;
use super::decoding::parts;

/// Character that a decoder writes for bytes that are no text.
const BROKEN: char = '\u{fffd}';

/// Tokens of an open run of bytes, which one more byte can make no text, and of an end that a letter can change.
const FOLLOWERS: [&str; 2] = ["<0xFF>", "a"];

/// A text whose tokens come one after another, after others. Its settled text is what stays the same whatever follows:
/// of a decoder that joins bytes, the text before an open run of them or an incomplete character.
pub(super) struct Detokenizer<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens that show by what they change which text is not settled; none if any text may change.
    followers: Option<Vec<String>>,
    /// Whether the decoder joins runs of bytes.
    has_runs: bool,
    /// Whether a few tokens before a new one suffice to decode it.
    forgets: bool,
    /// The newest tokens.
    window: Vec<String>,
    /// The text of the window.
    text: String,
    /// The text of the window without new tokens.
    before: String,
    /// Size in bytes of the text of the window that is not new, or was returned; none as long as it is that which the
    /// window shares with `before`.
    returned: Option<usize>,
}

impl<'a> Detokenizer<'a> {
    /// A text after the text of `before`.
    ///
    /// # Errors
    /// A failure of the tokenizer's decoder.
    pub(super) fn new(tokenizer: &'a Tokenizer, before: &[i32]) -> Result<Detokenizer<'a>> {
        let decoder = tokenizer.decoder()?;
        let mut own = Detokenizer {
            tokenizer,
            followers: followers(&decoder),
            has_runs: parts(&decoder).iter().any(|part| part["type"] == "ByteFallback"),
            forgets: parts(&decoder)
                .iter()
                .all(|part| part["stop"].as_u64().unwrap_or(0) == 0),
            window: before.iter().filter_map(|&id| tokenizer.written(id)).collect(),
            text: String::new(),
            before: String::new(),
            returned: None,
        };
        own.text = tokenizer.joined(own.window.clone())?;
        let open = own.text.len() - own.settled(&own.window, &own.text)?;
        own.forget(open)?;
        own.before.clone_from(&own.text);
        Ok(own)
    }

    /// Takes the next tokens; returns the text that is settled with them.
    ///
    /// # Errors
    /// A failure of the tokenizer's decoder.
    pub(super) fn push(&mut self, ids: &[i32]) -> Result<String> {
        let known = self.window.len();
        let tokens = ids.iter().filter_map(|&id| self.tokenizer.written(id));
        self.window.extend(tokens);
        if self.window.len() == known {
            return Ok(String::new());
        }
        self.text = self.tokenizer.joined(self.window.clone())?;
        let (start, end) = (self.start(), self.settled(&self.window, &self.text)?);
        if start >= end {
            return Ok(String::new());
        }
        let settled = self.text[start..end].to_string();
        self.returned = Some(end);
        if end == self.text.len() {
            self.forget(0)?;
            self.returned = Some(self.text.len());
        }
        Ok(settled)
    }

    /// The text after the settled one, which later tokens may change.
    pub(super) fn unsettled(&self) -> &str {
        &self.text[self.start()..]
    }

    /// Where the new text that was not returned begins.
    fn start(&self) -> usize {
        let start = self.returned.unwrap_or_else(|| shared(&self.before, &self.text));
        start.min(self.text.len())
    }

    /// Size in bytes of the text of tokens that no later token can change.
    fn settled(&self, tokens: &[String], text: &str) -> Result<usize> {
        let Some(followers) = &self.followers else {
            return Ok(0);
        };
        // Bytes that are no text may become one by those that follow: all of a run, or those of one character.
        let whole = match self.has_runs {
            true => text.trim_end_matches(BROKEN),
            false => text.strip_suffix(BROKEN).unwrap_or(text),
        };
        let mut end = whole.len();
        for follower in followers {
            let longer = self
                .tokenizer
                .joined([tokens, std::slice::from_ref(follower)].concat())?;
            end = end.min(shared(&text[..end], &longer));
        }
        Ok(end)
    }

    /// Keeps as few of the newest tokens as have settled text and `open` bytes after it.
    fn forget(&mut self, open: usize) -> Result<()> {
        let mut count = 1;
        while self.forgets && count < self.window.len() {
            let newest = &self.window[self.window.len() - count..];
            let text = self.tokenizer.joined(newest.to_vec())?;
            let settled = self.settled(newest, &text)?;
            if settled > 0 && text.len() - settled == open {
                (self.window, self.text) = (newest.to_vec(), text);
                return Ok(());
            }
            count *= 2;
        }
        Ok(())
    }
}

impl Tokenizer {
    /// Decodes token ids that follow others: what they add to the text of those before them. Decoders write a token
    /// otherwise at the start of a text than after another token.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn decode_after(&self, before: &[i32], ids: &[i32]) -> Result<String> {
        let mut text = Detokenizer::new(self, before)?;
        let settled = text.push(ids)?;
        Ok(settled + text.unsettled())
    }
}

/// Tokens that change what a decoder has not settled; none if it replaces what a regular expression finds.
fn followers(decoder: &Value) -> Option<Vec<String>> {
    let mut all: Vec<String> = FOLLOWERS.map(String::from).into();
    for part in parts(decoder).iter().filter(|part| part["type"] == "Replace") {
        // A later token may complete what is replaced.
        let pattern = part["pattern"]["String"].as_str()?;
        let ends = pattern.char_indices().skip(1).map(|(start, _)| &pattern[start..]);
        all.extend(ends.map(String::from));
    }
    Some(all)
}

/// Size in bytes of the beginning that two texts share.
fn shared(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    same.map(|(character, _)| character.len_utf8()).sum()
}
