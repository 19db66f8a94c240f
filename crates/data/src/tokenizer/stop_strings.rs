//! Stop strings as transformers finds them: in what tokens write, not in the decoded text.

use lessen_base::Result;
use std::collections::HashMap;

use super::Tokenizer;
use super::decoding::parts;

/// What a token is decoded after, as it may be written differently at the start of a text.
const PREFIX: &str = "abcdef";

/// Strings that end texts. A text ends with the token that completes one of them: the string ends within what that
/// token writes, and may begin anywhere before, also in the middle of a token. Special tokens write their names.
pub struct StopStrings<'a> {
    tokenizer: &'a Tokenizer,
    strings: Vec<Vec<u8>>,
    /// The most tokens at the end of a text that are looked at.
    most_tokens: usize,
    form: TokenBytes,
    /// The tokens of [`PREFIX`].
    before: Vec<String>,
}

/// How tokens stand for bytes.
enum TokenBytes {
    /// Each character of a token is a byte.
    ByteLevel(HashMap<char, u8>),
    /// Tokens such as `<0x0A>` are bytes.
    ByteFallback,
    /// Tokens are characters.
    Characters,
}

impl<'a> StopStrings<'a> {
    /// Strings that end texts of a tokenizer.
    ///
    /// # Errors
    /// A tokenizer that cannot encode.
    pub fn new(tokenizer: &'a Tokenizer, strings: &[String]) -> Result<StopStrings<'a>> {
        let strings: Vec<&String> = strings.iter().filter(|string| !string.is_empty()).collect();
        let form = TokenBytes::of(tokenizer)?;
        let length = |string: &&String| match form {
            TokenBytes::Characters => string.chars().count(),
            _ => string.len(),
        };
        let ids = if strings.is_empty() {
            Vec::new()
        } else {
            tokenizer.encode(PREFIX)?
        };
        Ok(StopStrings {
            tokenizer,
            most_tokens: strings.iter().map(length).max().unwrap_or(0),
            strings: strings.iter().map(|string| string.as_bytes().to_vec()).collect(),
            form,
            before: ids.into_iter().filter_map(|id| tokenizer.token(id)).collect(),
        })
    }

    /// Whether the last of these tokens completes one of the strings.
    ///
    /// # Errors
    /// A failure of the tokenizer's decoder.
    pub fn are_completed(&self, tokens: &[i32]) -> Result<bool> {
        let longest = self.strings.iter().map(Vec::len).max().unwrap_or(0);
        let (mut pieces, mut length, mut newest) = (Vec::new(), 0, 0);
        for token in tokens.iter().rev().take(self.most_tokens) {
            let Some(piece) = self.written(*token)? else { break };
            length += piece.len();
            if pieces.is_empty() {
                newest = piece.len();
            }
            pieces.push(piece);
            if length >= longest + newest {
                break;
            }
        }
        pieces.reverse();
        let text = pieces.concat();
        let ends_in_newest = |string: &Vec<u8>| {
            let places = text.windows(string.len()).enumerate();
            let mut ends = places
                .filter(|(_, part)| part == string)
                .map(|(start, _)| start + string.len());
            ends.any(|end| end > length - newest)
        };
        Ok(self.strings.iter().any(ends_in_newest))
    }

    /// The bytes that a token adds to a text; none for a number that is no token.
    fn written(&self, token: i32) -> Result<Option<Vec<u8>>> {
        let Some(name) = self.tokenizer.token(token) else {
            return Ok(None);
        };
        if let Some(bytes) = self.form.bytes(&name) {
            return Ok(Some(bytes));
        }
        let before = self.tokenizer.joined(self.before.clone())?;
        let whole = self
            .tokenizer
            .joined(self.before.iter().cloned().chain([name.clone()]).collect())?;
        let added = match whole.find(PREFIX) {
            Some(start) => Some(&whole[start + PREFIX.len()..]),
            // A vocabulary without these letters writes something else in their place.
            None => whole.strip_prefix(before.as_str()),
        };
        Ok(Some(added.unwrap_or(&name).as_bytes().to_vec()))
    }
}

impl TokenBytes {
    fn of(tokenizer: &Tokenizer) -> Result<TokenBytes> {
        let decoder = tokenizer.decoder()?;
        let has = |kind: &str| parts(&decoder).iter().any(|part| part["type"] == kind);
        Ok(if decoder["type"] == "ByteLevel" {
            TokenBytes::ByteLevel(bytes_of_characters())
        } else if has("ByteFallback") {
            TokenBytes::ByteFallback
        } else if has("ByteLevel") {
            TokenBytes::ByteLevel(bytes_of_characters())
        } else {
            TokenBytes::Characters
        })
    }

    /// The bytes of a token that is written as bytes.
    fn bytes(&self, token: &str) -> Option<Vec<u8>> {
        match self {
            TokenBytes::ByteLevel(bytes) => token.chars().map(|character| bytes.get(&character).copied()).collect(),
            TokenBytes::ByteFallback => {
                let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
                let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let byte = is_byte.then(|| u8::from_str_radix(digits, 16).ok()).flatten();
                byte.map(|byte| vec![byte])
            }
            TokenBytes::Characters => None,
        }
    }
}

/// The characters by which byte-level tokens write bytes: printable ones stand for themselves, the others follow each
/// other from 256 on.
fn bytes_of_characters() -> HashMap<char, u8> {
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let own = (0..=u8::MAX).filter(is_printable).map(|byte| (char::from(byte), byte));
    let others = (0..=u8::MAX).filter(|byte| !is_printable(byte));
    let others = (256..).filter_map(char::from_u32).zip(others);
    own.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_within_the_newest_token() {
        let tokenizer = Tokenizer::characters(["abc stop"], 1);
        let completed = |stops: &[&str], text: &str| {
            let stops: Vec<String> = stops.iter().map(|stop| stop.to_string()).collect();
            let stops = StopStrings::new(&tokenizer, &stops).unwrap();
            stops.are_completed(&tokenizer.encode(text).unwrap()).unwrap()
        };
        assert!(completed(&["stop"], "abc stop"));
        assert!(!completed(&["stop"], "abc stopa"), "it has ended before");
        assert!(completed(&["x", "c"], "abc"));
        assert!(!completed(&["abc"], "bc"));
        assert!(!completed(&[], "abc") && !completed(&[""], "abc") && !completed(&["a"], ""));
        // Special tokens write their names, and a number that is no token writes nothing.
        let stops = StopStrings::new(&tokenizer, &["[PAD]".to_string(), "ab".to_string()]).unwrap();
        let id = |token: &str| tokenizer.id_of(token).unwrap();
        assert_eq!(stops.are_completed(&[id("a"), id("[PAD]")]), Ok(true));
        assert_eq!(stops.are_completed(&[id("a"), 999, id("b")]), Ok(false));
        assert_eq!(stops.are_completed(&[id("a"), -1]), Ok(false));
    }

    #[test]
    fn every_byte_has_a_character() {
        let bytes = bytes_of_characters();
        assert_eq!(bytes.len(), 256);
        assert_eq!(
            (bytes[&'Ġ'], bytes[&'Ċ'], bytes[&'a'], bytes[&'Ã']),
            (b' ', b'\n', b'a', 0xc3)
        );
    }
}
