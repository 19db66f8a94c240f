//! What decides which examples are held out.

use lessen_base::{Error, Result};

use crate::files::quoted;

/// What decides which examples are kept for validation where data has no split for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HeldOutBy {
    /// A seed alone, of each class its share.
    #[default]
    Share,
    /// The column of this name: rows with the same value are held out together. A seed draws the values.
    Group(String),
    /// The column of this name, of dates, times or numbers: the latest rows are held out.
    Time(String),
}

impl HeldOutBy {
    /// The column, and the key of recipes that names it.
    pub(crate) fn column(&self) -> Option<(&str, &'static str)> {
        match self {
            HeldOutBy::Share => None,
            HeldOutBy::Group(column) => Some((column, "data.group_by")),
            HeldOutBy::Time(column) => Some((column, "data.time_by")),
        }
    }

    /// Refuses the column where it is that of the label.
    pub(crate) fn check_label(&self, place: &str, label: &str) -> Result<()> {
        match self.column() {
            Some((column, key)) if column == label => Err(Error::user(format!(
                "{place} has its labels in the column {} ({key}), by which nothing can be held out; name another column, \
                 or leave the key out",
                quoted(column)
            ))),
            _ => Ok(()),
        }
    }

    /// What there is to say where the data has a split for validation.
    pub(crate) fn unused(&self) -> Option<String> {
        let (_, key) = self.column()?;
        Some(format!(
            "the data has a split for validation, so that {key} holds out nothing"
        ))
    }
}
