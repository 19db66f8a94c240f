//! The scripts that texts are written in.

/// Names of scripts, in the order in which they are counted.
const NAMES: [&str; 9] = [
    "Latin", "Han", "Hiragana", "Katakana", "Hangul", "Cyrillic", "Arabic", "Thai", "other",
];

/// Scripts whose words are not separated by spaces, by their places in [`NAMES`].
const WITHOUT_SPACES: [usize; 4] = [1, 2, 3, 7];

/// Share of texts with a space from which on spaces separate words; texts of one word have none.
const WITH_SPACES: f64 = 0.2;

/// Letters of each script, and texts with spaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Scripts {
    letters: [u64; NAMES.len()],
    texts: u64,
    with_spaces: u64,
}

impl Scripts {
    /// Adds a text.
    pub(super) fn add(&mut self, text: &str) {
        self.texts += 1;
        self.with_spaces += u64::from(text.trim().contains(char::is_whitespace));
        text.chars()
            .filter(|c| c.is_alphabetic())
            .for_each(|c| self.letters[script(c)] += 1);
    }

    /// The share of each script that has letters, the greatest first.
    pub(super) fn shares(&self) -> Vec<(&'static str, f64)> {
        let all: u64 = self.letters.iter().sum();
        let counted = NAMES.iter().zip(self.letters).filter(|(_, count)| *count > 0);
        let mut shares: Vec<(&str, f64)> = counted
            .map(|(name, count)| (*name, count as f64 / all as f64))
            .collect();
        shares.sort_by(|one, other| other.1.total_cmp(&one.1));
        shares
    }

    /// Whether words are separated by spaces.
    pub(super) fn has_spaces(&self) -> bool {
        let all: u64 = self.letters.iter().sum();
        let without: u64 = WITHOUT_SPACES.iter().map(|place| self.letters[*place]).sum();
        2 * without < all.max(1) && self.with_spaces as f64 >= WITH_SPACES * self.texts as f64
    }
}

/// The place of a letter's script in [`NAMES`].
fn script(letter: char) -> usize {
    match letter as u32 {
        0x41..=0x24f | 0x1e00..=0x1eff | 0xff21..=0xff5a => 0,
        0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x323af | 0x3005 => 1,
        0x3040..=0x309f => 2,
        0x30a0..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f => 3,
        0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7af => 4,
        0x400..=0x52f => 5,
        0x600..=0x6ff | 0x750..=0x77f | 0x8a0..=0x8ff | 0xfb50..=0xfdff | 0xfe70..=0xfeff => 6,
        0xe00..=0xe7f => 7,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(texts: &[&str]) -> Scripts {
        let mut scripts = Scripts::default();
        texts.iter().for_each(|text| scripts.add(text));
        scripts
    }

    #[test]
    fn letters_have_their_script_and_marks_none() {
        for (text, name) in [
            ("a\u{e9}\u{1e9e}, 12!", "Latin"),
            ("\u{725b}\u{8089}\u{ff0c}", "Han"),
            ("\u{3042}\u{3044}", "Hiragana"),
            ("\u{30ab}", "Katakana"),
            ("\u{d55c}\u{ae00}", "Hangul"),
            ("\u{43c}\u{438}\u{440}", "Cyrillic"),
            ("\u{633}\u{644}\u{627}\u{645}", "Arabic"),
            ("\u{e44}\u{e17}\u{e22}", "Thai"),
            ("\u{3b1}\u{3b2}", "other"),
        ] {
            assert_eq!(scripts(&[text]).shares(), [(name, 1.0)], "{text}");
        }
        assert_eq!(
            scripts(&["\u{725b}\u{725b}\u{725b}a"]).shares(),
            [("Han", 0.75), ("Latin", 0.25)]
        );
        assert_eq!(scripts(&["12"]).shares(), []);
    }

    #[test]
    fn spaces_separate_words_unless_the_script_or_the_texts_have_none() {
        assert!(scripts(&["a good film", "bad"]).has_spaces());
        assert!(scripts(&["\u{d55c}\u{ad6d} \u{c601}\u{d654}"]).has_spaces());
        assert!(!scripts(&["\u{725b}\u{8089} \u{9762} AI"]).has_spaces());
        assert!(!scripts(&["Anderson", "Baker", "Clark"]).has_spaces());
    }
}
