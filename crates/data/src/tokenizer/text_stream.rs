//! The text that follows a prompt, token by token: what can be shown of it, and its end.

use lessen_base::Result;

use super::Tokenizer;
use super::detokenizer::Detokenizer;

/// A text whose tokens come one after another, after a prompt: what they add to the prompt's text. Text that has been
/// shown is never taken back: what later tokens may change, and a possible beginning of a stop string, is held back.
pub struct TextStream<'a> {
    text: Detokenizer<'a>,
    stops: Vec<String>,
    /// Number of tokens so far.
    tokens: usize,
    shown: String,
    /// Settled text that is not shown yet.
    held: String,
    stopped: bool,
}

impl<'a> TextStream<'a> {
    /// A text without tokens after a prompt, which ends before the first of `stops` in it.
    ///
    /// # Errors
    /// A failure of the tokenizer's decoder.
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[i32], stops: &[String]) -> Result<TextStream<'a>> {
        Ok(TextStream {
            text: Detokenizer::new(tokenizer, prompt)?,
            stops: stops.iter().filter(|stop| !stop.is_empty()).cloned().collect(),
            tokens: 0,
            shown: String::new(),
            held: String::new(),
            stopped: false,
        })
    }

    /// Takes all tokens of the text, those of the prompt left out, with new ones at the end. Returns the text that can
    /// be shown in addition.
    ///
    /// # Errors
    /// A failure of the tokenizer's decoder.
    pub fn push(&mut self, tokens: &[i32]) -> Result<&str> {
        self.take(tokens)?;
        let settled = self.held.len() - self.held_back();
        Ok(self.show(settled))
    }

    /// Takes all tokens of the complete text. Returns the text that was held back.
    ///
    /// # Errors
    /// A failure of the tokenizer's decoder.
    pub fn finish(&mut self, tokens: &[i32]) -> Result<&str> {
        self.take(tokens)?;
        Ok(self.show(usize::MAX))
    }

    /// Whether the text has ended before a stop string.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// All text that was shown.
    pub fn text(&self) -> &str {
        &self.shown
    }

    fn take(&mut self, tokens: &[i32]) -> Result<()> {
        let new = tokens.get(self.tokens..).unwrap_or_default();
        self.tokens += new.len();
        self.held.push_str(&self.text.push(new)?);
        Ok(())
    }

    /// Number of bytes at the end of the settled text that may be the beginning of a stop string.
    fn held_back(&self) -> usize {
        let beginnings = self
            .stops
            .iter()
            .flat_map(|stop| stop.char_indices().map(|(end, _)| &stop[..end]));
        let held = beginnings.filter(|beginning| self.held.ends_with(beginning));
        held.map(str::len).max().unwrap_or(0)
    }

    /// Shows at most so many bytes of what is not shown yet, and nothing from a stop string on.
    fn show(&mut self, most: usize) -> &str {
        let before = self.shown.len();
        let text = format!("{}{}", self.held, self.text.unsettled());
        let stops = self.stops.iter().filter_map(|stop| text.find(stop.as_str()));
        let stop = stops.min();
        if !self.stopped {
            let end = stop.unwrap_or(most.min(text.len()));
            self.shown.push_str(&text[..end]);
            self.held.drain(..end.min(self.held.len()));
        }
        self.stopped |= stop.is_some();
        &self.shown[before..]
    }
}
