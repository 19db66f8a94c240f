//! Patterns of names, in which `*` stands for any characters.

use std::fmt;
use std::str::FromStr;

use lessen_base::{Error, Result};

/// A list of patterns of names, such as `bert.embeddings.*`; as a word with commas between them. The empty list stands
/// for no name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// Description of a list, for messages.
    pub fn words() -> String {
        "names, in which * stands for any characters".to_string()
    }

    /// These patterns and further ones.
    pub fn and(mut self, more: impl IntoIterator<Item = String>) -> Patterns {
        self.0.extend(more);
        self
    }

    /// Whether one of the patterns fits a name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| fits(pattern, name))
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The patterns.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Checks that every pattern fits a name.
    ///
    /// # Errors
    /// A pattern that fits none of `names`, the names that `whose` has.
    pub fn check(&self, whose: &str, names: &[String]) -> Result<()> {
        let is_used = |pattern: &str| names.iter().any(|name| fits(pattern, name));
        match self.iter().find(|pattern| !is_used(pattern)) {
            None => Ok(()),
            Some(pattern) => Err(Error::user(format!(
                "nothing of {whose} is called {pattern}; it has {}",
                listed(names)
            ))),
        }
    }
}

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl FromStr for Patterns {
    type Err = Error;

    fn from_str(text: &str) -> Result<Patterns> {
        if text.is_empty() {
            return Ok(Patterns::default());
        }
        let patterns: Vec<String> = text.split(',').map(|pattern| pattern.trim().to_string()).collect();
        if patterns.iter().any(String::is_empty) {
            return Err(Error::user(format!(
                "'{text}' is no list of names; write names or patterns with commas between, such as \
                 bert.embeddings.*,bert.encoder.layer.0.*"
            )));
        }
        Ok(Patterns(patterns))
    }
}

/// Whether a pattern fits a name; `*` stands for any characters.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(start) else {
        return false;
    };
    // The shortest match of each `*` but the last leaves the most for the later ones.
    let (mut name, mut rest) = (name, rest);
    while let Some((middle, after)) = rest.split_once('*') {
        match name.find(middle) {
            Some(at) => name = &name[at + middle.len()..],
            None => return false,
        }
        rest = after;
    }
    name.ends_with(rest)
}

/// The first few of a list of names.
pub(crate) fn listed(names: &[String]) -> String {
    const FEW: usize = 4;
    let few = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "no names".to_string(),
        n if n > FEW => format!("{few} and {} more", n - FEW),
        _ => few,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_back_and_tells_names() {
        let patterns: Patterns = "a.*, *.bias".parse().unwrap();
        assert_eq!(patterns.to_string(), "a.*,*.bias");
        assert!(patterns.contains("a.b") && patterns.contains("c.bias") && !patterns.contains("c.weight"));
        assert!("".parse::<Patterns>().unwrap().is_empty());
        assert!("a,,b".parse::<Patterns>().is_err());
        let names = ["a.b", "c.bias"].map(String::from);
        assert_eq!(patterns.check("the model", &names), Ok(()));
        let other: Patterns = "a.*,d.*".parse().unwrap();
        assert_eq!(
            other.check("the model", &names).unwrap_err().to_string(),
            "nothing of the model is called d.*; it has a.b, c.bias"
        );
    }
}
