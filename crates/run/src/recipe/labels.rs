//! Whether the keys about labels go together.

use super::config::Config;
use super::keys::DataFormat;
use lessen_base::{Error, Result};
use lessen_data::Problem;

/// The defaults of the keys that only texts with several labels have.
const SEPARATOR: &str = ",";
pub(crate) const THRESHOLD: f64 = 0.5;

impl Config {
    /// What the labels of texts are.
    pub(crate) fn problem(&self) -> Problem {
        self.data.problem.unwrap_or_default()
    }

    /// Checks that the keys about labels suit the format and each other.
    ///
    /// # Errors
    /// The key.
    pub(super) fn check_labels(&self) -> Result<()> {
        let data = &self.data;
        if data.problem.is_some() && !matches!(data.format, DataFormat::Labelled | DataFormat::Glue) {
            return Err(Error::user(format!(
                "{} is for data.format = labelled, and this is {}; leave it out",
                self.place("data.problem"),
                data.format
            )));
        }
        if data.separator.is_empty() {
            return Err(Error::user(format!(
                "{} separates nothing; name what stands between labels, such as \",\"",
                self.place("data.separator")
            )));
        }
        let changed = match (data.separator == SEPARATOR, data.threshold == THRESHOLD) {
            (false, _) => Some("data.separator"),
            (true, false) => Some("data.threshold"),
            (true, true) => None,
        };
        match changed {
            Some(key) if self.problem() != Problem::MultiLabel => Err(Error::user(format!(
                "{} is for texts with several labels, data.problem = \"multi_label_classification\"; leave it out",
                self.place(key)
            ))),
            _ => Ok(()),
        }
    }
}
