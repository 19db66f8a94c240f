//! Scripts and lengths of texts.

use serde::Serialize;

use super::histogram::{LengthCounts, Lengths};
use super::script::Scripts;

/// Texts as they are written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TextLook {
    /// The share of each script among letters, the greatest first.
    pub scripts: Vec<(&'static str, f64)>,
    /// Whether words are separated by spaces.
    pub has_spaces: bool,
    /// Characters of a text, or of both of a pair.
    pub characters: Lengths,
    /// Words between white space of a text, or of both of a pair.
    pub words: Lengths,
}

/// Texts while they are counted.
#[derive(Debug, Default)]
pub(super) struct TextCounts {
    scripts: Scripts,
    characters: LengthCounts,
    words: LengthCounts,
}

impl TextCounts {
    /// Adds a text, or both of a pair with a mark between them.
    pub(super) fn add(&mut self, text: &str) {
        self.scripts.add(text);
        self.characters.add(text.chars().filter(|c| *c != MARK).count());
        self.words.add(
            text.split(|c: char| c.is_whitespace() || c == MARK)
                .filter(|word| !word.is_empty())
                .count(),
        );
    }

    pub(super) fn look(&self) -> TextLook {
        TextLook {
            scripts: self.scripts.shares(),
            has_spaces: self.scripts.has_spaces(),
            characters: self.characters.lengths(),
            words: self.words.lengths(),
        }
    }
}

/// What stands between the two texts of a pair, or the cells of a row, where they are one text.
pub(super) const MARK: char = '\u{1f}';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_as_long_as_both_of_its_texts() {
        let mut counts = TextCounts::default();
        counts.add(&format!("a good film{MARK}bad"));
        counts.add("");
        let found = counts.look();
        assert_eq!((found.words.min, found.words.max), (0, 4));
        assert_eq!((found.characters.min, found.characters.max), (0, 14));
        assert!(found.has_spaces);
        assert_eq!(found.scripts, [("Latin", 1.0)]);
    }
}
