//! Lengths of the windows at which a language model is evaluated, as people write them: `2x,4x,1024`.

use lessen_base::{Error, Result};
use lessen_task::wording::counted;
use std::fmt;

/// The length of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// A number of tokens.
    Tokens(usize),
    /// A multiple of the length that the model was trained at.
    Times(f64),
}

/// Longest length that can be asked for.
const MOST: usize = 1 << 28;

impl Length {
    /// A length such as `2x` or `1024`.
    ///
    /// # Errors
    /// A text that is neither.
    pub fn parse(text: &str) -> Result<Length> {
        let found = match text.trim().strip_suffix('x') {
            Some(times) => times
                .parse()
                .ok()
                .filter(|times: &f64| *times > 0.0 && times.is_finite())
                .map(Length::Times),
            None => text
                .trim()
                .parse()
                .ok()
                .filter(|tokens| (1..=MOST).contains(tokens))
                .map(Length::Tokens),
        };
        found.ok_or_else(|| {
            Error::user(format!(
                "'{text}' is no length; write tokens or a multiple of the length in training, such as 1024 or 2x"
            ))
        })
    }

    /// Its tokens for a model that was trained at this length.
    ///
    /// # Errors
    /// Less than a token, or more than can be meant.
    pub fn tokens(self, trained: usize) -> Result<usize> {
        let tokens = match self {
            Length::Tokens(tokens) => tokens,
            Length::Times(times) => (times * trained as f64).round() as usize,
        };
        if (1..=MOST).contains(&tokens) {
            return Ok(tokens);
        }
        Err(Error::user(format!(
            "the length {self} of a model that was trained at {} is out of range; choose one from 1 to {MOST} tokens",
            counted(trained as u64, "token")
        )))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Tokens(tokens) => write!(f, "{tokens}"),
            Length::Times(times) => write!(f, "{times}x"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_tokens_or_multiples() {
        let tokens = |text: &str| Length::parse(text).and_then(|length| length.tokens(128));
        for (text, expected) in [("2x", 256), ("0.5x", 64), ("1024", 1024), (" 1x", 128)] {
            assert_eq!(tokens(text).unwrap(), expected, "{text}");
        }
        for text in ["", "x", "0", "0x", "-1x", "nanx", "infx", "many", "1.5", "99999999999"] {
            let sentence = tokens(text).unwrap_err().to_string();
            assert!(
                sentence.contains("is no length; write tokens or a multiple"),
                "{sentence}"
            );
        }
        for text in ["0.001x", "1e9x"] {
            assert!(
                tokens(text).unwrap_err().to_string().contains("is out of range"),
                "{text}"
            );
        }
        assert_eq!(
            ["2x", "1024"].map(|text| Length::parse(text).unwrap().to_string()),
            ["2x", "1024"]
        );
    }
}
