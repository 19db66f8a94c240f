//! Which job: its words and its file of settings.

use lessen_base::Error;
use std::path::Path;

/// Which job a folder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobKind {
    /// The file with the settings of the recipe.
    pub settings: &'static str,
    /// Its noun.
    pub noun: &'static str,
    /// Its section of keys, which is also its verb.
    pub section: &'static str,
    /// What its manifest is of.
    pub of: &'static str,
    /// The command that writes its folder.
    pub command: &'static str,
    /// The beginning of the name of its folder, where none is given.
    pub prefix: &'static str,
    /// What is done again and again.
    pub unit: &'static str,
}

/// A condensation of a recipe's images.
pub const CONDENSATION: JobKind = JobKind {
    settings: "condense.toml",
    noun: "condensation",
    section: "condense",
    of: "condensed images",
    command: "lessen condense",
    prefix: "condensed",
    unit: "iteration",
};

/// A search for architecture and precision.
pub const SEARCH: JobKind = JobKind {
    settings: "search.toml",
    noun: "search",
    section: "search",
    of: "a search",
    command: "lessen search",
    prefix: "search",
    unit: "epoch",
};

impl JobKind {
    /// The error of a setting of the job in `out` that is another one now.
    pub(crate) fn changed(&self, out: &Path, (key, old, new): (&str, &str, &str)) -> Error {
        Error::user(format!(
            "{key} was {old} in the {} {} and is {new} now; resume with the same settings, or start another one with another \
             --out",
            self.noun,
            out.display()
        ))
    }

    /// What is said where a folder is resumed: that it goes on after `reached`, or has no checkpoint.
    pub(crate) fn resuming(&self, out: &Path, reached: Option<&str>) -> String {
        match reached {
            Some(reached) => format!("resuming after {reached} in {}", out.display()),
            None => format!(
                "{} has no checkpoint yet; starting from the first {}",
                out.display(),
                self.unit
            ),
        }
    }
}
