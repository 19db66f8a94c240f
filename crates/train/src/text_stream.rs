//! The text of tokens that come one after another: its sound part, and its end.

use lessen_base::Result;

/// Character that a decoder gives for an incomplete one.
const BROKEN: char = '\u{fffd}';

/// A text whose tokens come one after another. Text that has been shown is never taken back: incomplete characters, and
/// a possible beginning of a stop string, are held back.
pub struct TextStream<'a> {
    decode: &'a dyn Fn(&[i32]) -> Result<String>,
    stops: Vec<String>,
    shown: String,
    stopped: bool,
}

impl<'a> TextStream<'a> {
    /// A text without tokens, which ends before the first of `stops` in it. `decode` makes a text of tokens.
    pub fn new(decode: &'a dyn Fn(&[i32]) -> Result<String>, stops: &[String]) -> TextStream<'a> {
        TextStream {
            decode,
            stops: stops.to_vec(),
            shown: String::new(),
            stopped: false,
        }
    }

    /// Takes all tokens of the text, with a new one at the end. Returns the text that can be shown in addition.
    ///
    /// # Errors
    /// The errors of `decode`.
    pub fn push(&mut self, tokens: &[i32]) -> Result<&str> {
        let text = (self.decode)(tokens)?;
        let whole = text.trim_end_matches(BROKEN);
        let end = match self.stop_in(&text) {
            Some(stop) => stop,
            None => whole.len() - self.held_back(whole),
        };
        Ok(self.show(&text[..end]))
    }

    /// Takes all tokens of the complete text. Returns the text that was held back.
    ///
    /// # Errors
    /// The errors of `decode`.
    pub fn finish(&mut self, tokens: &[i32]) -> Result<&str> {
        let text = (self.decode)(tokens)?;
        let end = self.stop_in(&text).unwrap_or(text.len());
        Ok(self.show(&text[..end]))
    }

    /// Whether the text has ended before a stop string.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// All text that was shown.
    pub fn text(&self) -> &str {
        &self.shown
    }

    /// Start of the first stop string.
    fn stop_in(&mut self, text: &str) -> Option<usize> {
        let stops = self.stops.iter().filter(|stop| !stop.is_empty());
        let first = stops.filter_map(|stop| text.find(stop.as_str())).min();
        self.stopped |= first.is_some();
        first
    }

    /// Number of bytes at the end of a text that may be the beginning of a stop string.
    fn held_back(&self, text: &str) -> usize {
        let beginnings = self
            .stops
            .iter()
            .flat_map(|stop| stop.char_indices().map(|(end, _)| &stop[..end]));
        let held = beginnings.filter(|beginning| text.ends_with(beginning));
        held.map(str::len).max().unwrap_or(0)
    }

    /// Shows a text, if it continues the text that was shown.
    fn show(&mut self, text: &str) -> &str {
        let before = self.shown.len();
        if let Some(more) = text.strip_prefix(self.shown.as_str()) {
            self.shown.push_str(more);
        }
        &self.shown[before..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens are bytes.
    fn decode(tokens: &[i32]) -> Result<String> {
        let bytes: Vec<u8> = tokens.iter().map(|&token| token as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The parts that are shown after each byte of a text, and at its end.
    fn shown(text: &[u8], stops: &[&str]) -> Vec<String> {
        let stops: Vec<String> = stops.iter().map(|stop| stop.to_string()).collect();
        let mut stream = TextStream::new(&decode, &stops);
        let tokens: Vec<i32> = text.iter().map(|&byte| byte.into()).collect();
        let mut parts = Vec::new();
        for end in 1..=tokens.len() {
            parts.push(stream.push(&tokens[..end]).unwrap().to_string());
            if stream.is_stopped() {
                break;
            }
        }
        parts.push(stream.finish(&tokens).unwrap().to_string());
        assert_eq!(parts.concat(), stream.text());
        parts
    }

    #[test]
    fn a_character_is_shown_when_it_is_whole() {
        assert_eq!(shown("aß".as_bytes(), &[]), ["a", "", "ß", ""]);
        assert_eq!(shown(b"a\xc3", &[]), ["a", "", "\u{fffd}"]);
    }

    #[test]
    fn a_text_ends_before_the_first_stop_string() {
        assert_eq!(shown(b"one\n\ntwo", &["\n\n"]), ["o", "n", "e", "", "", ""]);
        assert_eq!(shown(b"a\nb", &["\n\n"]), ["a", "", "\nb", ""]);
        assert_eq!(shown(b"a\n", &["\n\n"]), ["a", "", "\n"]);
        assert_eq!(shown(b"xab.", &["abc", "b."]), ["x", "", "", "a", ""]);
        assert_eq!(shown(b"ab", &[""]), ["a", "b", ""]);
    }
}
