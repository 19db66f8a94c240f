//! Fast paths for long texts that give the same ids as the general tokenizer.

use std::collections::HashMap;

use serde_json::Value;

use crate::vocabulary::single_characters;

/// The fast path that a `tokenizer.json` allows.
#[derive(Clone)]
pub(super) enum Shortcut {
    /// None: the general tokenizer encodes whole texts.
    None,
    /// Every character is a token: one lookup each.
    Characters(Characters),
    /// Byte-level BPE: no token spans a boundary between a non-space character and white space after it, so a long text
    /// can be encoded in pieces. This bounds memory: the general tokenizer needs over 100 bytes per byte of text.
    Pieces,
    /// WordPiece with the words of BERT: a word does not depend on what stands beyond the spaces around it.
    Words,
}

/// A vocabulary of characters.
#[derive(Clone)]
pub(super) struct Characters {
    ids: HashMap<char, i32>,
    unknown: i32,
    /// Tokens of several characters; a text with one of them is encoded by the general tokenizer.
    whole: Vec<String>,
}

impl Shortcut {
    /// Returns the fast path for the tokenizer that `json` describes.
    pub(super) fn of(json: &Value) -> Shortcut {
        let added = json["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(characters) = Characters::of(json, added) {
            return Shortcut::Characters(characters);
        }
        let words = &json["pre_tokenizer"];
        let is_bert = json["model"]["type"] == "WordPiece"
            && words["type"] == "BertPreTokenizer"
            && (json["normalizer"].is_null() || json["normalizer"]["type"] == "BertNormalizer");
        let byte_level = json["normalizer"].is_null()
            && json["model"]["type"] == "BPE"
            && words["type"] == "ByteLevel"
            && words["add_prefix_space"] == false
            && words["use_regex"] != false;
        // An added token spans a boundary only if it contains or absorbs white space.
        let plain = |token: &Value| {
            let takes = ["lstrip", "rstrip", "single_word"].iter().any(|key| token[key] == true);
            !takes
                && token["content"]
                    .as_str()
                    .is_some_and(|content| !content.contains(char::is_whitespace))
        };
        match added.iter().all(plain) {
            true if byte_level => Shortcut::Pieces,
            true if is_bert => Shortcut::Words,
            _ => Shortcut::None,
        }
    }
}

impl Characters {
    fn of(json: &Value, added: &[Value]) -> Option<Characters> {
        let model = &json["model"];
        let looks_up = model["type"] == "WordLevel"
            && json["normalizer"].is_null()
            && json["pre_tokenizer"] == single_characters()
            && json["post_processor"].is_null();
        if !looks_up {
            return None;
        }
        let whole = added
            .iter()
            .map(|token| Some(token["content"].as_str()?.to_string()))
            .collect::<Option<_>>()?;
        let vocab = model["vocab"].as_object()?;
        let mut ids = HashMap::new();
        for (token, id) in vocab {
            let id = i32::try_from(id.as_i64()?).ok()?;
            let mut characters = token.chars();
            if let (Some(character), None) = (characters.next(), characters.next()) {
                ids.insert(character, id);
            }
        }
        let unknown = i32::try_from(vocab.get(model["unk_token"].as_str()?)?.as_i64()?).ok()?;
        Some(Characters { ids, unknown, whole })
    }

    /// Whether a token of several characters has white space.
    pub(super) fn has_spaces(&self) -> bool {
        self.whole.iter().any(|token| token.contains(char::is_whitespace))
    }

    /// Returns the first `max_length` ids, or `None` if the text has a token of several characters.
    pub(super) fn encode(&self, text: &str, max_length: usize) -> Option<Vec<i32>> {
        if self.whole.iter().any(|token| text.contains(token.as_str())) {
            return None;
        }
        let id = |character| self.ids.get(&character).copied().unwrap_or(self.unknown);
        Some(text.chars().take(max_length).map(id).collect())
    }
}

/// Splits a text into pieces of at least `size` bytes (except for the last), each between a non-space character and a
/// space or newline.
pub(super) fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let first = (size.max(1)..rest.len())
            .find(|&at| rest.is_char_boundary(at))
            .unwrap_or(rest.len());
        let mut previous = rest[..first].chars().next_back()?;
        let mut cut = rest.len();
        for (at, character) in rest[first..].char_indices() {
            if !previous.is_whitespace() && matches!(character, ' ' | '\n') {
                cut = first + at;
                break;
            }
            previous = character;
        }
        let piece;
        (piece, rest) = rest.split_at(cut);
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_text_cut_before_white_space_that_follows_something_else() {
        let cut = |text, size| pieces(text, size).collect::<Vec<_>>();
        assert_eq!(cut("ab  cd\n\ne f", 1), ["ab", "  cd", "\n\ne", " f"]);
        assert_eq!(cut("ab  cd\n\ne f", 3), ["ab  cd", "\n\ne", " f"]);
        assert_eq!(cut("牛牛牛 牛", 1), ["牛牛牛", " 牛"]);
        assert_eq!(cut("a\t\u{3000} b", 1), ["a\t\u{3000} b"]);
        assert_eq!(cut("", 1), [""; 0]);
        assert_eq!(cut("abc", 99), ["abc"]);
    }
}
