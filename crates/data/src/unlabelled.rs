//! Rows without a label, which are left out.

use crate::cell_values::is_missing;
use crate::files::quoted;
use crate::raw_label::RawLabel;
use crate::row::Row;

/// Which rows are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// None: each row must have a label.
    #[default]
    Nothing,
    /// Those with an empty label.
    Empty,
    /// Those with an empty label, or a word for a missing number.
    Missing,
}

impl LeftOut {
    /// Whether a row is left out.
    pub(crate) fn has(self, row: &Row) -> bool {
        match (self, &row.label) {
            (LeftOut::Empty, Some(RawLabel::One(label))) => label.is_empty(),
            (LeftOut::Missing, Some(RawLabel::One(label))) => is_missing(label),
            _ => false,
        }
    }
}

/// Rows that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unlabelled {
    pub(crate) count: usize,
    /// The place of the first one.
    pub(crate) first: Option<String>,
}

impl Unlabelled {
    /// Adds a row.
    pub(crate) fn add(&mut self, row: &Row) {
        self.count += 1;
        self.first.get_or_insert_with(|| row.place());
    }

    /// What there is to say of the rows of all splits, whose label is in this column.
    pub(crate) fn remark(splits: &[Unlabelled], column: Option<&str>) -> Option<String> {
        let count: usize = splits.iter().map(|split| split.count).sum();
        let first = splits.iter().find_map(|split| split.first.as_ref())?;
        let (have, are) = if count == 1 {
            ("row has", "is")
        } else {
            ("rows have", "are")
        };
        let what = column.map_or("label".to_string(), |column| {
            format!("value in the column {}", quoted(column))
        });
        Some(format!("{count} {have} no {what} and {are} left out, such as {first}"))
    }
}
