//! The methods of coresets.

use lessen_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// How images are chosen, class by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coreset {
    /// At random.
    Random,
    /// By [`herding`](crate::herding()) of the features of a network that was trained on all images.
    Herding,
    /// By [`k_center`](crate::k_center()) of these features.
    KCenter,
    /// The images that a network forgets most often while it is trained on all of them; see
    /// [`Forgetting`](crate::Forgetting).
    Forgetting,
}

/// All methods with their words.
const METHODS: [(Coreset, &str); 4] = [
    (Coreset::Random, "random"),
    (Coreset::Herding, "herding"),
    (Coreset::KCenter, "k-center"),
    (Coreset::Forgetting, "forgetting"),
];

impl Coreset {
    /// The words of all methods.
    pub const WORDS: [&'static str; METHODS.len()] = [METHODS[0].1, METHODS[1].1, METHODS[2].1, METHODS[3].1];

    /// Whether a network is trained on all images first.
    pub fn trains(self) -> bool {
        self != Coreset::Random
    }
}

impl FromStr for Coreset {
    type Err = Error;

    fn from_str(word: &str) -> Result<Coreset> {
        let found = METHODS.iter().find(|(_, own)| *own == word);
        found.map(|(method, _)| *method).ok_or_else(|| {
            Error::user(format!(
                "there is no coreset `{word}`; choose one of {}",
                Coreset::WORDS.join(", ")
            ))
        })
    }
}

impl fmt::Display for Coreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = METHODS.iter().find(|(own, _)| own == self);
        f.write_str(found.map_or("", |(_, word)| word))
    }
}
